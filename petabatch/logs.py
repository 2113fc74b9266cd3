"""Logging: to the console on rank 0, and to one file per rank in the run directory."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from petabatch.errors import PartError, PetabatchError, printable
from petabatch.threads import SharedContext

log = logging.getLogger("petabatch")

PATIENCE = 1.5
"""Seconds after which the log says what takes so long."""


class PrintableFormatter(logging.Formatter):
    """A formatter of texts that are read in a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line with control characters escaped."""
        return printable(super().format(record))


def console(quiet: bool) -> None:
    """Log to standard error; with `quiet`, warnings and errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter())
    handler.setLevel(logging.WARNING if quiet else logging.INFO)
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


def silence() -> None:
    """Show errors only, as on all ranks but the first."""
    for handler in log.handlers:
        handler.setLevel(logging.ERROR)


@contextmanager
def _on_console(quiet: bool) -> Iterator[None]:
    before = log.handlers, log.level, log.propagate
    console(quiet)
    try:
        yield
    finally:
        log.handlers, log.level, log.propagate = before


_CONSOLE = SharedContext(_on_console)


@contextmanager
def shown(quiet: bool) -> Iterator[None]:
    """Log to standard error in the block, unless the program has configured logging itself."""
    if log.hasHandlers() and not _CONSOLE.inside:
        yield
        return
    with _CONSOLE(quiet):
        yield


class _LogFile(logging.FileHandler):
    """The log of a run, which goes on where its log cannot be written."""

    failed = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Say once, on the console, why the file cannot be written."""
        if not self.failed:
            self.failed = True
            reason = getattr(sys.exc_info()[1], "strerror", None) or sys.exc_info()[1]
            log.warning("%s: cannot be written: %s; the run goes on without it", self.baseFilename, reason)

    def close(self) -> None:
        """Close the file; what cannot be written is lost."""
        with suppress(OSError):
            super().close()


class _RunLogs(logging.Filter):
    """What hands each record to the log of the run whose threads tell it."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[_LogFile] = []
        self.least = logging.NOTSET
        """Level from which handlers get records as without the logs of runs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Write a record, of a thread that belongs to no run to all logs; return whether handlers get it."""
        own = _OWN.get()
        for file in tuple(self.open):
            if own is None or own is file:
                file.handle(record)
        return record.levelno >= self.least


@contextmanager
def _in_detail() -> Iterator[None]:
    before, _RUNS.least = log.level, log.getEffectiveLevel()
    log.addFilter(_RUNS)
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.removeFilter(_RUNS)
        log.setLevel(before)


_RUNS = _RunLogs()
_OWN: ContextVar[_LogFile | None] = ContextVar("log of this run", default=None)
_DETAIL = SharedContext(_in_detail)


@contextmanager
def to_file(path: Path, rank: int) -> Iterator[None]:
    """Also log everything to `path`, or, on ranks other than 0, to a file of their own next to it.

    What other threads log, as where each makes a run, goes to the files of their own runs. An exception that
    ends the block is logged, too, since the console on which it is printed may be gone, but not one that has
    refused what was asked of the run.
    Handlers, also those of a program that uses this package, get what they would get without the file.
    """
    target = path if rank == 0 else path.with_suffix(f".rank{rank}{path.suffix}")
    file = _LogFile(target, encoding="utf-8", errors="backslashreplace")
    file.setFormatter(PrintableFormatter("%(asctime)s %(message)s"))
    with _DETAIL():
        _RUNS.open.append(file)
        before = _OWN.set(file)
        try:
            yield
        except BaseException as error:
            if isinstance(error, PetabatchError) and error.refused:
                raise
            plain = isinstance(error, PetabatchError) and not isinstance(error, PartError)
            text = str(error) if plain else "".join(traceback.format_exception(error))
            file.handle(log.makeRecord(log.name, logging.ERROR, "", 0, text, (), None))
            raise
        finally:
            _OWN.reset(before)
            _RUNS.open.remove(file)
            file.close()
