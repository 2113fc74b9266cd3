"""Savings by early stopping (`run.until`), relative to displays long enough for every image.

python benchmarks/until.py [--slices 16] [--displays 2] [--gaps 1e-2 1e-3] [--threads N]

The network of `params/lca_fixed.toml`: crops of 32 x 32 x 3 of a photograph that the dictionary of 128
features has not seen. First each image gets up to `--longest` steps with `run.until`; the largest number it
needed is the fixed display that would certify all of them. Then both are timed, three times each in turns, in
memory, from the same start and with the codes of all images recorded; the least processor times are printed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import petabatch
from petabatch import in_memory
from petabatch.layers import FISTA, HeavyBall
from petabatch.probes import Optimality
from petabatch.spec.network import LayerOutput, Network, Output, Until
from petabatch.spec.parts import NEVER, Layer

PARAMS = Path(__file__).parents[1] / "params" / "lca_fixed.toml"
LAMBDA = 0.55
KEYS: dict[str, Any] = {"shape": (16, 16, 128), "threshold": LAMBDA}
CERTIFICATE = Optimality(
    image="image", reconstruction="recon", code="V1", drive="error_to_V1", coefficient=LAMBDA, every=NEVER
)


def network(code: Layer, **run: Any) -> Network:
    """Return the network with this code layer, recorded at the end of each display."""
    given = petabatch.load(PARAMS).network
    return given.model_copy(
        update={
            "run": given.run.model_copy(update=run),
            "layers": {**given.layers, "V1": code},
            "probes": {"optimality": CERTIFICATE},
            "output": Output(layers={"V1": LayerOutput()}),
        }
    )


def timed(net: Network, threads: int | None) -> tuple[float, in_memory.Result]:
    """Return the processor time of a run in memory, in seconds, and its result."""
    begin = time.process_time()
    done = in_memory.run(net, threads=threads)
    return time.process_time() - begin, done


def main() -> None:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slices", type=int, default=16)
    parser.add_argument("--displays", type=int, default=2)
    parser.add_argument("--gaps", type=float, nargs="+", default=[1e-2, 1e-3])
    parser.add_argument("--longest", type=int, default=2000)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    size = {"batch": given.slices, "displays": given.displays}
    ways: dict[str, Layer] = {"FISTA": FISTA(**KEYS), "heavy-ball, tau 100": HeavyBall(**KEYS, tau=100.0)}
    print(f"{given.slices * given.displays} images; steps to the gap, and seconds")
    print(f"{'':24}{'gap':>8}{'median':>8}{'mean':>8}{'most':>8}{'until s':>10}{'fixed s':>10}{'ratio':>8}")
    for name, code in ways.items():
        for gap in given.gaps:
            until = Until(gap=gap)
            found = timed(network(code, display=given.longest, until=until, **size), given.threads)[
                1
            ].recorded
            steps, reached = found["probes/until/steps"], found["probes/until/gap"]
            if (reached > gap).any():
                print(f"{name:24}{gap:>8g}   {(reached > gap).mean():.0%} not certified in {given.longest}")
                continue
            most = int(steps.max())
            seconds = [
                [timed(network(code, display=most, until=u, **size), given.threads)[0] for u in (until, None)]
                for _ in range(3)
            ]
            early, fixed = np.min(seconds, axis=0)
            print(
                f"{name:24}{gap:>8g}{np.median(steps):>8.0f}{steps.mean():>8.0f}{most:>8}"
                f"{early:>10.2f}{fixed:>10.2f}{fixed / early:>8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
