"""Progress bars: on a terminal, where messages appear above the bar, and in a Jupyter notebook."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Protocol

from petabatch.logs import log

if TYPE_CHECKING:
    from rich.console import Console

_CELLS = 30
"""Width of a bar in a notebook, in characters."""


class Bar(Protocol):
    """What shows how far a run is."""

    def show(self, step: int, head: str, tail: str) -> None:
        """Show that `step` is reached, with text before and after the bar."""

    def stop(self) -> None:
        """Leave the bar as it is."""


def bar(first: int, length: int) -> Bar | None:
    """Return a bar for steps `first` to `length`.

    Returns None where messages are not logged to standard error, or where that is neither a terminal nor the
    output of a notebook.
    """
    if not any(handler.level <= logging.INFO for handler in _console_handlers()):
        return None
    if sys.stderr is not None and sys.stderr.isatty():
        return TerminalBar(first, length)
    notebook = _notebook()
    return None if notebook is None else NotebookBar(notebook, first, length)


class TerminalBar:
    """One line at the bottom of a terminal; what is logged to the terminal meanwhile is printed above it."""

    def __init__(self, first: int, length: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        def text(field: str) -> TextColumn:
            column = Column(no_wrap=True, overflow="ellipsis")
            return TextColumn(f"{{task.fields[{field}]}}", table_column=column, markup=False)

        self._first = first
        self._console = Console(stderr=True)
        self._bar = Progress(
            text("head"),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=6)),
            text("tail"),
            console=self._console,
            expand=True,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("", total=length - first, head="", tail="")
        self._replaced = _console_handlers()
        self._above = [_AboveBar(self._console, handler) for handler in self._replaced]
        self._exchange(self._replaced, self._above)

    def show(self, step: int, head: str, tail: str) -> None:
        """Show that `step` is reached, with text before and after the bar."""
        self._bar.update(self._task, completed=step - self._first, head=head, tail=tail)
        self._bar.start()  # once

    def stop(self) -> None:
        """Leave the bar as it is."""
        self._bar.stop()
        self._exchange(self._above, self._replaced)

    def _exchange(self, old: list[Any], new: list[Any]) -> None:
        for before, after in zip(old, new, strict=True):
            log.removeHandler(before)
            log.addHandler(after)


class _AboveBar(logging.Handler):
    """Prints messages above the bar; the terminal breaks long lines, so that paths can be copied."""

    def __init__(self, console: Console, like: logging.Handler) -> None:
        super().__init__(like.level)
        self.setFormatter(like.formatter)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(self.format(record), soft_wrap=True, markup=False, highlight=False, emoji=False)


class NotebookBar:
    """A line of text in the output of a notebook's cell, which is replaced."""

    def __init__(self, display: Any, first: int, length: int) -> None:
        self._first, self._length = first, length
        self._shown = display({"text/plain": ""}, raw=True, display_id=True)

    def show(self, step: int, head: str, tail: str) -> None:
        """Show that `step` is reached, with text before and after the bar."""
        full = _CELLS * (step - self._first) // max(1, self._length - self._first)
        text = f"{head} {'█' * full}{'░' * (_CELLS - full)} {tail}"
        self._shown.update({"text/plain": text}, raw=True)

    def stop(self) -> None:
        """Leave the bar as it is."""


def _console_handlers() -> list[logging.Handler]:
    return [
        handler
        for handler in log.handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
    ]


def _notebook() -> Any:
    """Return the function that displays something in the cell of a Jupyter notebook, None outside of one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display

    return display
