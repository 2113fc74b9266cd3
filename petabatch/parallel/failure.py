"""One rank that fails ends all of them: the others would wait for it for ever."""

from __future__ import annotations

import sys
import time
import traceback
from types import TracebackType
from typing import Any, NoReturn

from petabatch.errors import PetabatchError

_PRECEDENCE = 0.5
"""Seconds that ranks after the first wait with their message: what all ranks find together is said once."""


_PASSING = 0.3
"""Seconds left to the launcher to pass a last message on."""


def fail(message: str, code: int) -> NoReturn:
    """Print why this process cannot go on, naming the rank if there are several, and end all ranks."""
    world = _world()
    several = world is not None and world.size > 1
    if several and world.rank > 0:
        time.sleep(_PRECEDENCE)
    prefix = f"rank {world.rank} of {world.size}: " if several else ""
    # One write: lines of several ranks then do not mix.
    sys.stdout.flush()
    sys.stderr.write(f"{prefix}{message.rstrip()}\n")
    sys.stderr.flush()
    if several:
        # Launchers that end a run at once may drop what they have not yet passed on.
        time.sleep(_PASSING)
        world.Abort(code)
    sys.exit(code)


def end_all_on_error() -> None:
    """From now on an uncaught exception of this rank ends all ranks, with its message."""
    sys.excepthook = _uncaught


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, PetabatchError):
        message = f"{kind.__name__}: {error}"
    else:
        message = "".join(traceback.format_exception(kind, error, trace))
    fail(message, getattr(error, "exit_code", 1))


def _world() -> Any:
    """Return MPI's group of all ranks while MPI runs in this process, else None."""
    library: Any = sys.modules.get("mpi4py.MPI")
    running = library is not None and library.Is_initialized() and not library.Is_finalized()
    return library.COMM_WORLD if running else None
