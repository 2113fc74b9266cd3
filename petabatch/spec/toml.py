"""Line numbers of the keys of a TOML file, which the standard parser does not keep.

The scanner reads only table headers and keys, of text that the standard parser has already accepted.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

Path = tuple[str, ...]

_KEY = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*""")
_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL)
_PLAIN = re.compile(r"""\[[^][{}"'#]*\]""")
"""An array of numbers, which may be long, or of other values without keys."""


def positions(text: str) -> dict[Path, int]:
    """Return the one-based line number of every table and key of a valid TOML text, by key path.

    Entries of an array of tables are numbered, as in `("layers", "0", "type")`.
    """
    found: dict[Path, int] = {}
    for path, at in _Scanner(text).scan():
        line = text.count("\n", 0, at) + 1
        for depth in range(1, len(path) + 1):
            found.setdefault(path[:depth], line)
    return found


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.tables: dict[Path, int] = {}

    def scan(self) -> Iterator[tuple[Path, int]]:
        table: Path = ()
        while self._skip_blank():
            start = self.at
            if self.text[self.at] == "[":
                array = self.text.startswith("[[", self.at)
                self.at += 2 if array else 1
                *outer, last = self._keys()
                self.at += 2 if array else 1
                table = (*self._numbered(tuple(outer)), last)
                if array:
                    self.tables[table] = self.tables.get(table, -1) + 1
                    table = (*table, str(self.tables[table]))
                yield table, start
            else:
                yield from self._pair(table)

    def _pair(self, table: Path) -> Iterator[tuple[Path, int]]:
        start = self.at
        path = (*table, *self._keys())
        yield path, start
        self.at += 1  # the equals sign
        yield from self._value(path)

    def _numbered(self, table: Path) -> Path:
        """Return the path of a table, with the current index into each array of tables on it."""
        path: Path = ()
        for key in table:
            path = (*path, key)
            if path in self.tables:
                path = (*path, str(self.tables[path]))
        return path

    def _keys(self) -> Path:
        keys = []
        while match := _KEY.match(self.text, self.at):
            self.at = match.end()
            name = next(part for part in match.groups() if part is not None)
            keys.append(next(iter(tomllib.loads(f"{match[0]} = 0"))) if "\\" in name else name)
            if self.text[self.at : self.at + 1] != ".":
                break
            self.at += 1
        return tuple(keys)

    def _value(self, path: Path) -> Iterator[tuple[Path, int]]:
        """Skip a value, yielding the keys of inline tables inside it."""
        self._skip_blank()
        first = self.text[self.at]
        if first in "\"'":
            self._string()
        elif plain := _PLAIN.match(self.text, self.at):
            self.at = plain.end()
        elif first == "[":
            self.at += 1
            number = 0
            while self._skip_blank() and self.text[self.at] != "]":
                yield from self._value((*path, str(number)))
                number += 1
                self._skip_comma()
            self.at += 1
        elif first == "{":
            self.at += 1
            while self._skip_blank() and self.text[self.at] != "}":
                yield from self._pair(path)
                self._skip_comma()
            self.at += 1
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}#\n":
                self.at += 1

    def _string(self) -> None:
        match = _STRING.match(self.text, self.at)
        self.at = match.end() if match else len(self.text)

    def _skip_comma(self) -> None:
        if self._skip_blank() and self.text[self.at] == ",":
            self.at += 1

    def _skip_blank(self) -> bool:
        """Advance to the next character that is neither white space nor comment; False at the end."""
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif character.isspace():
                self.at += 1
            else:
                return True
        return False
