"""A campaign of extremes: long runs, many slices, deep and large networks.

python tests/support/extremes.py [steps] [slices] [chain] [large]
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from petabatch import in_memory
from petabatch.connections import Conv, Identity
from petabatch.layers import LCA, Input, Linear
from petabatch.network.sparse_coding import sparse_coding
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import DISPLAY, NEVER
from petabatch.weights import L2, Gaussian
from support.networks import GivenImages

Arrays = Mapping[str, np.ndarray]


def images(slices: int, items: int, shape: tuple[int, int, int]) -> GivenImages:
    """Return random images, `items` for each slice."""
    data = np.random.default_rng(5).normal(size=(slices, items, *shape)).astype(np.float32)
    return GivenImages(data=data)


def loop(
    run: Run, image: tuple[int, int, int], code: tuple[int, int, int], items: int, patch: int = 8
) -> Network:
    """Return a sparse-coding loop of which the activity is recorded at the end of each display."""
    return sparse_coding(
        Input(shape=image, source=images(run.batch, items, image)),
        LCA(shape=code, tau=60.0, threshold=0.9),
        Conv(pre="code", post="recon", patch=(patch, patch), init=Gaussian(), normalize=L2()),
        run=run,
        output=Output(layers={"code": LayerOutput(every=DISPLAY)}),
    )


def steps(display: int = 400, displays: int = 250) -> str:
    """Compare 1e5 lazy steps with dense ones, where the images of later displays start from earlier codes."""
    found = {}
    for kernel in ("lazy", "dense"):
        run = Run(batch=1, display=display, displays=displays, kernel=kernel)
        found[kernel] = in_memory.run(loop(run, (16, 16, 3), (8, 8, 128), 7), threads=1).recorded[
            "layers/code/A"
        ]
    lazy, dense = found.values()
    difference = np.abs(lazy - dense).max(axis=(1, 2, 3, 4)) / np.abs(dense).max(axis=(1, 2, 3, 4))
    flipped = int(((lazy != 0) != (dense != 0)).sum())
    active = float((dense != 0).mean())
    return (
        f"{display * displays} steps lazy against dense, {active:.1%} active: largest difference "
        f"{difference.max():.1e} of the largest activity, {difference[-25:].max():.1e} in the last tenth; "
        f"{flipped} of {dense.size} units active in one alone"
    )


def slices(batch: int = 2000) -> str:
    """Compare a run of many slices on two threads with one thread, and with single slices."""
    run = Run(batch=batch, display=20, displays=2)
    network = loop(run, (12, 12, 3), (6, 6, 16), 2, patch=4)
    recorded = [in_memory.run(network, threads=threads).recorded["layers/code/A"] for threads in (1, 2)]
    assert recorded[0].tobytes() == recorded[1].tobytes()
    source = network.layers["image"].source  # type: ignore[attr-defined]
    for number in (0, batch // 2, batch - 1):
        alone = loop(run.model_copy(update={"batch": 1}), (12, 12, 3), (6, 6, 16), 2, patch=4)
        shown = network.layers["image"].model_copy(
            update={"source": GivenImages(data=source.data[number : number + 1])}
        )
        alone = alone.model_copy(update={"layers": {**alone.layers, "image": shown}})
        one = in_memory.run(alone, threads=1).recorded["layers/code/A"]
        assert one[:, 0].tobytes() == recorded[0][:, number].tobytes(), f"slice {number} differs"
    return f"{batch} slices: same bits on 1 and 2 threads, and as three runs of one slice"


def chain(length: int = 500) -> str:
    """Send an image through many layers one after the other; in each step it passes all of them."""
    shape = (4, 4, 3)
    layers = {"image": Input(shape=shape, source=images(2, 1, shape), every=NEVER)}
    layers |= {f"L{number}": Linear(shape=shape) for number in range(length)}
    names = list(layers)
    connections = {f"to_{post}": Identity(pre=pre, post=post) for pre, post in pairwise(names)}
    output = Output(layers={names[-1]: LayerOutput(every="step")})
    results = {}
    for kernel in ("auto", "array"):
        run = Run(batch=2, steps=10, kernel=kernel)
        network = Network(run=run, layers=layers, connections=connections, output=output)
        results[kernel] = in_memory.run(network, threads=2).recorded[f"layers/{names[-1]}/A"]
    assert results["auto"].tobytes() == results["array"].tobytes()
    np.testing.assert_array_equal(results["auto"][-1], layers["image"].source.data[:, 0])
    return f"{length} layers in a chain: the last shows the image, compiled as layer by layer"


def large(size: int = 2048) -> str:
    """Compare one large slice on one and two threads, lazy and dense."""
    found = {}
    for kernel, threads in (("dense", 1), ("dense", 2), ("lazy", 2)):
        run = Run(batch=1, display=40, displays=1, kernel=kernel)
        network = loop(run, (size, size, 1), (size // 4, size // 4, 16), 1)
        found[kernel, threads] = in_memory.run(network, threads=threads).recorded["layers/code/A"]
    dense, lazy = found["dense", 1], found["lazy", 2]
    assert dense.tobytes() == found["dense", 2].tobytes()
    largest = np.abs(lazy - dense).max() / np.abs(dense).max()
    return f"a slice of {size} x {size}: same bits on 1 and 2 threads; lazy within {largest:.1e} of dense"


CASES: dict[str, Callable[[], str]] = {
    "steps": steps, "slices": slices, "chain": chain, "large": large
}  # fmt: skip

if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        start = time.monotonic()
        print(f"{name}: {CASES[name]()}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"    {time.monotonic() - start:.0f} s, peak {peak} MiB", flush=True)
