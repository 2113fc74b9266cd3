"""The exception hierarchy. Every error states the location, what was found, what was expected, and a hint."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from petabatch.synonyms import EXPLAINED, SYNONYMS

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|[\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\ud800-\udfff]"
)
"""Characters that a terminal would obey instead of showing them."""
_LISTED = 40
"""Names in a message, at most."""


def printable(text: str) -> str:
    r"""Return a text as it may be written to a terminal: control characters as escapes such as `\x1b`.

    Titles, keys and file names are chosen by the author of the params or the run.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class PetabatchError(Exception):
    """Base class of all petabatch exceptions; `exit_code` is the exit code of the command line."""

    exit_code = 1
    refused: bool = False
    """It refuses what was asked of a run, which stays as it is: the log of the run says nothing of it."""
    slices: Sequence[int] = ()
    """Numbers of the slices that may have caused it; empty if unknown."""
    on_all_ranks = False
    """Whether all ranks of a program under MPI have this error."""
    step: int = 0
    """The step in which it was raised, 0 if unknown."""
    in_group = False
    """Whether all ranks that share the slice have it, at the same place of their steps."""

    def __str__(self) -> str:
        return printable(super().__str__())


@dataclass(frozen=True)
class Problem:
    """One error in a params file."""

    key: str
    """Dotted key path, such as `layers.V1.threshold`; empty for the file as a whole."""
    message: str
    """Description of the error, a sentence without its full stop."""
    found: str = ""
    expected: str = ""
    hint: str = ""
    line: int | None = None
    """One-based line number of the key in the params file, if there is a file."""

    def render(self, file: str) -> str:
        """Return the message printed for the user, one to four lines."""
        where = f"{file}:{self.line}" if self.line else file
        lines = [f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"]
        for label, text in (("found", self.found), ("expected", self.expected), ("hint", self.hint)):
            if text:
                lines.append(f"    {label + ':':10}{text}")
        return "\n".join(lines)


class ParamsError(PetabatchError):
    """Invalid network description; `problems` holds every error found, not only the first."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem], file: str = "network") -> None:
        self.problems = tuple(problems)
        self.file = file
        super().__init__("\n".join(problem.render(file) for problem in self.problems))


class TableError(ParamsError, ValueError):
    """Invalid values for a table built in Python; `file` is the name of its class."""


class InputError(PetabatchError):
    """Unusable input data: missing, truncated, of the wrong shape, or not finite."""

    key: str = ""
    """Key of the source that is at fault, where it is not the one that names the files."""

    def at(self, key: str) -> Self:
        """Return the error with the key that is at fault, unless that is known."""
        self.key = self.key or key
        return self


class Described(str):
    """What was found, in words: not a text that was given, which messages quote."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


MISSING = Described("")
"""What was found of an argument that is missing."""


class ArgumentError(InputError, ValueError):
    """An argument of a Python function, or an option of a command, that it cannot use."""

    def __init__(self, name: str, message: str, found: object, expected: str = "", hint: str = "") -> None:
        self.name, self.problem = name, Problem("", message, shortened(repr(found)), expected, hint)
        if name.startswith("--"):
            self.exit_code = 2  # as of what typer refuses
        super().__init__(self.problem.render(name))


class InputFileError(ParamsError, InputError):
    """Unusable input data that a params file names; `problems` has the keys that name it."""


class RunDirectoryError(PetabatchError):
    """A run directory already exists, is not a run directory, or cannot be written."""


class AlreadyDone(RunDirectoryError):
    """A run that is to be resumed has reached its end; of its directory only unfinished files are removed."""

    on_all_ranks = True
    refused = True


class StorageError(PetabatchError):
    """A file of a run cannot be written or read; files that were already complete are not affected."""


class FormatError(StorageError):
    """A file has another format version, or was not written by petabatch."""


class UnknownName(PetabatchError, KeyError):
    """Nothing of this name was recorded in the run."""

    def __str__(self) -> str:
        return printable(str(self.args[0]))


class NotRecorded(PetabatchError, IndexError):
    """A time, a slice or a part of a recorded array that does not exist."""


class DamagedError(StorageError):
    """A file of a run is not what was written, or is missing."""


class ResourceError(PetabatchError):
    """A required resource is not available: a GPU, an MPI library, an optional package."""


class NonFiniteError(PetabatchError):
    """A NaN or infinity occurred; the message names the layer or connection, the slice and the step."""

    def __init__(self, message: str, variable: str = "", step: int = 0) -> None:
        super().__init__(message)
        self.variable, self.step = variable, step


class PartError(PetabatchError):
    """A part that is not petabatch's own raised an error; the message names its table and its line."""


class ContractError(PetabatchError, AssertionError):
    """A type of parts does not keep its contract; see `petabatch.testing`."""


class PointsFailed(PetabatchError):
    """A sweep is complete but for points that became NaN or raised an error; the others are whole."""

    exit_code = 4
    on_all_ranks = True


class StoppedEarly(PetabatchError):
    """A signal or a time limit stopped a run early; one on disk can be resumed from its checkpoint."""

    exit_code = 3

    def __init__(self, message: str, rank: int = 0) -> None:
        super().__init__(message)
        self.rank = rank


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice most similar to `name`, None if no choice is similar."""
    known = {choice.lower(): choice for choice in choices}
    within = [choice for choice in known if choice.endswith(f".{name.lower()}")]
    if len(within) == 1:  # a key of an inner table
        return known[within[0]]
    if (first := name.lower().partition("_")[0]) in known and len(first) > 1:  # soft_threshold
        return known[first]
    if len(name) > 2:
        known = {choice: known[choice] for choice in known if len(choice) > 1}
    alike = {1: 0.5, 2: 0.5, 3: 0.6}.get(len(name), 0.65)  # of short names, one letter is much
    found = difflib.get_close_matches(name.lower(), known, n=1, cutoff=alike)
    if not found and len(name) > 2:  # an abbreviation
        found = [choice for choice in known if choice.startswith(name.lower())]
    return known[found[0]] if found else None


def with_article(noun: str) -> str:
    """Return a noun after `a` or `an`."""
    return f"{'an' if noun[0] in 'aeiouAEIO' else 'a'} {noun}"


def meant(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is a synonym of a name, else the most similar one.

    None if there is neither, or if the term has no counterpart here.
    """
    known, term = list(choices), name.lower()
    if any(choice in known for choice in EXPLAINED.get(term, ())):
        return None
    return next((one for one in SYNONYMS.get(term, ()) if one in known), None) or nearest(name, known)


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return "did you mean ...?" with a choice of this meaning, or the most similar one, or an empty string.

    Where a term of other programs has no counterpart, what there is instead.
    """
    known = list(choices)
    for choice, instead in EXPLAINED.get(name.lower(), {}).items():
        if choice in known:
            return instead
    found = meant(name, known)
    return f"did you mean {found}?" if found else ""


def unknown(kind: str, name: object, known: Iterable[str], alike: Iterable[str] = ()) -> UnknownName:
    """Return the error for an unknown name, with the first of those known.

    The hint may also be one of `alike`, names that will do.
    """
    names = list(known)
    hint = did_you_mean(str(name), [*names, *alike])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    text = f"there is no {kind} {name}\n    expected: {', '.join(names[:_LISTED])}{more}"
    return UnknownName(text + (f"\n    hint:     {hint}" if hint else ""))


def no_attribute(owner: object, name: str, hint: str = "") -> AttributeError:
    """Return the error for an attribute that an object does not have, with a hint at what may be meant."""
    public = [one for one in dir(owner) if one[0] != "_"]
    hint = hint or ("" if name[0] == "_" else did_you_mean(name, public))
    text = f"{type(owner).__name__!r} object has no attribute {name!r}"
    return AttributeError(f"{text}: {hint}" if hint else text, name=name)


def similar_path(path: Path, suits: Callable[[Path], bool] = Path.exists) -> str:
    """Return "did you mean ...?" with the sibling of `path` that suits and has the most similar name.

    If its folder is missing, that is the hint.
    """
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    siblings = [entry for entry in sorted(path.parent.iterdir()) if suits(entry)]
    alike = {entry.stem: entry.name for entry in siblings if entry.suffix == path.suffix}
    near = nearest(path.stem, alike)  # a common suffix makes no two names similar
    name = alike[near] if near else nearest(path.name, (e.name for e in siblings if e.suffix != path.suffix))
    return f"did you mean {path.parent / name}?" if name else ""


def install(extra: str) -> str:
    """Return how an extra is installed, for hints: petabatch is on no package index."""
    return f"pip install '.[{extra}]' in a checkout of petabatch"


def shortened(text: str, most: int = 80) -> str:
    """Return a text as it is quoted in a message, shortened if it is long."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
