"""Runs a sparse-coding loop by its compiled kernel, on the arrays of one slice."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from petabatch.fuse import Loop, find_loop
from petabatch.geometry import Patches
from petabatch.graph import Graph
from petabatch.kernels import cpu, cpu_layout
from petabatch.kernels.cpu_gradient import dictionary_gradient
from petabatch.kernels.cpu_rows import advance_rows
from petabatch.layers import LCA
from petabatch.layers.transfer import Transfer
from petabatch.spec.parts import Learning
from petabatch.variable import Array

_NO_SUMS = np.zeros((0, 3))
_spaces = threading.local()
_SHARED_STEP = 50_000_000
"""Multiply-adds of a step, a millisecond or so, from which several threads share the rows of a slice."""


class Space:
    """What a thread needs to work on slices of one geometry: scratch, and the weights in reading order."""

    def __init__(self, p: Patches) -> None:
        self.shape = cpu_layout.shape(p)
        self.scratch = cpu_layout.scratch(p)
        self.dictionary = cpu_layout.dictionary(p)
        self.counts = np.zeros((p.features, p.y.size, p.x.size), np.int64)
        self._more: list[cpu_layout.Scratch] = []

    def scratches(self, p: Patches, threads: int) -> list[cpu_layout.Scratch]:
        """Return scratch for this thread and others that help it; made once."""
        while len(self._more) < threads - 1:
            self._more.append(cpu_layout.scratch(p))
        return [self.scratch, *self._more[: threads - 1]]


@dataclass(frozen=True)
class Rows:
    """Threads that work on one slice together."""

    pool: Executor
    threads: int


class FusedLoop:
    """The loop's steps for one slice; `run` replaces the layers' own updates."""

    def __init__(self, graph: Graph, loop: Loop, arrays: Mapping[str, Array]) -> None:
        network = graph.network
        layer, way = network.layers[loop.code], graph.wirings[loop.dictionary].link
        assert isinstance(layer, LCA)
        assert way is not None
        assert isinstance(layer.curve, Transfer)  # `find_loop` takes no other
        self.patches, self.layer, self.dt, self.curve = way.patches, layer, network.run.dt, layer.curve
        self.state = {"V": arrays[f"layers/{loop.code}/V"]}
        if layer.time_scale is not None:
            self.state["time_scale"] = arrays[f"layers/{loop.code}/time_scale"]
        self.factor = np.float32(loop.image_factor)
        self.code, self.residual = loop.code, loop.error
        self.rows: Rows | None = None
        """Threads that share the rows of this slice, when there are more threads than slices."""
        p = self.patches
        self.image, self.recon, self.error = (
            arrays[f"layers/{name}/A"].reshape(p.y.fine, p.x.fine * p.channels)
            for name in (loop.image, loop.recon, loop.error)
        )
        self.potential = self.state["V"].reshape(-1)
        self.activity = arrays[f"layers/{loop.code}/A"].reshape(-1)
        self.dictionary = loop.dictionary
        self.weights = arrays[f"connections/{loop.dictionary}/weights"].reshape(p.features, p.length)

    @property
    def worth_sharing(self) -> bool:
        """Say whether a step takes much longer than threads take to meet."""
        return self.patches.multiply_adds > _SHARED_STEP

    def load_weights(self) -> None:
        """Put the weights in reading order; to be called by each thread when they may have changed."""
        cpu_layout.pack(self.weights, self.patches, self._space().dictionary)

    def run(self, steps: int) -> None:
        """Make `steps` steps."""
        space, curve = self._space(), self.curve
        e, rest = (np.float32(np.squeeze(x)) for x in self.layer.decays(self.dt, self.state, np))
        cell = cpu.cell(
            e, rest, self.layer.self_interact, curve.threshold, curve.shift, curve.width, curve.minimum,
            curve.maximum, curve.signed,
        )  # fmt: skip
        state = (self.image, self.factor, self.recon, self.error, self.potential, self.activity)
        if self.rows is None:
            cpu.advance(*state, space.dictionary, cell, space.shape, space.scratch, steps, _NO_SUMS)
        else:
            works = space.scratches(self.patches, self.rows.threads)
            advance_rows(self.rows.pool, *state, space.dictionary, cell, space.shape, works, steps)

    def learns(self, connection: str, pre: str, against: str, rule: Learning) -> bool:
        """Say whether `gradient` gives the product of this connection's rule."""
        plain = type(rule).tally is Learning.tally
        return plain and (connection, pre, against) == (self.dictionary, self.code, self.residual)

    def gradient(self, product: Array, counts: Array | None) -> None:
        """Write the Hebbian product of code and error, and the counts of active units behind each weight."""
        p, tallied = self.patches, self._space().counts
        units = self.activity.reshape(-1, p.features)
        dictionary_gradient(units, self.error, p, product.reshape(p.features, p.length), tallied)
        if counts is not None:
            counts.reshape(*tallied.shape, p.channels)[...] = tallied[..., None]

    def _space(self) -> Space:
        """Return this thread's own space for this geometry."""
        spaces: dict[Patches, Space] = _spaces.__dict__.setdefault("by_patches", {})
        if self.patches not in spaces:
            spaces[self.patches] = Space(self.patches)
        return spaces[self.patches]


def fuse(graph: Graph, arrays: Mapping[str, Array]) -> FusedLoop | None:
    """Return the fused loop of a lane of one slice, or None where the network has none."""
    run = graph.network.run
    loop = find_loop(graph) if run.kernel == "auto" and run.precision == "float32" else None
    return FusedLoop(graph, loop, arrays) if loop is not None else None
