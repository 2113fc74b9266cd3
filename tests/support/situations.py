"""What stands in a beginner's folder: the situations of `tests/system/mistakes.txt`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.commands import alone


def deep_arrays(folder: Path) -> None:
    """Replace the params file by one array inside another, many times."""
    (folder / "small.toml").write_text("[run]\nx = " + "[" * 100_000 + "]" * 100_000 + "\n")


def deep_keys(folder: Path) -> None:
    """Replace the params file by a key of many parts."""
    (folder / "small.toml").write_text("a." * 100_000 + "a = 1\n")


def run_directory(folder: Path) -> None:
    """Make a run directory `out`, finished."""
    alone(folder / "small.toml", "out")


SITUATIONS: dict[str, Callable[[Path], None]] = {
    function.__name__: function for function in (deep_arrays, deep_keys, run_directory)
}
