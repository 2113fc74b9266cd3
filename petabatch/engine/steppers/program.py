"""Runs the program of a step on the arrays of one slice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

import numpy as np

from petabatch.engine.steppers.program_tables import Tables, Workspace
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.gradient import dictionary_gradient, sums
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program.loop import advance
from petabatch.variable import Array

_workspaces = threading.local()


class ProgramStepper:
    """The steps of one slice by a program: the arrays of `Variable`s, each `[1, ...]`, updated in place."""

    def __init__(
        self,
        tables: Tables,
        arrays: Mapping[str, Array],
        calls: Mapping[str, Callable[[int], None]] | None = None,
    ) -> None:
        """Bind `tables` to a slice; `calls` makes a step of what is interpreted, by the key it writes to."""
        self.tables, self.state = tables, arrays
        self.calls = [(row, (calls or {})[call.out]) for row, call in tables.calls]
        self.rows = np.array(tables.rows, np.int64).reshape(-1, t.COLUMNS)
        self.numbers = np.array(tables.numbers, np.float64).reshape(-1, t.NUMBERS)
        self.sources = np.array(tables.sources, np.int64).reshape(-1, 3)
        self.factors = np.array(tables.factors, np.float32)
        self.bound = np.zeros((len(tables.numbers_of), 3), np.int64)
        for key, number in tables.numbers_of.items():
            if key in arrays:
                array = arrays[key]
                assert array.flags.c_contiguous
                depth = array.shape[1] if key.endswith("/A") else 1
                self.bound[number] = array.ctypes.data, array.size // depth, depth

    def load_weights(self) -> None:
        """Put the weights in reading order; to be called by each thread when they may have changed."""
        self._workspace.load(self.state)

    def run(self, first: int, last: int, fresh: bool, watched: np.ndarray | None = None) -> np.ndarray:
        """Make steps first + 1 .. last; `fresh` says that an image is new in the first of them.

        Returns the norms of the steps and quantities that are `watched`, `[steps, quantities]`.
        """
        space = self._workspace
        arrays = np.where(self.bound != 0, self.bound, space.arrays)
        if watched is None:
            watched = np.zeros((last - first, 1), np.bool_)
        found = np.zeros(watched.shape)

        def make(begin: int, end: int, step: int, to: int) -> None:
            these, new = slice(step - first, to - first), fresh and step == first
            advance(
                self.rows[begin:end], self.numbers[begin:end], self.sources, self.factors, arrays,
                space.shapes, step, to, last, new, watched[these], found[these],
            )  # fmt: skip

        if not self.calls or first == last:
            make(0, len(self.rows), first, last)
            return found
        for step in range(first, last):
            begin = 0
            for row, call in self.calls:
                make(begin, row, step, step + 1)
                call(step + 1)
                begin = row
            make(begin, len(self.rows), step, step + 1)
        return found

    def product(self, connection: str, against: str, step: int, product: Array, counts: Array | None) -> None:
        """Write the Hebbian product of a connection that scatters shared patches, and the counts."""
        graph = self.tables.graph
        link, c = graph.wirings[connection].link, graph.network.connections[connection]
        assert link is not None
        p = link.patches
        spaces = self._workspace.products
        if p not in spaces:
            spaces[p] = layout.shape(p), layout.scratch(p), sums(p)
        s, scratch, own = spaces[p]
        A, error = self.state[f"layers/{c.pre}/A"][0], self.state[f"layers/{against}/A"][0]
        code, residual = A[(step - c.delay) % len(A)].reshape(-1), error[step % len(error)]
        counts = None if counts is None else counts.reshape(p.features, -1)
        dictionary_gradient(
            code, residual.reshape(s.height, s.width), s, scratch, own, product.reshape(p.features, p.length),
            counts,
        )  # fmt: skip

    @property
    def _workspace(self) -> Workspace:
        spaces: WeakKeyDictionary[Tables, Workspace] = _workspaces.__dict__.setdefault(
            "by_tables", WeakKeyDictionary()
        )
        if self.tables not in spaces:
            spaces[self.tables] = Workspace(self.tables)
        return spaces[self.tables]
