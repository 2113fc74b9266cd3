"""The exception tree. Every error says where, what was found, what was expected, and the likely fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class PetabatchError(Exception):
    """The root of every error petabatch raises on purpose; `exit_code` is what the command line returns."""

    exit_code = 1


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a params file."""

    key: str
    """Dotted key path, as `layers.V1.threshold`; empty for the file as a whole."""
    message: str
    """What is wrong, as a sentence without its full stop."""
    found: str = ""
    expected: str = ""
    hint: str = ""
    line: int | None = None
    """One-based line of the key in the params file, where there is a file."""

    def render(self, file: str) -> str:
        """Return the problem as the two to four lines a user reads."""
        place = f"{file}:{self.line}" if self.line else file
        lines = [f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"]
        for label, text in (("found", self.found), ("expected", self.expected), ("hint", self.hint)):
            if text:
                lines.append(f"    {label + ':':10}{text}")
        return "\n".join(lines)


class ParamsError(PetabatchError):
    """A network description is wrong; carries every problem found, not only the first."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem], file: str = "params") -> None:
        self.problems = tuple(problems)
        self.file = file
        super().__init__("\n".join(problem.render(file) for problem in self.problems))


class InputError(PetabatchError):
    """Input data cannot be used: missing, truncated, of the wrong shape, or not finite."""


class RunDirectoryError(PetabatchError):
    """A run directory is in the way, is not one, or cannot be written."""


class StorageError(PetabatchError):
    """A file of a run cannot be written or read; what was complete before stays complete."""


class FormatError(StorageError):
    """A file was written by another format version, or is not one of ours."""


class ResourceError(PetabatchError):
    """Something asked for is not there: a GPU, an MPI library, an optional package."""


class NonFiniteError(PetabatchError):
    """A NaN or an infinity appeared; names the layer or connection, the slice and the step."""


class StoppedEarly(PetabatchError):
    """The run stopped before its end, on a signal or a limit, with a checkpoint to resume from."""

    exit_code = 3

    def __init__(self, message: str, rank: int = 0) -> None:
        super().__init__(message)
        self.rank = rank


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that `name` was most likely meant to be, None if none is near."""
    known = {choice.lower(): choice for choice in choices}
    found = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return known[found[0]] if found else None


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return "did you mean ...?" for the nearest choice, or nothing."""
    near = nearest(name, choices)
    return f"did you mean {near}?" if near else ""
