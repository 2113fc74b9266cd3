"""Where messages go: the console of the first rank, and a file of each rank in the run directory."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from petabatch.errors import PetabatchError

log = logging.getLogger("petabatch")


def console(quiet: bool) -> None:
    """Show messages on standard error; with `quiet` warnings and errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


def silence() -> None:
    """Show errors only: what ranks after the first do."""
    for handler in log.handlers:
        handler.setLevel(logging.ERROR)


@contextmanager
def to_file(path: Path, rank: int) -> Iterator[None]:
    """Write messages to `path` as well, or, for ranks after the first, to a file of their own beside it.

    Whatever ends the block stands there too: the console it was told on may be gone.
    """
    target = path if rank == 0 else path.with_suffix(f".rank{rank}{path.suffix}")
    handler = logging.FileHandler(target, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield
    except BaseException as error:
        told = str(error) if isinstance(error, PetabatchError) else "".join(traceback.format_exception(error))
        handler.handle(log.makeRecord(log.name, logging.ERROR, "", 0, told, (), None))
        raise
    finally:
        log.removeHandler(handler)
        handler.close()
        log.setLevel(before)
