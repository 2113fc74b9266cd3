"""Where a network description came from: file, lines and overrides, for messages that point there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from petabatch.errors import ParamsError, Problem


@dataclass(frozen=True)
class Place:
    """A params file, the line of each key in it, and what the command line set."""

    file: str = "params"
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """One-based line of each key."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """What the command line set: dotted key to the text after `-s`."""

    def error(self, found: Iterable[Problem]) -> ParamsError:
        """Return the error for these problems, each with its line, in the order of the file."""
        return ParamsError(self.placed(found), self.file)

    def placed(self, found: Iterable[Problem]) -> list[Problem]:
        """Return the problems, each with its line or its override, in the order of the file."""
        lines = {".".join(path): line for path, line in self.lines.items()}
        return sorted((self._place(problem, lines) for problem in found), key=lambda p: p.line or 0)

    def _place(self, problem: Problem, lines: Mapping[str, int]) -> Problem:
        if problem.line is not None:
            return problem
        for key, text in self.overrides.items():
            # A table that stands nowhere in the file was begun by the override of a key in it.
            began = problem.key and problem.key not in lines and _inside(key, problem.key)
            if _inside(problem.key, key) or began:
                return replace(problem, message=f"{problem.message} (set by -s {text})")
        # Names may hold dots, so ever shorter prefixes are looked up as text.
        key = problem.key
        while key and key not in lines:
            key = key.rpartition(".")[0]
        return replace(problem, line=lines.get(key))


def _inside(key: str, table: str) -> bool:
    """Say whether dotted `key` is `table` or something in it."""
    return key == table or key.startswith(f"{table}.")
