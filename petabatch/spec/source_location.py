"""Source locations of a network description: file, lines and overrides, for error messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from petabatch.errors import ParamsError, Problem, shortened


@dataclass(frozen=True)
class SourceLocation:
    """A params file, the line of each key in it, and the overrides of the command line."""

    file: str = "network"
    """Path of the file; `network` for one that was built in Python."""
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """One-based line number of each key."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Command-line overrides: dotted key to the text after `-s`."""

    def error(self, found: Iterable[Problem]) -> ParamsError:
        """Return the error for these problems, each with its line, in file order."""
        return ParamsError(self.located(found), self.file)

    def placed(self, error: ParamsError) -> ParamsError:
        """Return the same error, each of its problems with its line."""
        return type(error)(self.located(error.problems), self.file)

    def located(self, found: Iterable[Problem]) -> list[Problem]:
        """Return the problems, each with its line or its override, in file order."""
        lines = {".".join(path): line for path, line in self.lines.items()}
        return sorted((self._locate(problem, lines) for problem in found), key=lambda p: p.line or 0)

    def _locate(self, problem: Problem, lines: Mapping[str, int]) -> Problem:
        if problem.line is not None:
            return problem
        for key, text in self.overrides.items():
            # A table that is not in the file was created by an override of one of its keys.
            created = problem.key and problem.key not in lines and _inside(key, problem.key)
            if _inside(problem.key, key) or created:
                first, newline, more = problem.message.partition("\n")
                return replace(problem, message=f"{first} (set by -s {shortened(text)}){newline}{more}")
        # Names may contain dots, so shorter and shorter prefixes are looked up as text.
        tables = (f"{table}.{problem.key}" for table in ("slices", "over_time"))
        key = next((one for one in tables if one in lines), problem.key)
        while key and key not in lines:
            key = key.rpartition(".")[0]
        return replace(problem, line=lines.get(key))


def _inside(key: str, table: str) -> bool:
    """Return whether dotted `key` is `table` or a key in it."""
    return key == table or key.startswith(f"{table}.")
