"""Lazy evaluation of the code against computing all units, on crops of photographs.

Two dense `sgemm` (the floor), the dense loop and the lazy loop take turns on one thread, in the thread's own
processor time; every round is another crop, coded from nothing. Printed are the medians of the ratios to the
floor, the least of each, and how many units were computed and active, in the mean over steps and at the end.

    python benchmarks/bench_lazy.py                       # learned and random dictionary of W1
    python benchmarks/bench_lazy.py learned random W3 100     # the last: W1, random, of fewer steps
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import numpy as np
import threadpoolctl
from bench_lca_step import clock, floor, patches

from petabatch.engine.steppers.bind import cell_arrays, cell_constants, step_control
from petabatch.geometry import Patches
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.certificate import NO_LOOKS
from petabatch.kernels.cpu.lazy import layout as lazy_layout
from petabatch.kernels.cpu.lazy.bound import choose_direction
from petabatch.kernels.cpu.lazy.step import advance_lazily
from petabatch.kernels.cpu.sizes import padded_units
from petabatch.kernels.cpu.step import advance
from petabatch.layers import LCA
from petabatch.sources.photographs import Photographs

THRESHOLD = 0.55
DICTIONARY = Path(__file__).parents[1] / "params" / "dictionary_8x8x3.npy"
# image, features, patch, stride, steps, rounds, repetitions of the floor
W1, W3 = (32, 128, 8, 2, 400, 16, 30), (256, 512, 16, 4, 50, 8, 4)


class Side:
    """One crop coded by one kernel."""

    def __init__(self, p: Patches, weights: np.ndarray, image: np.ndarray) -> None:
        layer = LCA(shape=(p.y.coarse, p.x.coarse, p.features), tau=100, threshold=THRESHOLD)
        state = {name: np.zeros(p.positions * p.features, "f4") for name in ("A", "V")}
        self.image = image.reshape(p.y.fine, -1)
        self.recon, self.error = np.zeros_like(self.image), np.zeros_like(self.image)
        self.units, self.cell = (
            cell_arrays(layer.compiled_rule(), state),
            cell_constants(layer.compiled_rule()),
        )
        self.control = step_control(layer.compiled_rule(), 1, {}, None)
        self.s, self.work = layout.shape(p), layout.scratch(p)
        self.dictionary, self.scratch = layout.dictionary(p), lazy_layout.lazy_scratch(p)
        layout.pack(weights, p, self.dictionary)
        self.features = lazy_layout.features(p, self.dictionary.groups)
        lazy_layout.fill(weights, p, self.features)
        self.state = lazy_layout.lazy_state(p, np.zeros(padded_units(p), "f4"))
        self.computed = 0.0

    def images(self) -> layout.Images:
        """Return the images of the crop."""
        return layout.Images(self.image, np.float32(1), self.recon, self.error)

    def dense(self, steps: int) -> None:
        """Make steps that compute all units."""
        record = layout.StepSums(np.zeros(steps, bool), np.zeros((steps, 3)))
        model = layout.Model(self.dictionary, self.cell, self.s)
        advance(self.images(), self.units, model, self.control, True, self.work, record, NO_LOOKS)

    def lazy(self, steps: int) -> None:
        """Make steps, from nothing, that compute the units which are due."""
        record = layout.StepSums(np.zeros(steps, bool), np.zeros((steps, 3)))
        decay, images = lazy_layout.decay_table(self.control.e, self.control.gain), self.images()
        model = lazy_layout.LazyModel(self.features, self.cell, decay, self.s)
        choose_direction(images, self.state, model, self.work, self.scratch)
        _, _, computed = advance_lazily(
            images, self.units, self.state, model, 0, 0, self.work, self.scratch, record, NO_LOOKS,
            self.dictionary,
        )  # fmt: skip
        self.computed = computed / max(steps, 1) / self.units.A.size


def measure(
    name: str, size: int, features: int, patch: int, stride: int, steps: int, rounds: int, n: int
) -> None:
    p = patches(size, 3, features, patch, stride)
    weights = np.random.default_rng(1).standard_normal((features, p.length)).astype("f4")
    if name == "learned":
        weights = np.load(DICTIONARY).reshape(features, p.length).astype("f4")
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    source = Photographs(crop="random", contrast=0.05, normalize="standard")
    read = source.open((size, size, 3), rounds, 1)
    times, computed, active = [], [], []
    base = floor(p)
    base(1)
    for index in range(rounds):
        dense, lazy = (Side(p, weights, np.asarray(read(index, 0), np.float32)) for _ in range(2))
        dense.dense(0), lazy.lazy(0)
        before = clock(base, n)
        mine = [clock(dense.dense, steps), clock(lazy.lazy, steps)]
        times.append([min(before, clock(base, n)), *mine])
        computed.append(lazy.computed)
        active.append(float((lazy.units.A != 0).mean()))
        assert np.mean((dense.units.A != 0) != (lazy.units.A != 0)) < 1e-4
    least = [min(column) for column in zip(*times, strict=True)]
    ratios = [statistics.median(row[side] / row[0] for row in times) for side in (1, 2)]
    print(
        f"{name}, {steps} steps: floor {least[0]:.0f} us; dense / floor median {ratios[0]:.3f}, best "
        f"{least[1] / least[0]:.3f}; lazy / floor median {ratios[1]:.3f}, best {least[2] / least[0]:.3f}; "
        f"computed {np.mean(computed):.1%} ({features * np.mean(computed):.1f} of {features} at a position), "
        f"active at the end {np.mean(active):.1%}",
        flush=True,
    )


def main() -> None:
    threadpoolctl.threadpool_limits(1)
    for library in threadpoolctl.threadpool_info():
        print(library["internal_api"], library.get("version"), library.get("architecture"))
    for name in sys.argv[1:] or ["learned", "random"]:
        workload = W3 if name == "W3" else (*W1[:4], int(name), *W1[5:]) if name.isdigit() else W1
        measure(name, *workload)


if __name__ == "__main__":
    main()
