"""The code in the documentation: fenced blocks with their marks, and commands within lines."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/*.md", "benchmarks/README.md", "demos/**/*.md")
    for page in REPOSITORY.glob(pattern)
)
EXECUTED = ("bash", "python", "toml")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"<!-- not run: ((?:(?!-->).)+) -->\n\s*$", re.DOTALL)
_COMMAND = re.compile(r"`((?:mpirun -n \S+ |srun )?petabatch (?:[a-z]+\b|--)[^`]*)`")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    """The line of the page with its first line of code."""
    language: str
    text: str
    reason: str
    """Why it is not run; empty if it is."""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page."""
    text = page.read_text()
    found = []
    for match in _FENCE.finditer(text):
        mark = _MARK.search(text[: match.start()])
        line = text.count("\n", 0, match.start(3)) + 1
        code = re.sub(f"^{match[1]}", "", match[3], flags=re.MULTILINE)
        found.append(Block(page, line, match[2], code, " ".join(mark[1].split()) if mark else ""))
    return found


def inline_commands(page: Path) -> list[str]:
    """Return the petabatch commands that stand within lines."""
    return _COMMAND.findall(_FENCE.sub("", page.read_text()))


def merged(file: str, excerpt: str) -> dict[str, Any]:
    """Return the tables of a params file with those of an excerpt in it."""

    def merge(under: dict[str, Any], over: dict[str, Any], depth: int) -> dict[str, Any]:
        both = {**under, **over}
        if depth > 1:
            for key in under.keys() & over.keys():
                if isinstance(under[key], dict):
                    both[key] = merge(under[key], over[key], depth - 1)
        return both

    own, given = tomllib.loads(file), tomllib.loads(excerpt)
    if "steps" in given.get("run", {}):  # the length of the run, in place of that of the file
        del own["run"]["displays"]
    return merge(own, given, 3)


def toml(tables: dict[str, Any]) -> str:
    """Return the text of a params file."""
    return "".join(f"{key} = {_toml(value)}\n" for key, value in tables.items())


def _toml(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value)
        case _:
            return repr(value)
