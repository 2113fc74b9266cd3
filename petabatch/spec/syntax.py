"""Syntax errors of TOML texts: their line, the usual cause, and the limit of nesting."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from petabatch.errors import Problem, shortened

DEEPEST = 64
"""Tables and arrays inside each other; parsing time and memory grow with the square of the depth."""

_QUOTED = r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\''
_PART = rf"(?:(?<![\w-])[\w-]+|{_QUOTED})[ \t]*"
_TOKEN = re.compile(
    rf"(?P<dotted>(?:{_PART}\.[ \t]*){{{DEEPEST}}})|(?P<open>[\[{{])|(?P<close>[\]}}])"
    rf'|"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|{_QUOTED}|#[^\n]*',
    re.DOTALL,
)
_LOCATION = re.compile(r" \(at line (\d+), column (\d+)\)")
_KEY_VALUE = rf"^[ \t]*{_PART}(?:\.[ \t]*{_PART})*="
_STARTS = {
    "Cannot overwrite a value": re.compile(rf"{_KEY_VALUE}|^[ \t]*\[", re.MULTILINE),
    "Unterminated string": re.compile(r'"""|\'\'\''),
}
"""How the statement begins at whose end, or beyond it, the parser notices the error."""

_HINTS = (
    ("Cannot overwrite a value", "", "a key can be set only once"),
    ("Cannot declare", "", "a table can be declared only once"),
    ("", r"^\s*//", "comments begin with #"),
    ("", r"=\s*(True|False)\b", "true and false are written in lower case"),
    ("", r"=\s*(None|null|nil)\b", "there is no such value: leave the key out"),
    ("", r"=\s*\(", "an array is written [1, 2]"),
    ("", r"=\s*[+-]?\d+,\d", "numbers have a decimal point, as in 0.5"),
    ("", r"=\s*[+-]?(\.\d|\d+\.(\D|$))", "numbers have digits on both sides of the point, as in 0.5 or 5.0"),
    ("", r"=\s*[+-]?0\d", "numbers have no leading zeros"),
    ("", r"=\s*(#.*)?$", "a value is missing after the equals sign"),
    ("Expected '='", r"^\s*[\w.-]+\s*:", "a key is set with an equals sign: key = value"),
    ("Expected '='", r"[^\x00-\x7f]", 'a key with other letters than a to z needs quotes: "key" = value'),
    ("Expected '='", "", "a key is set with an equals sign: key = value"),
    ("Invalid value", r"=\s*[A-Za-z_.]+\(", "there are no functions here: write the values, such as [0.1]"),
    ("Invalid value", "", 'a string needs quotes: "text"'),
    ("Illegal character", "", "a quoted string must end on the line on which it starts"),
    ("Unterminated string", "", "a string must end with the quotes with which it starts"),
    ("Unescaped '\\'", "", "write paths in single quotes, or with \\\\ for each backslash"),
    ("Invalid initial character", "", "an inline table { } must be on one line, no trailing comma"),
    ("Unclosed inline table", "", "an inline table { } must be on one line"),
    ("Unclosed array", "", "an array must end with ], and its values are separated by commas"),
    ("at the end of a table declaration", "", "a table is declared by its name in brackets: [layers.V1]"),
    ("Expected newline", "", "each key is set on a line of its own"),
    ("nested too deeply", "", f"at most {DEEPEST} tables and arrays can be inside each other"),
)  # fmt: skip
"""(words of the reason, pattern of the line, hint); the first that matches applies."""


def loads(text: str) -> dict[str, Any]:
    """Parse a TOML text; raises TOMLDecodeError for all that is wrong with it, deep nesting included."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token["open"] is not None) - (token["close"] is not None)
        if token["dotted"] or depth > DEEPEST:
            raise _error("nested too deeply", text, token.start())
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # an integer of more than 4300 digits
        digits = re.search(r"\d{4301}", text.replace("_", ""))
        raise _error(str(error).partition(";")[0], text, digits.start() if digits else 0) from None


def problem(error: tomllib.TOMLDecodeError, text: str) -> Problem:
    """Return a syntax error with its line number, the text of the line, and the usual cause as a hint."""
    match = _LOCATION.search(str(error))
    lines = text.rstrip("\n").split("\n")
    line, column = (int(match[1]), int(match[2])) if match else (len(lines), len(lines[-1]) + 1)
    reason = _LOCATION.sub("", str(error)).removesuffix(" (at end of document)")
    before = "\n".join([*lines[: line - 1], lines[line - 1][: column - 1]])
    for words, start in _STARTS.items():
        starts = [found.start() for found in start.finditer(before)] if words in reason else []
        if starts:
            line = before.count("\n", 0, starts[-1]) + 1
    if "Unclosed array" in reason:
        line = before.count("\n", 0, _unclosed(before)) + 1
    found = lines[line - 1].strip()
    hint = next((h for words, shape, h in _HINTS if words in reason and re.search(shape, found)), "")
    return Problem("", f"this is not valid TOML: {reason}", shortened(found), hint=hint, line=line)


def _unclosed(text: str) -> int:
    """Return where the innermost bracket is that a text leaves open."""
    places: list[int] = []
    for token in _TOKEN.finditer(text):
        if token["open"]:
            places.append(token.start())
        elif token["close"] and places:
            places.pop()
    return next((at for at in reversed(places) if text[at] == "["), len(text))


def _error(reason: str, text: str, at: int) -> tomllib.TOMLDecodeError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return tomllib.TOMLDecodeError(f"{reason} (at line {line}, column {column})")
