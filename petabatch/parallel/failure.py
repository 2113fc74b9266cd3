"""Termination of all ranks when one fails, since the others would wait for it for ever."""

from __future__ import annotations

import faulthandler
import math
import os
import platform
import signal
import sys
import time
import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

from petabatch.errors import PetabatchError, StoppedEarly, printable
from petabatch.parallel.comm import Comm
from petabatch.streams import flush_output, write_error

_PRECEDENCE = 0.5
"""Seconds by which other ranks delay their message, so that an error common to all is printed once."""

_AGREEMENT = 10
"""Seconds for which a rank with an error waits for the others to come with theirs."""

_DELIVERY = 0.3
"""Seconds given to the launcher to forward a last message."""

_ABORT = 5
"""Seconds after which this process ends if MPI does not: on a host whose link is cut it waits for ever."""


@contextmanager
def shared_errors(comm: Comm) -> Iterator[None]:
    """Find out whether all ranks have the same error in the block: then it is reported as on one; collective.

    An error of some ranks only may leave others inside of a collective operation of the block.
    """
    try:
        yield
    except PetabatchError as error:
        number = zlib.crc32(f"{type(error).__name__} {error}".encode())
        error.on_all_ranks = comm.agree(number + 1, _AGREEMENT)
        raise
    comm.agree(0, math.inf)


def fail(message: str, code: int, on_all_ranks: bool = False) -> NoReturn:
    """Print an error message, of several ranks with rank and host, and terminate all with `code`.

    One that is the same `on_all_ranks` is printed once, and all ranks end by themselves.
    """
    world = _world()
    several = world is not None and world.size > 1
    if several and on_all_ranks:
        if world.rank == 0:
            flush_output()
            write_error(f"{printable(message.rstrip())}\n")
        sys.exit(code)
    if several and world.rank > 0:
        time.sleep(_PRECEDENCE)
    prefix = f"rank {world.rank} of {world.size} (on {platform.node()}): " if several else ""
    flush_output()
    # A single write, so that lines of several ranks do not mix.
    write_error(f"{prefix}{printable(message.rstrip())}\n")
    if several:
        # Launchers may drop output that they have not yet forwarded when a run is aborted.
        time.sleep(_DELIVERY)
        # the only clock that runs while MPI keeps Python's lock
        faulthandler.dump_traceback_later(_ABORT, exit=True, file=os.open(os.devnull, os.O_WRONLY))
        world.Abort(code)
    sys.exit(code)


@contextmanager
def reporting() -> Iterator[None]:
    """Report every PetabatchError of the block as a message and an exit code, without a traceback.

    Under MPI an error on one rank ends all ranks, with that rank's message; an early stop is collective.
    """
    try:
        try:
            yield
        except SystemExit:  # as typer ends
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except StoppedEarly as error:
        if error.rank == 0:
            write_error(f"{error}\n")
        sys.exit(error.exit_code)
    except PetabatchError as error:
        fail(str(error), error.exit_code, error.on_all_ranks)
    except KeyboardInterrupt:
        write_error("interrupted\n")
        sys.exit(128 + signal.SIGINT)
    except MemoryError as error:
        fail(
            f"not enough memory: {error}\n"
            "    hint:     lower run.batch, use smaller layers, or distribute the slices over more machines "
            "with MPI",
            1,
        )
    except OSError as error:
        if error.filename is None:
            raise
        if isinstance(error, BrokenPipeError):  # as of `petabatch info DIR | head`
            flush_output()
            sys.exit(1)
        fail(f"{error.filename}: {error.strerror}", 1)


def end_all_on_error() -> None:
    """From now on, let an uncaught exception on this rank terminate all ranks, with its message."""
    sys.excepthook = _uncaught


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, PetabatchError):
        message = f"{kind.__name__}: {error}"
    else:
        message = "".join(traceback.format_exception(kind, error, trace))
    fail(message, getattr(error, "exit_code", 1), getattr(error, "on_all_ranks", False))


def _world() -> Any:
    """Return MPI's COMM_WORLD while MPI is initialised in this process, else None."""
    library: Any = sys.modules.get("mpi4py.MPI")
    running = library is not None and library.Is_initialized() and not library.Is_finalized()
    return library.COMM_WORLD if running else None
