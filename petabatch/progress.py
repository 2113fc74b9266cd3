"""Progress report of a run: a bar on a terminal, otherwise one line per display."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from petabatch.logs import PATIENCE, log

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

T = TypeVar("T")


class Progress:
    """Reports displays done, energy, active fraction, speed and time left of this process."""

    def __init__(self, first: int, length: int, display: int, slices: int, quiet: bool = False) -> None:
        self.first, self.length, self.display, self.slices, self.quiet = first, length, display, slices, quiet
        self.started = time.monotonic()
        self.last_display = first // display
        self.bar: Bar | None = None

    def __enter__(self) -> Progress:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self.bar = Progress(
                TextColumn("display {task.fields[display]}"),
                BarColumn(),
                TextColumn("{task.fields[numbers]}"),
                TimeRemainingColumn(compact=True),
                console=Console(stderr=True),
            )
            self.bar.start()
            self.task = self.bar.add_task(
                "", total=self.length - self.first, display=self._display(self.first), numbers=""
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, step: int, energy: float | None, active: float | None) -> None:
        """Report the state after `step`: means over slices, None if not measured."""
        elapsed = max(time.monotonic() - self.started, 1e-9)
        speed = (step - self.first) * self.slices / elapsed
        left = (self.length - step) * self.slices / speed if speed else 0.0
        parts = [f"energy {energy:.2f}"] if energy is not None else []
        parts += [f"active {active:.2%}"] if active is not None else []
        parts += [f"{speed:,.0f} slice·steps/s"]
        if self.bar is not None:
            self.bar.update(
                self.task, completed=step - self.first, display=self._display(step), numbers="  ".join(parts)
            )
        if step // self.display > self.last_display or step == self.length:
            self.last_display = step // self.display
            done, all_of_them = step // self.display, -(-self.length // self.display)
            line = f"display {done} of {all_of_them}  {'  '.join(parts)}  {_clock(left)} left"
            log.log(logging.DEBUG if self.bar is not None or self.quiet else logging.INFO, line)

    def _display(self, step: int) -> str:
        return f"{-(-step // self.display)} of {-(-self.length // self.display)}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def with_progress(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Yield the items; if that takes long, show a progress bar on a terminal, otherwise log `what`."""
    started, shown = time.monotonic(), False
    verbose = any(handler.level <= logging.INFO for handler in log.handlers)
    with ExitStack() as stack:
        bar: Bar | None = None
        for done, item in enumerate(items):
            if verbose and not shown and time.monotonic() - started > PATIENCE:
                shown = True
                if sys.stderr.isatty():
                    from rich.console import Console
                    from rich.progress import Progress

                    bar = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
                    task = bar.add_task(what, total=total, completed=done)
                else:
                    log.info(what)
            if bar is not None and done % 64 == 0:
                bar.update(task, completed=done)
            yield item
