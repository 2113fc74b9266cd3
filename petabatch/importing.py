"""Imports, and other work that makes many objects, without garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage while the block runs, which makes many objects that stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """Import modules while the block runs: they make 150,000 objects, among which there is no garbage.

    Later collections pass over them, also the last one before the interpreter ends. That one is needed: HDF5
    crashes at the end of the process if a virtual dataset is left, and garbage can hold one.
    """
    with uncollected():
        yield
        gc.freeze()
