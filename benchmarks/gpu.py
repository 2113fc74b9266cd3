"""The GPU kernels: how near to float64, how fast, and against a PyTorch loop in the same run.

Everything is measured side by side on one GPU with CUDA events, in turns; printed are medians, and ratios of
medians of one run. Ceilings are measured here too: a large float32 and TF32 matrix product, and a copy.

    python benchmarks/gpu.py                        # W1 with 16, 132, 1024 slices; W3 with 8, 64
    python benchmarks/gpu.py W1 --slices 132 --no-torch
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from petabatch import geometry
from petabatch.engine import gpu
from petabatch.errors import ResourceError
from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cpu_units import LEAKY, Units, cell
from petabatch.kernels.cuda.loop import LoopKernels
from petabatch.layers.transfer import Transfer

ROUNDS = 7
# image, channels, features, patch, stride, steps at a time, threshold, slices
WORKLOADS = {
    "W1": (32, 3, 128, 8, 2, 400, 0.55, (16, 132, 1024)),
    "W3": (256, 3, 512, 16, 4, 50, 0.55, (8, 64)),
}
DECAY = math.exp(-1 / 100)


class Problem:
    """Slices that show random images, smooth as photographs are, and a random dictionary."""

    def __init__(self, name: str, slices: int) -> None:
        size, channels, features, patch, stride, self.steps, self.threshold, _ = WORKLOADS[name]
        units = size // stride
        self.slices = slices
        fine = (size, size, channels)
        self.p: Patches = geometry.link((units, units, features), fine, (patch, patch), True).patches
        rng = np.random.default_rng(0)
        image = rng.standard_normal((slices, *fine)).astype("f4")
        for axis in (1, 2):
            image += np.roll(image, 1, axis) + np.roll(image, 2, axis)
        self.image = image / image.std(axis=(1, 2, 3), keepdims=True)
        weights = rng.standard_normal((1, features, self.p.length)).astype("f4")
        self.weights = weights / np.linalg.norm(weights, axis=2, keepdims=True)

    @property
    def flops(self) -> float:
        """Floating-point operations of a dense drive and a dense reconstruction, a step of a slice."""
        return 4.0 * self.p.multiply_adds

    def start(self, xp: Any, dtype: str = "f4") -> tuple[Any, Any, Any, Any]:
        """Return recon, error, V and A of step 0."""
        p = self.p
        fine, coarse = (p.y.fine, p.x.fine, p.channels), (p.y.coarse, p.x.coarse, p.features)
        recon, error, V, A = (
            xp.zeros((self.slices, *shape), dtype) for shape in (fine, fine, coarse, coarse)
        )
        return recon, error, V, A


def ours(case: Problem, device: gpu.Gpu, choice: Any, tf32: bool = False) -> Callable[[int], tuple[Any, ...]]:
    """Return a function that makes steps by our kernels and returns the state."""
    xp, t = device.xp, case.threshold
    kernels = LoopKernels(device, case.p, cell(LEAKY, 1, 0, t, t), 1.0, case.slices, choice, tf32)
    kernels.load(xp.asarray(case.weights))
    image, (recon, error, V, A) = xp.asarray(case.image), case.start(xp)
    e = np.float32(DECAY)
    rates = xp.full(case.slices, e), xp.full(case.slices, 1 - e)

    def run(steps: int) -> tuple[Any, ...]:
        kernels.run(image, recon, error, Units(A, V, V), rates, steps)
        return recon, error, V, A

    return run


def by_layers(case: Problem, xp: Any, dtype: str) -> Callable[[int], tuple[Any, ...]]:
    """Return the same by plain array operators: the reference, and what `kernel = "array"` does."""
    kernels, curve, p = ArrayKernels(xp), Transfer(case.threshold, case.threshold), case.p
    image, weights = xp.asarray(case.image, dtype), xp.asarray(case.weights[None], dtype)
    state = list(case.start(xp, dtype))
    e = float(np.float32(DECAY))

    def run(steps: int) -> tuple[Any, ...]:
        recon, error, V, A = state
        for _ in range(steps):
            error = image - recon
            V = e * V + (1 - e) * (kernels.project(error, weights, p) + A)
            curve(V, A, xp)
            recon = kernels.synthesize(A, weights, p)
        state[:] = recon, error, V, A
        return tuple(state)

    return run


def by_torch(case: Problem, tf32: bool) -> Callable[[int], None]:
    """Return the loop in PyTorch: conv2d and conv_transpose2d, channels last, one CUDA graph of all steps."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    p = case.p
    pad = (p.y.size - p.y.stride) // 2
    layout = torch.channels_last

    def images(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).cuda().permute(0, 3, 1, 2).contiguous(memory_format=layout)

    weights = images(case.weights[0].reshape(p.features, p.y.size, p.x.size, p.channels))
    image = images(case.image)
    recon, _, V, A = (images(array) for array in case.start(np))
    functions = torch.nn.functional

    def step() -> None:
        drive = functions.conv2d(image - recon, weights, stride=p.y.stride, padding=pad)
        V.lerp_(drive.add_(A), 1 - DECAY)
        torch.clamp(V - case.threshold, min=0, out=A)
        recon.copy_(functions.conv_transpose2d(A, weights, stride=p.y.stride, padding=pad))

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(case.steps):
                step()
    torch.cuda.synchronize()

    def run(steps: int) -> None:
        assert steps == case.steps
        graph.replay()

    return run


def seconds(xp: Any, work: Callable[[], object]) -> float:
    """Return the time of `work` on the GPU; all streams of the device are waited for."""
    device = xp.cuda.Device()
    device.synchronize()
    begin, end = xp.cuda.Event(), xp.cuda.Event()
    begin.record()
    work()
    device.synchronize()
    end.record()
    end.synchronize()
    return float(xp.cuda.get_elapsed_time(begin, end)) / 1e3


def in_turns(xp: Any, works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median time of each; the first two rounds, with compilation and capture, do not count."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS + 2):
        for name, work in works.items():
            times[name].append(seconds(xp, work))
    return {name: statistics.median(found[2:]) for name, found in times.items()}


def ceilings(device: gpu.Gpu) -> dict[str, float]:
    """Return what this GPU reaches: FLOP/s of float32 and TF32 products, bytes/s of a copy."""
    from cupy._core import _routines_linalg as products

    xp, n = device.xp, 8192
    a, b, out = (xp.ones((n, n), np.float32) for _ in range(3))
    before = products.get_compute_type(np.float32)

    def product() -> None:
        xp.matmul(a, b, out=out)

    def tf32() -> None:
        products.set_compute_type(np.float32, products.COMPUTE_TYPE_TF32)
        product()
        products.set_compute_type(np.float32, before)

    def copy() -> None:
        out[...] = a

    took = in_turns(xp, {"float32": product, "TF32": tf32, "copy": copy})
    return {
        "float32": 2 * n**3 / took["float32"],
        "TF32": 2 * n**3 / took["TF32"],
        "bytes": 2 * a.nbytes / took["copy"],
    }


def agreement(device: gpu.Gpu) -> None:
    """Print how far 400 steps of each kernel are from float64 on the CPU, and whether two runs are alike."""
    case = Problem("W1", 2)
    exact = by_layers(case, np, "f8")(400)
    for choice, tf32, most in (("display", False, 1e-4), ("step", False, 1e-4), ("step", True, 2e-3)):
        one, two = ([array.get() for array in ours(case, device, choice, tf32)(400)] for _ in range(2))
        far = max(
            np.linalg.norm(mine - theirs) / np.linalg.norm(theirs)
            for mine, theirs in zip(one, exact, strict=True)
        )
        same = all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))
        name = f"{choice}{' TF32' if tf32 else ''}"
        print(f"{name}: 400 steps of W1 are {far:.1e} from float64 (at most {most}); same bits twice: {same}")


def compare(name: str, slices: int, device: gpu.Gpu, top: dict[str, float], torch: bool) -> None:
    """Print the speed of every way to make the steps of one workload."""
    case = Problem(name, slices)
    works: dict[str, Callable[[], object]] = {}
    for choice, tf32 in (("display", False), ("step", False), ("step", True)):
        try:
            run = ours(case, device, choice, tf32)
        except ResourceError:
            continue
        works[f"{choice} TF32" if tf32 else choice] = lambda run=run: run(case.steps)
    layers = by_layers(case, device.xp, "f4")
    works["array"] = lambda: layers(case.steps)
    if torch:
        for tf32 in (False, True):
            loop = by_torch(case, tf32)
            works["torch TF32" if tf32 else "torch"] = lambda loop=loop: loop(case.steps)
    took = in_turns(device.xp, works)
    ratio = f"{'/ torch':>8}" if torch else ""
    print(f"\n{name}, {slices} slices, {case.steps} steps")
    print(f"{'':12}{'slice steps/s':>14}{'of float32':>12}{ratio}")
    for way, time in took.items():
        share = case.flops * slices * case.steps / time / top["float32"]
        against = f"{took['torch'] / time:8.2f}" if torch else ""
        print(f"{way:12}{slices * case.steps / time:14.3e}{share:12.0%}{against}")
    if "display" in took:
        print(f"display against step: {took['step'] / took['display']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), help=", ".join(WORKLOADS))
    parser.add_argument("--slices", type=int, nargs="+", help="instead of the workload's own")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    given = parser.parse_args()
    reason = gpu.missing()
    if reason is not None:
        sys.exit(f"nothing is measured: {reason}")
    torch = not given.no_torch
    if torch:
        try:
            import torch as library

            torch = library.cuda.is_available()
        except ImportError:
            torch = False
        if not torch:
            print("PyTorch with CUDA is not installed: no comparison with it")
    device = gpu.Gpu(0)
    device.enter()
    print(gpu.report())
    top = ceilings(device)
    print(
        f"ceilings measured: float32 {top['float32'] / 1e12:.1f} TFLOP/s, "
        f"TF32 {top['TF32'] / 1e12:.1f} TFLOP/s, copy {top['bytes'] / 1e12:.2f} TB/s"
    )
    agreement(device)
    for name in given.workloads:
        for slices in given.slices or WORKLOADS[name][-1]:
            compare(name, slices, device, top, torch)


if __name__ == "__main__":
    main()
