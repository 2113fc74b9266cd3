"""Steps and time until a code's energy is within 1 % and 0.1 % of its minimum, for each method.

python benchmarks/steps_to_optimum.py [--slices 16] [--dictionary random | learned] [--threads N]

The problem: crops of 32 x 32 x 3 of scikit-image's photographs, mean 0 and deviation 1; 128 features of
8 x 8 x 3 at stride 2; threshold 0.55; codes not negative. The minimum is FISTA's after many steps, and the
duality gap printed with it says how well it is known. The learned dictionary is that of `params/`. Steps
count until the energy stays below the bound.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from petabatch.connections import Conv
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.layers import FISTA, LCA, HeavyBall, Input, KneeTimeScale
from petabatch.network.build import build
from petabatch.network.sparse_coding import sparse_coding
from petabatch.probes import Energy, Optimality
from petabatch.report.stability import step_limits
from petabatch.sources import Photographs
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, Probe
from petabatch.spec.schedule import Every
from petabatch.spec.weights import Initial
from petabatch.weights import L2

LEARNED = Path(__file__).parents[1] / "params" / "dictionary_8x8x3.npy"
IMAGE, CODE, LAMBDA = (32, 32, 3), (16, 16, 128), 0.55
KEYS: dict[str, Any] = {"shape": CODE, "threshold": LAMBDA}


class Given(Initial):
    """Weights of an array."""

    type: Literal["benchmark_given"] = "benchmark_given"
    array: Any

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return them."""
        return np.broadcast_to(self.array, shape)


@dataclass(frozen=True)
class Setup:
    """The problem that all methods solve."""

    slices: int
    threads: int | None
    dictionary: np.ndarray

    def network(self, code: Layer, probes: dict[str, Probe], seed: int = 1, **run: Any) -> Network:
        """Return image -> error -> code -> recon -> error with this code layer."""
        return sparse_coding(
            Input(shape=IMAGE, source=Photographs(normalize="standard")),
            code,
            Conv(
                pre="code",
                post="recon",
                patch=(8, 8),
                init=Given(array=self.dictionary),
                normalize=L2(),
            ),
            run=Run(batch=self.slices, seed=seed, **run),
            probes=probes,
        )

    def run(self, network: Network) -> tuple[Engine, dict[str, np.ndarray], float]:
        """Return the engine at the end, what the probes measured, and the processor time."""
        engine = Assembly.of(network, threads=self.threads).engine()
        engine.start()
        found: dict[str, list[np.ndarray]] = {}
        begin = time.process_time()
        for step in drive(engine):
            if step % engine.plan.flush == 0 or step == engine.plan.length:
                for record in engine.recorder.take(step):
                    found.setdefault(record.stream.path, []).append(record.values)
                engine.flushed()
        seconds = time.process_time() - begin
        return engine, {path: np.concatenate(values) for path, values in found.items()}, seconds

    def energies(self, code: Layer, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the energy after every step, `[steps, slices]`, and the relative gap at the end, `[slices]`.

        The error layer shows the residual of the step before, so one more step is made.
        """
        probes: dict[str, Probe] = {
            "optimum": Optimality(
                image="image",
                reconstruction="recon",
                code="code",
                drive="drive",
                coefficient=LAMBDA,
                every=Every(steps + 1),
            ),
            "energy": Energy(error="error", code="code", coefficient=LAMBDA),
        }
        found = self.run(self.network(code, probes, display=steps + 1, displays=1))[1]
        energy = found["probes/energy/residual"][1:] + found["probes/energy/sparsity"][:-1]
        return energy, found["probes/optimum/relative_gap"][-1]

    def pace(self, codes: Mapping[str, Layer], steps: int = 60) -> dict[str, float]:
        """Return the time of one step of the whole batch without probes, for each: the best of all turns."""
        networks = {
            name: self.network(code, _followed(code), display=steps, displays=1)
            for name, code in codes.items()
        }
        turns = [{name: self.run(one)[2] / steps for name, one in networks.items()} for _ in range(6)]
        return {name: min(turn[name] for turn in turns[1:]) for name in codes}


def _followed(code: Layer) -> dict[str, Probe]:
    """Return the energy probe that an adaptive time scale needs."""
    if isinstance(code, LCA) and code.time_scale is not None:
        return {"energy": Energy(error="error", code="code", coefficient=LAMBDA)}
    return {}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slices", type=int, default=16)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--dictionary", choices=("random", "learned"), default="random")
    parser.add_argument(
        "--longest", type=int, default=3000, help="largest number of steps (default: %(default)s)"
    )
    given = parser.parse_args()
    random = np.random.default_rng(1).normal(size=(1, 1, CODE[2], 8, 8, 3))
    setup = Setup(given.slices, given.threads, random)
    if given.dictionary == "learned":
        setup = Setup(given.slices, given.threads, np.load(LEARNED))

    (limit,) = step_limits(build(setup.network(LCA(**KEYS), {}, display=1, displays=1)))
    tau = -1 / math.log1p(-0.95 / limit.curvature)
    energy, gaps = setup.energies(FISTA(**KEYS), 5000)
    lowest, gap = energy.min(axis=0), gaps.max()
    print(
        f"{given.slices} slices, {given.dictionary} dictionary, "
        f"L = {limit.curvature:.1f}, 1/L = {1 / limit.curvature:.4f}"
    )
    print(f"minimum known to {gap:.1e} of the energy (largest relative duality gap)")
    ways: dict[str, tuple[Layer, int]] = {
        "LCA, tau 100": (LCA(**KEYS), given.longest),
        "LCA, knee time scale": (LCA(**KEYS, time_scale=KneeTimeScale(energy="energy")), given.longest),
        "LCA, k = .95/L": (LCA(**KEYS, tau=tau), given.longest),
        "heavy-ball, tau 100": (HeavyBall(**KEYS), given.longest // 3),
        "heavy-ball, k = .95/L": (HeavyBall(**KEYS, tau=tau), given.longest // 3),
        "FISTA, first k .01": (FISTA(**KEYS), given.longest // 3),
        "FISTA, first k .95/L": (FISTA(**KEYS, step=0.95 / limit.curvature), given.longest // 3),
    }
    print(
        f"{'':24}{'steps to 1 %':>20}{'steps to 0.1 %':>20}{'above at 400':>14}{'ms/step':>9}"
        f"{'s to 1 %':>10}{'s to .1 %':>10}"
    )
    print(f"{'':24}{'median':>12}{'worst':>8}{'median':>12}{'worst':>8}{'median':>14}")
    paces = setup.pace({name: code for name, (code, _) in ways.items()})
    for name, (code, steps) in ways.items():
        excess = setup.energies(code, steps)[0] / lowest - 1
        pace = paces[name]
        one, tenth = (_steps(excess, bound) for bound in (1e-2, 1e-3))
        print(
            f"{name:24}{_median(one):>12}{_worst(one):>8}{_median(tenth):>12}{_worst(tenth):>8}"
            f"{np.median(excess[399]):>14.3%}{1e3 * pace:>9.1f}"
            f"{np.median(one) * pace:>10.2f}{np.median(tenth) * pace:>10.2f}",
            flush=True,
        )


def _steps(excess: np.ndarray, bound: float) -> np.ndarray:
    """Return for each slice the first step after which it stays within the bound; inf if it never does."""
    steps = [np.flatnonzero(column > bound) for column in excess.T]
    first = [above[-1] + 2 if len(above) else 1 for above in steps]
    return np.array([step if step <= len(excess) else math.inf for step in first])


def _median(steps: np.ndarray) -> str:
    return _number(float(np.median(steps)))


def _worst(steps: np.ndarray) -> str:
    return _number(float(steps.max()))


def _number(steps: float) -> str:
    return f"{steps:.0f}" if math.isfinite(steps) else "-"


if __name__ == "__main__":
    main()
