"""Runs a sparse-coding loop by its compiled kernel, on the arrays of one lane."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np

from petabatch.fuse import Loop, find_loop
from petabatch.graph import Graph
from petabatch.kernels.loop import Workspace, compile_loop
from petabatch.layers import LCA
from petabatch.layers.transfer import Transfer
from petabatch.variable import Array

_NO_SUMS = np.zeros((0, 3))
_scratch = threading.local()


class FusedLoop:
    """The loop's steps for one slice; `run` replaces the layers' own updates."""

    def __init__(self, graph: Graph, loop: Loop, arrays: Mapping[str, Array]) -> None:
        network = graph.network
        layer, way = network.layers[loop.code], graph.wirings[loop.dictionary].link
        assert isinstance(layer, LCA)
        assert way is not None
        self.patches, self.layer, self.dt = way.patches, layer, network.run.dt
        self.state = {"V": arrays[f"layers/{loop.code}/V"]}
        if layer.time_scale is not None:
            self.state["time_scale"] = arrays[f"layers/{loop.code}/time_scale"]
        curve = layer.curve
        assert isinstance(curve, Transfer)
        self.compiled: Callable[..., None] = compile_loop(
            self.patches, curve.signed, curve.width > 0, layer.self_interact
        )
        self.curve = tuple(
            np.float32(x) for x in (curve.threshold, curve.shift, curve.width, curve.minimum, curve.maximum)
        )
        self.factor = np.float32(loop.image_factor)
        p = self.patches
        fine, units = (p.y.fine, p.x.fine * p.channels), (p.y.coarse * p.x.coarse, p.features)
        self.images = [
            arrays[f"layers/{name}/A"].reshape(fine) for name in (loop.image, loop.recon, loop.error)
        ]
        self.potential = self.state["V"].reshape(units)
        self.activity = arrays[f"layers/{loop.code}/A"].reshape(units)
        self.weights = arrays[f"connections/{loop.dictionary}/weights"].reshape(p.features, p.length)

    def load_weights(self) -> None:
        """Put the weights in the order of the drive; to be called by each thread when they changed."""
        self._workspace().by_pixel[...] = self.weights.T

    def run(self, steps: int) -> None:
        """Make `steps` steps."""
        image, recon, error = self.images
        work = self._workspace()
        e, rest = (np.float32(np.squeeze(x)) for x in self.layer.decays(self.dt, self.state, np))
        self.compiled(
            image, self.factor, recon, error, self.potential, self.activity, self.weights, work.by_pixel,
            e, rest, self.curve, steps, _NO_SUMS,
            work.recon, work.error, work.patches, work.drive, work.patch, work.active,
        )  # fmt: skip

    def _workspace(self) -> Workspace:
        """Return this thread's scratch space for this geometry."""
        spaces = _scratch.__dict__.setdefault("spaces", {})
        if self.patches not in spaces:
            spaces[self.patches] = Workspace(self.patches)
        return spaces[self.patches]  # type: ignore[no-any-return]


def fuse(graph: Graph, arrays: Mapping[str, Array]) -> FusedLoop | None:
    """Return the fused loop of a lane of one slice, or None where the network has none."""
    run = graph.network.run
    loop = find_loop(graph) if run.kernel == "auto" and run.precision == "float32" else None
    return FusedLoop(graph, loop, arrays) if loop is not None else None
