"""Progress report of a run: a bar on a terminal or in a notebook, otherwise lines at growing intervals."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from petabatch.bars import Bar, bar
from petabatch.clock import Clock
from petabatch.logs import PATIENCE, log

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar

T = TypeVar("T")

_WINDOW = 30.0
"""Seconds over which the rate is measured."""


_SHORTEST, _LONGEST = 1.0, 60.0
"""Seconds between two lines, at least: a hundredth of those since the start, within these bounds."""


class Rate:
    """Steps per second in the last half minute."""

    def __init__(self, step: int, now: float) -> None:
        self._seen = deque([(now, step)])

    def note(self, step: int, now: float) -> float:
        """Take in that `step` is reached; return the rate, 0 if it is not known."""
        self._seen.append((now, step))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW:
            self._seen.popleft()
        begin, first = self._seen[0]
        return (step - first) / (now - begin) if now > begin else 0.0


class Progress:
    """Reports displays done, what probes measured, rate and time left of this process."""

    def __init__(
        self,
        first: int,
        length: int,
        display: int,
        slices: int,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
        kernels: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`kernels` returns the seconds of loading and compiling kernels so far, which rates leave out."""
        self.first, self.length, self.slices, self.quiet = first, length, slices, quiet
        self.times = Clock(display)
        self.last_display = self.times.complete(first)
        self._clock, self._kernels, self._before = clock, kernels, (clock(), kernels())
        self._rate = Rate(first, clock() - kernels())
        self._bar: Bar | None = None
        self._began, self._logged = time.monotonic(), -math.inf

    def __enter__(self) -> Progress:
        if not self.quiet:
            self._bar = bar(self.first, self.length)
        self._show(self.first, "")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, step: int, total: tuple[str, float] | None, fraction: tuple[str, float] | None) -> None:
        """Report the state after `step`: the total of a probe and the fraction of one, by its name.

        The log has a line at the end of the run, and at ends of displays where the last line is not recent.
        """
        rate = self._rate.note(step, self._clock() - self._kernels())
        # The total of a network that diverges has hundreds of digits.
        parts = (
            [f"{total[0]} {total[1]:{'.2f' if abs(total[1]) < 1e9 else '.3g'}}"] if total is not None else []
        )
        parts += [f"{fraction[0]} {fraction[1]:.2%}"] if fraction is not None else []
        if rate:
            parts += [f"{rate * self.slices:,.0f} slice·steps/s"]
            parts += [f"{clock_text((self.length - step) / rate)} left"]
        text = "  ".join(parts)
        self._show(step, text)
        if self.times.complete(step) > self.last_display or step == self.length:
            self.last_display = self.times.complete(step)
            now = time.monotonic()
            pause = min(max(_SHORTEST, (now - self._began) / 100), _LONGEST)
            if now - self._logged >= pause or step == self.length:
                self._logged = now
                seen = logging.DEBUG if self._bar is not None or self.quiet else logging.INFO
                log.log(seen, "%s  %s", self._displays(self.last_display), text)

    def summary(self, step: int) -> str:
        """Return how long the steps up to `step` took, with kernels, and the mean rate without them."""
        whole, kernels = self._clock() - self._before[0], self._kernels() - self._before[1]
        return duration_and_rate(whole, kernels, (step - self.first) * self.slices)

    def _show(self, step: int, text: str) -> None:
        if self._bar is not None:
            self._bar.show(step, self._displays(self.times.begun(step)), text)

    def _displays(self, done: int) -> str:
        return f"{'display' if self.times.display > 1 else 'step'} {done} of {self.times.begun(self.length)}"


def duration_and_rate(seconds: float, kernels: float, slice_steps: int) -> str:
    """Return how long steps took, with the seconds for `kernels`, and the mean rate without them."""
    rate = slice_steps / (seconds - kernels) if seconds > kernels else 0.0
    compiling = f", {clock_text(kernels)} of it for kernels" if kernels >= 1 else ""
    return f"{clock_text(seconds)}{compiling}, {rate:,.0f} slice·steps/s"


def clock_text(seconds: float) -> str:
    """Return a duration as `M:SS` or `H:MM:SS`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def with_progress(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Yield the items; if that takes long, show a progress bar on a terminal, otherwise log `what`."""
    started, shown = time.monotonic(), False
    verbose = any(handler.level <= logging.INFO for handler in log.handlers)
    with ExitStack() as stack:
        shown_bar: RichBar | None = None
        for done, item in enumerate(items):
            if verbose and not shown and done < total - 1 and time.monotonic() - started > PATIENCE:
                shown = True
                if sys.stderr is not None and sys.stderr.isatty():
                    from rich.console import Console
                    from rich.progress import Progress

                    shown_bar = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
                    task = shown_bar.add_task(what, total=total, completed=done)
                else:
                    log.info(what)
            if shown_bar is not None and done % 64 == 0:
                shown_bar.update(task, completed=done)
            yield item
