"""Speed of the steps of a workload on a GPU: petabatch's kernels, CuPy and PyTorch."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from petabatch import geometry
from petabatch.engine.gpu.device import Gpu
from petabatch.errors import ResourceError
from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cuda.loop import LoopKernels
from petabatch.kernels.rules import LEAKY, Units
from petabatch.kernels.transfer import Curve
from petabatch.spec.compiled import CompiledRule

ROUNDS, FEWEST = 9, 3
LONGEST = 25.0
"""Seconds after which a comparison starts no further round, beyond the minimum."""
# image, channels, features, patch, stride, threshold, steps at a time for each number of slices
WORKLOADS = {
    "W1": (32, 3, 128, 8, 2, 0.55, {16: 400, 132: 400, 1024: 100}),
    "W3": (256, 3, 512, 16, 4, 0.55, {8: 50, 64: 10}),
}
WAYS = {"display": ("display", False), "step": ("step", False), "step TF32": ("step", True)}
"""petabatch's kernels: `run.kernel`, and whether with TF32."""
TORCH = (
    ("torch", False, False),
    ("torch TF32", True, False),
    ("torch compiled", False, True),
    ("torch compiled TF32", True, True),
)
"""Loops in PyTorch: name, whether TF32, whether torch.compile makes the step."""
COMPILED = {("W1", 132), ("W3", 8)}
"""Where torch.compile is tried, which takes ten seconds for each."""
DECAY = math.exp(-1 / 100)


class Problem:
    """Random images with the spectrum of photographs, and a random dictionary."""

    def __init__(self, name: str, slices: int) -> None:
        size, channels, features, patch, stride, self.threshold, steps = WORKLOADS[name]
        self.steps: int = steps.get(slices, next(iter(steps.values())))
        units = size // stride
        self.slices = slices
        fine = (size, size, channels)
        self.p: Patches = geometry.make_link((units, units, features), fine, (patch, patch), True).patches
        rng = np.random.default_rng(0)
        image = rng.standard_normal((slices, *fine)).astype("f4")
        for axis in (1, 2):
            image += np.roll(image, 1, axis) + np.roll(image, 2, axis)
        self.image = image / image.std(axis=(1, 2, 3), keepdims=True)
        weights = rng.standard_normal((1, features, self.p.length)).astype("f4")
        self.weights = weights / np.linalg.norm(weights, axis=2, keepdims=True)

    @property
    def flops(self) -> float:
        """Floating-point operations of a dense drive and reconstruction, per step and slice."""
        return 4.0 * self.p.multiply_adds

    @property
    def traffic(self) -> float:
        """Least number of bytes moved per step and slice when the state is in GPU memory.

        V is read and written, A written and read by drive and reconstruction; the image is read, residual and
        reconstruction are written and read.
        """
        pixels = self.p.y.fine * self.p.x.fine * self.p.channels
        return 4.0 * (5 * self.p.positions * self.p.features + 5 * pixels)

    def start(self, xp: Any, dtype: str = "f4") -> tuple[Any, Any, Any, Any]:
        """Return recon, error, V and A of step 0."""
        p = self.p
        fine, coarse = (p.y.fine, p.x.fine, p.channels), (p.y.coarse, p.x.coarse, p.features)
        recon, error, V, A = (
            xp.zeros((self.slices, *shape), dtype) for shape in (fine, fine, coarse, coarse)
        )
        return recon, error, V, A


def ours(case: Problem, device: Gpu, kernel: Any) -> Callable[[int], tuple[Any, ...]]:
    """Return a function that makes steps with petabatch's kernels and returns the state."""
    device.enter()
    xp, t = device.xp, case.threshold
    kernels = LoopKernels(
        device,
        case.p,
        CompiledRule("", self_interaction=1, curve=Curve.of("soft", t)).cell(LEAKY, 1),
        1.0,
        case.slices,
        kernel,
    )
    kernels.load(xp.asarray(case.weights))
    image, (recon, error, V, A) = xp.asarray(case.image), case.start(xp)
    e = np.float32(DECAY)
    rates = xp.full(case.slices, e), xp.full(case.slices, 1 - e)

    def run(steps: int) -> tuple[Any, ...]:
        device.enter()
        kernels.run(image, recon, error, Units(A, V, V), rates, steps)
        return recon, error, V, A

    return run


def by_layers(case: Problem, dtype: str, device: Gpu | None = None) -> Callable[[int], tuple[Any, ...]]:
    """Return the same with plain array operators: the reference, and what `kernel = "array"` does.

    On a GPU a step is captured once and replayed.
    """
    xp, product = (np, None) if device is None else (device.xp, device.multiply)
    if device is not None:
        device.enter()
    kernels, curve, p = ArrayKernels(xp, product), Curve.of("soft", case.threshold), case.p
    image, weights = xp.asarray(case.image, dtype), xp.asarray(case.weights[None], dtype)
    recon, error, V, A = case.start(xp, dtype)
    e = float(np.float32(DECAY))

    def step() -> None:
        xp.subtract(image, recon, out=error)
        V[...] = e * V + (1 - e) * (kernels.project(error, weights, p) + A)
        curve.on(V, A, xp)
        recon[...] = kernels.synthesize(A, weights, p)

    made = step
    if device is not None:
        step()  # loads all kernels before the capture
        made = device.capture(step)
        for array in (recon, error, V, A):
            array[...] = 0

    def run(steps: int) -> tuple[Any, ...]:
        if device is not None:
            device.enter()
        for _ in range(steps):
            made()
        return recon, error, V, A

    return run


def by_torch(
    case: Problem, tf32: bool, compiled: bool = False
) -> tuple[Callable[[int], None], Callable[[], np.ndarray]]:
    """Return the loop in PyTorch (conv2d and conv_transpose2d, channels last), and a function for its code.

    All steps are one CUDA graph; with `compiled`, the step is compiled by torch.compile.
    """
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

    def plain() -> None:
        drive = functions.conv2d(image - recon, weights, stride=p.y.stride, padding=pad)
        V.lerp_(drive.add_(A), 1 - DECAY)
        torch.clamp(V - case.threshold, min=0, out=A)
        recon.copy_(functions.conv_transpose2d(A, weights, stride=p.y.stride, padding=pad))

    step = torch.compile(plain) if compiled else plain
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(case.steps):
                step()
        for array in (recon, V, A):
            array.zero_()
    torch.cuda.synchronize()

    # A graph knows addresses alone: what is there must be held.
    def run(steps: int, held: object = (image, weights, recon, V, A)) -> None:
        assert steps == case.steps
        graph.replay()

    def code() -> np.ndarray:
        torch.cuda.synchronize()
        return np.asarray(A.permute(0, 2, 3, 1).contiguous().cpu().numpy())

    return run, code


def seconds(device: Gpu, work: Callable[[], object]) -> float:
    """Return the time of `work` on the GPU, over all streams."""
    wait = device.xp.cuda.Device().synchronize
    wait()
    begin = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - begin


def in_turns(device: Gpu, works: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the times of each, without the first two rounds (compilation and capture)."""
    times: dict[str, list[float]] = {name: [] for name in works}
    begin = time.monotonic()
    for made in range(ROUNDS + 2):
        if made >= FEWEST + 2 and time.monotonic() - begin > LONGEST:
            break
        for name, work in works.items():
            times[name].append(seconds(device, work))
    return {name: found[2:] for name, found in times.items()}


def medians(device: Gpu, works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median time of each."""
    return {name: statistics.median(found) for name, found in in_turns(device, works).items()}


def rates_of(times: dict[str, list[float]], slice_steps: int) -> dict[str, dict[str, Any]]:
    """Return the speed of each way, the median and quartiles, and its ratios to peers of the same rounds."""
    quartiles = {
        way: np.quantile(slice_steps / np.array(took), (0.25, 0.5, 0.75)) for way, took in times.items()
    }
    peers = [way for way in times if way.startswith("torch")] + ["step"]
    return {
        way: {
            "slice steps/s": float(middle),
            "quartiles": [float(low), float(high)],
            "rounds": len(times[way]),
            **{f"/ {peer}": float(middle / quartiles[peer][1]) for peer in peers if peer in times},
        }
        for way, (low, middle, high) in quartiles.items()
    }


def ceilings(device: Gpu, n: int = 8192) -> dict[str, float]:
    """Return peak rates of this GPU: FLOP/s of float32 and TF32 products `[n, n]`, bytes/s of a copy."""
    from cupy._core import _routines_linalg as products

    xp = device.xp
    rng = np.random.default_rng(0)
    a, b = (xp.asarray(rng.standard_normal((n, n)).astype("f4")) for _ in range(2))
    out = xp.empty_like(a)

    def product(kind: int) -> None:
        products.set_compute_type(np.float32, kind)
        xp.matmul(a, b, out=out)
        products.set_compute_type(np.float32, products.COMPUTE_TYPE_DEFAULT)

    def copy() -> None:
        out[...] = a

    works: dict[str, Callable[[], object]] = {
        "float32": lambda: product(products.COMPUTE_TYPE_DEFAULT),
        "TF32": lambda: product(products.COMPUTE_TYPE_TF32),
        "copy": copy,
    }
    took = medians(device, works)
    return {
        "float32": 2 * n**3 / took["float32"],
        "TF32": 2 * n**3 / took["TF32"],
        "bytes": 2 * a.nbytes / took["copy"],
    }


def agreement(device: Gpu, tensor: Gpu, name: str = "W1") -> dict[str, dict[str, object]]:
    """Return the distance of each kernel from float64 on the CPU, and whether two runs have the same bits."""
    case = Problem(name, 2)
    exact = by_layers(case, "f8")(case.steps)
    found: dict[str, dict[str, object]] = {}
    for way, (kernel, tf32) in WAYS.items():
        gpu = tensor if tf32 else device
        one, two = ([array.get() for array in ours(case, gpu, kernel)(case.steps)] for _ in range(2))
        far = max(relative(mine, theirs) for mine, theirs in zip(one, exact, strict=True))
        same = all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))
        found[way] = {"from float64": far, "at most": 2e-3 if tf32 else 1e-4, "same bits twice": same}
    return found


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the distance of two arrays relative to the norm of the second."""
    return float(np.linalg.norm(found - expected) / max(float(np.linalg.norm(expected)), 1e-30))


def compare(
    name: str, slices: int, device: Gpu, tensor: Gpu, top: dict[str, float], torch: bool
) -> dict[str, dict[str, Any]]:
    """Return the speed of every implementation on one workload, and its fraction of the peak rates.

    `tensor` is the same GPU with TF32.
    """
    case = Problem(name, slices)
    works: dict[str, Callable[[], object]] = {}
    far: dict[str, float] = {}
    for way, (kernel, tf32) in WAYS.items():
        try:
            run = ours(case, tensor if tf32 else device, kernel)
        except ResourceError:
            continue
        works[way] = lambda run=run: run(case.steps)  # type: ignore[misc]
    rounded, layers = (by_layers(case, "f4", gpu) for gpu in (tensor, device))
    works |= {"array": lambda: layers(case.steps), "array TF32": lambda: rounded(case.steps)}
    if torch:
        expected = layers(case.steps)[3].get()
        for way, tf32, compiled in TORCH:
            if compiled and (name, slices) not in COMPILED:
                continue
            try:
                loop, code = by_torch(case, tf32, compiled)
            except Exception as error:
                print(f"{way}: left out, {type(error).__name__}: {str(error).splitlines()[0]}")
                continue
            loop(case.steps)
            far[way] = relative(code(), expected)
            works[way] = lambda loop=loop: loop(case.steps)  # type: ignore[misc]
    rates = rates_of(in_turns(device, works), slices * case.steps)
    for way, found in rates.items():
        rate = found["slice steps/s"]
        found["of float32"] = case.flops * rate / top["float32"]
        found["of TF32"] = case.flops * rate / top["TF32"]
        found["of the copy, if through memory"] = case.traffic * rate / top["bytes"]
        if way in far:
            found["code from CuPy's"] = far[way]
    return rates
