"""Errors raised inside parts that are not petabatch's own, with the name of their table and their line."""

from __future__ import annotations

import inspect
import traceback
from types import TracebackType
from typing import Any

from pydantic_core import PydanticCustomError

from petabatch.equations.grammar import EquationError
from petabatch.errors import PartError, PetabatchError
from petabatch.spec.model import Part, is_built_in


class calling:
    """A block that calls a part; its errors name the table at `key`, and in which step it was.

    Errors of petabatch's own parts pass unchanged: they are not the user's.
    """

    __slots__ = ("_key", "_part", "_step")

    def __init__(self, part: Part, key: str, step: int | None = None) -> None:
        self._part, self._key, self._step = part, key, step

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise PartError in place of what a plug-in has raised."""
        known = isinstance(error, PetabatchError | MemoryError)
        if isinstance(error, Exception) and not (known or is_built_in(type(self._part))):
            when = "" if self._step is None else f" in step {self._step}"
            what = f"the plug-in type {getattr(self._part, 'type', '')} fails{when}"
            raise PartError(
                f"{self._key}: {what}: {type(error).__name__}: {error}{_place(type(self._part), error)}"
            ) from error


def declared(function: Any) -> str:
    """Return the file and line of a function of a plug-in, for the beginning of a message."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "


def _place(part: type[Part], error: Exception) -> str:
    """Return the last line of the part's own file that led to an error."""
    try:
        file = inspect.getfile(part)
    except (TypeError, OSError):
        return ""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"\n    found:    {file}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""


def equation_error(error: EquationError) -> PydanticCustomError:
    """Return an error of a text of a part as one of its model."""
    about = {"got": error.found, "expected": error.expected, "hint": error.hint}
    return PydanticCustomError("equation", str(error).replace("{", "(").replace("}", ")"), about)
