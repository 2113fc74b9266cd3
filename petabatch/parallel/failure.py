"""Termination of all ranks when one fails, since the others would wait for it for ever."""

from __future__ import annotations

import sys
import time
import traceback
from types import TracebackType
from typing import Any, NoReturn

from petabatch.errors import PetabatchError

_PRECEDENCE = 0.5
"""Seconds by which other ranks delay their message, so that an error common to all is printed once."""

_DELIVERY = 0.3
"""Seconds given to the launcher to forward a last message."""


def fail(message: str, code: int) -> NoReturn:
    """Print an error message, with the rank if there are several, and terminate all ranks with `code`."""
    world = _world()
    several = world is not None and world.size > 1
    if several and world.rank > 0:
        time.sleep(_PRECEDENCE)
    prefix = f"rank {world.rank} of {world.size}: " if several else ""
    # A single write, so that lines of several ranks do not mix.
    sys.stdout.flush()
    sys.stderr.write(f"{prefix}{message.rstrip()}\n")
    sys.stderr.flush()
    if several:
        # Launchers may drop output that they have not yet forwarded when a run is aborted.
        time.sleep(_DELIVERY)
        world.Abort(code)
    sys.exit(code)


def end_all_on_error() -> None:
    """From now on, let an uncaught exception on this rank terminate all ranks, with its message."""
    sys.excepthook = _uncaught


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, PetabatchError):
        message = f"{kind.__name__}: {error}"
    else:
        message = "".join(traceback.format_exception(kind, error, trace))
    fail(message, getattr(error, "exit_code", 1))


def _world() -> Any:
    """Return MPI's COMM_WORLD while MPI is initialised in this process, else None."""
    library: Any = sys.modules.get("mpi4py.MPI")
    running = library is not None and library.Is_initialized() and not library.Is_finalized()
    return library.COMM_WORLD if running else None
