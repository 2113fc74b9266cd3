"""Time of one step of the compiled sparse-coding loop against the floor of dense arithmetic.

The floor is two `sgemm` per step, drive and reconstruction, by numpy's BLAS on one thread with the shapes of
one slice. Both are timed in turns, in the thread's own processor time; printed are the best of each and the
median of the ratios.

    python benchmarks/bench_lca_step.py            # W1 W1L W3 W5
    python benchmarks/bench_lca_step.py W1 W4
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import threadpoolctl

from petabatch import geometry
from petabatch.engine.steppers.bind import cell_arrays, cell_constants, step_control
from petabatch.geometry import Patches
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.certificate import NO_LOOKS
from petabatch.kernels.cpu.step import advance
from petabatch.layers import LCA

ROUNDS = 15
# image, channels, features, patch, stride, warm-up steps, fraction of active units to aim at
WORKLOADS = {
    "W1": (32, 3, 128, 8, 2, 400, 0.08),
    "W1L": (32, 3, 128, 8, 2, 400, 0.04),
    "W3": (256, 3, 512, 16, 4, 20, 0.04),
    "W4": (1024, 1, 64, 12, 2, 5, 0.05),
    "W5": (16, 1, 32, 8, 1, 400, 0.08),
}


def patches(size: int, channels: int, features: int, patch: int, stride: int) -> Patches:
    units = size // stride
    return geometry.make_link((units, units, features), (size, size, channels), (patch, patch), True).patches


def loop(p: Patches, steps: int, active: float) -> tuple[Callable[[int], None], float]:
    """Return a function that makes steps on a state of about the activity wanted, and the activity found."""
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((p.features, p.length)).astype("f4")
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    image = rng.standard_normal((p.y.fine, p.x.fine * p.channels)).astype("f4")
    low, high = 0.0, 4.0
    s, work, packed = layout.shape(p), layout.scratch(p), layout.dictionary(p)
    layout.pack(weights, p, packed)
    for _ in range(8):
        threshold = (low + high) / 2
        images = layout.Images(image, np.float32(1), np.zeros_like(image), np.zeros_like(image))
        code = {name: np.zeros(p.positions * p.features, "f4") for name in ("A", "V")}
        layer = LCA(shape=(p.y.coarse, p.x.coarse, p.features), tau=100, threshold=threshold)
        control = step_control(layer.compiled_rule(), 1, {}, None)
        model = layout.Model(packed, cell_constants(layer.compiled_rule()), s)
        arguments = (images, cell_arrays(layer.compiled_rule(), code), model, control, True, work)

        def run(n: int, arguments: tuple = arguments) -> None:
            advance(*arguments, layout.StepSums(np.zeros(n, bool), np.zeros((n, 3))), NO_LOOKS)

        run(steps)
        found = float((code["A"] != 0).mean())
        low, high = (threshold, high) if found > active else (low, threshold)
    return run, found


def floor(p: Patches) -> Callable[[int], None]:
    rng = np.random.default_rng(2)
    rows, weights = rng.standard_normal((p.positions, p.length)), rng.standard_normal((p.features, p.length))
    a, w, d = rows.astype("f4"), weights.astype("f4"), np.zeros((p.positions, p.features), "f4")
    by_pixel = np.ascontiguousarray(w.T)

    def run(n: int) -> None:
        for _ in range(n):
            np.dot(a, by_pixel, out=d)
            np.dot(d, w, out=a)
            a.fill(1.0)  # keep numbers tame; not worth a percent

    return run


def clock(run: Callable[[int], None], steps: int) -> float:
    begin = time.thread_time()
    run(steps)
    return (time.thread_time() - begin) / steps * 1e6


def main() -> None:
    threadpoolctl.threadpool_limits(1)
    for library in threadpoolctl.threadpool_info():
        print(library["internal_api"], library.get("version"), library.get("architecture"))
    for name in sys.argv[1:] or ["W1", "W1L", "W3", "W5"]:
        size, channels, features, patch, stride, steps, active = WORKLOADS[name]
        p = patches(size, channels, features, patch, stride)
        begin = time.perf_counter()
        step, found = loop(p, steps, active)
        ready = time.perf_counter() - begin
        dense = floor(p)
        n = max(5, int(6e8 / (4 * p.multiply_adds)))
        dense(1)
        pairs = [(clock(dense, n), clock(step, n)) for _ in range(ROUNDS)]
        a, b = (min(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(mine / base for base, mine in pairs)
        rate = 4e-3 * p.multiply_adds / a
        print(
            f"{name}: {found:.1%} active; floor {a:.1f} us ({rate:.0f} GFLOP/s), step {b:.1f} us; "
            f"step/floor best {b / a:.3f}, median {ratio:.3f}; ready in {ready:.1f} s"
        )


if __name__ == "__main__":
    main()
