"""Rows split over two ranks of this machine through shared memory, beside one rank on one and two threads.

Sparse coding of one image: patches of 16 x 16 x 3, a unit each 8 pixels, fixed weights. Each run is timed
from its second display on, in turns. Memory is the largest resident set of a rank, less that of a rank with
an image of 64 x 64. Communication includes waiting for the other rank. Processor time is that of a rank, in
which it also waits; that of "a tile alone" is without messages, whose results are then wrong at the border.

    python benchmarks/tiles.py [--size 1024] [--features 128] [--kernel dense] [--rounds 2]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from petabatch.engine.driver import drive

DISPLAY = 20
WAYS = {
    "one rank, one thread": (1, 1, 1),
    "one rank, two threads": (1, 2, 1),
    "two ranks by rows": (2, 1, 2),
    "a tile alone": (1, 1, 2),
}
"""Ranks, threads of each, and tiles."""


def measure(options: argparse.Namespace) -> None:
    """Run on this rank; the first prints what all have measured."""
    from petabatch.connections import Conv
    from petabatch.engine.assembly import Assembly
    from petabatch.engine.lone_part import LonePart
    from petabatch.layers import LCA, Input
    from petabatch.network.build import build
    from petabatch.network.plan import schedule
    from petabatch.network.sparse_coding import sparse_coding
    from petabatch.parallel.comm import COMMUNICATION
    from petabatch.parallel.launch import connect
    from petabatch.sources import ImageArray
    from petabatch.spec.network import Network, Parallel, Run
    from petabatch.weights import L2, Gaussian

    comm, size = connect(None), options.size
    network: Network = sparse_coding(
        Input(shape=(size, size, 3), source=ImageArray(file=options.image), every=DISPLAY),
        LCA(shape=(size // 8, size // 8, options.features), tau=20.0, threshold=1.5),
        Conv(pre="V1", post="recon", patch=(16, 16), init=Gaussian(), normalize=L2()),
        run=Run(batch=1, display=DISPLAY, displays=options.displays, kernel=options.kernel),
    ).model_copy(update={"parallel": Parallel(rows=options.rows)})
    if comm.size < options.rows:
        engine = LonePart(schedule(build(network)), comm, options.threads).engine()
    else:
        engine = Assembly.of(network, comm, options.threads).engine()
    engine.start()
    begin = waited = processor = 0.0
    first = 0
    for step in drive(engine):
        engine.recorder.take(step)
        engine.flushed()
        if not begin and step >= DISPLAY:
            comm.barrier()
            begin, waited, first = time.monotonic(), comm.waited.get(COMMUNICATION, 0.0), step
            processor = time.process_time()
    seconds = time.monotonic() - begin
    active = float((engine.state.arrays["layers/V1/A"] != 0).mean())
    found = {
        "seconds": seconds / (step - first),
        "processor": (time.process_time() - processor) / (step - first),
        "communication": (comm.waited.get(COMMUNICATION, 0.0) - waited) / seconds,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "active": active,
    }
    everyone = comm.gather(found)
    if everyone is not None:
        print(json.dumps({key: max(one[key] for one in everyone) for key in found}))


def draw(size: int, folder: Path) -> Path:
    """Write a random image, of smooth and fine parts."""
    path = folder / f"{size}.npy"
    if not path.exists():
        image = np.random.default_rng(1).standard_normal((1, size, size, 3), np.float32)
        for axis in (1, 2):
            image = image + np.roll(image, 1, axis) + np.roll(image, 2, axis)
        np.save(path, image / image.std())
    return path


def run(options: argparse.Namespace, way: str, size: int, folder: Path) -> dict[str, float]:
    """Return what one way measures."""
    ranks, threads, rows = WAYS[way]
    mpirun = [str(Path(sys.executable).parent / "mpirun"), "-n", str(ranks)] if ranks > 1 else []
    flags = {"--size": size, "--threads": threads, "--rows": rows, "--kernel": options.kernel}
    flags |= {"--features": options.features, "--displays": options.displays}
    flags |= {"--image": draw(size, folder)}
    words = [str(word) for pair in flags.items() for word in pair]
    done = subprocess.run(
        [*mpirun, sys.executable, __file__, "--rank", *words],
        stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a table of all ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--displays", type=int, default=3)
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--image", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        measure(options)
        return
    print(f"{options.size} x {options.size}, {options.features} features, kernel {options.kernel}")
    with TemporaryDirectory() as name:
        folder = Path(name)
        empty = {way: run(options, way, 64, folder)["memory"] for way in WAYS}
        rounds = [
            {way: run(options, way, options.size, folder) for way in WAYS} for _ in range(options.rounds)
        ]
    print("| | ms a step | of one thread | processor ms | of one thread | communication | MiB | active |")
    print("|---|---|---|---|---|---|---|---|")
    first = next(iter(WAYS))
    for way in WAYS:
        ones = [one[way] for one in rounds]
        shown = [statistics.median(one[key] for one in ones) for key in ("communication", "memory", "active")]
        times = [_times([one[first] for one in rounds], ones, key) for key in ("seconds", "processor")]
        rest = f"{shown[0]:.1%} | {shown[1] - empty[way]:.0f} | {shown[2]:.2%}"
        print(f"| {way} | {times[0]} | {times[1]} | {rest} |")


def _times(first: list[dict[str, float]], ones: list[dict[str, float]], key: str) -> str:
    """Return the times of all rounds, and how many times as fast as the first way each is."""
    ms = " ".join(f"{1000 * one[key]:.0f}" for one in ones)
    ratios = [a[key] / b[key] for a, b in zip(first, ones, strict=True)]
    return f"{ms} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main()
