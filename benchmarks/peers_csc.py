"""Comparison of FISTA with SPORCO's solvers of convolutional sparse coding: time to 1 % above the minimum.

python benchmarks/peers_csc.py [--slices 16] [--threads 1 2] [--rounds 3]    # about six minutes

Needs SPORCO (`pip install sporco`). The problem: min 0.5 |I - D A|^2 + 0.55 |A|_1, A >= 0, on crops of W1
with a random dictionary, 128 features of 8 x 8 x 3, at stride 1, since SPORCO knows no strides: petabatch
at stride 2 codes the same crops by a quarter of the units. SPORCO convolves periodically; so that it solves
the same problem it gets the crops in a frame of masked pixels wide enough for every patch, and a price on
units outside the crop that keeps them silent. Its step 1 / L is of the largest eigenvalue, exactly; its rho
the best of those in RHO. One row is its ADMM on the problem with periodic borders, which is another one: its
time is that to 1 % above its own minimum.

Energies are computed here, in float64, from all codes. Iterations to 1 % are counted in fives in a run that
is watched, and their time, from arrays to arrays, is measured in others that are not, in turns. alphacsc is
not measured: it codes signals along one axis, not images.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import sporco.fft
from common import introduce, keep, options, table
from growth_axes import crops
from sporco.admm import cbpdn as admm
from sporco.pgm import cbpdn as pgm
from threadpoolctl import threadpool_limits

from petabatch import in_memory
from petabatch.connections import Conv
from petabatch.layers import FISTA, Input
from petabatch.network.sparse_coding import sparse_coding
from petabatch.probes import Energy
from petabatch.sources import ImageArray
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.schedule import Every
from petabatch.weights import Unchanged, WeightArray

PRICE, FEATURES, SIDE, PATCH = 0.55, 128, 32, 8
FRAMED, BEFORE = 40, 3
"""Side of a framed crop, and pixels of the frame before it; a size suited to Fourier transforms."""
RHO = (1.0, 3.0, 10.0)
LONG, MOST, LOOK = 1500, 150, 5
"""Steps to the minimum; limit for coming within 1 %; steps between evaluations of the energy."""
OURS, PERIODIC = "petabatch FISTA", "SPORCO ADMM, rho 3, periodic"


class Problem:
    """Crops and a dictionary, and the energy of codes of them."""

    def __init__(self, slices: int) -> None:
        self.images = crops(SIDE, slices)
        weights = np.random.default_rng(1).standard_normal((FEATURES, PATCH, PATCH, 3))
        weights /= np.sqrt((weights**2).sum(axis=(1, 2, 3), keepdims=True))
        self.weights = weights.astype(np.float32)

    def energy(self, codes: np.ndarray, side: int = FRAMED, before: int = BEFORE) -> float:
        """Return that of codes `[n, 32, 32, features]`; the patch of unit (0, 0) begins `before` the crop."""
        shape, axes = (side, side), (1, 2)
        units = np.fft.rfft2(codes.astype(float), shape, axes)
        patches = np.fft.rfft2(self.weights.astype(float), shape, axes)
        recon = np.fft.irfft2(np.einsum("nyxf,fyxc->nyxc", units, patches), shape, axes)
        inside = slice(before, before + SIDE)
        error = self.images - recon[:, inside, inside]
        return float(0.5 * (error**2).sum() + PRICE * np.abs(codes.astype(float)).sum())


class Petabatch:
    """FISTA in the compiled loop."""

    def __init__(self, problem: Problem, threads: int, step: float = 0.01) -> None:
        self.problem, self.threads, self.step = problem, threads, step

    def run(self, steps: int) -> np.ndarray:
        """Make steps from rest; return the codes."""
        output = Output(layers={"code": LayerOutput(every=Every(steps))})
        return np.asarray(in_memory.run(self._network(steps, output=output)).recorded["layers/code/A"][-1])

    def energies(self, steps: int) -> np.ndarray:
        """Return the energy after every LOOK steps."""
        probe = Energy(error="error", code="code", coefficient=PRICE)
        found = in_memory.run(self._network(steps + 1, probes={"energy": probe})).recorded
        # The error layer shows the residual of the step before.
        each = found["probes/energy/residual"][1:] + found["probes/energy/sparsity"][:-1]
        return np.asarray(each.sum(axis=1)[-steps:][LOOK - 1 :: LOOK])

    def _network(self, steps: int, **others: Any) -> Network:
        return sparse_coding(
            Input(shape=(SIDE, SIDE, 3), source=ImageArray(data=self.problem.images, crop="top_left")),
            FISTA(shape=(SIDE, SIDE, FEATURES), threshold=PRICE, step=self.step),
            Conv(
                pre="code",
                post="recon",
                patch=(PATCH, PATCH),
                init=WeightArray(data=self.problem.weights),
                normalize=Unchanged(),
            ),
            run=Run(batch=len(self.problem.images), display=steps, displays=1, threads=self.threads),
            **others,
        )


class Sporco:
    """One of SPORCO's solvers on framed and masked crops, or on periodic ones."""

    def __init__(self, problem: Problem, solver: str, threads: int, rho: float = 1.0) -> None:
        self.problem, self.solver, self.threads, self.rho = problem, solver, threads, rho
        self.masked = solver != "ADMM, periodic"
        side, inside = (FRAMED, slice(BEFORE, BEFORE + SIDE)) if self.masked else (SIDE, slice(0, SIDE))
        framed = np.zeros((len(problem.images), side, side, 3), np.float32)
        framed[:, inside, inside] = problem.images
        self.signal = np.ascontiguousarray(framed.transpose(1, 2, 3, 0))
        self.mask, self.price = (np.zeros((side, side, 1, 1, 1), np.float32) for _ in range(2))
        self.mask[inside, inside] = 1
        self.price += 1e6
        self.price[:SIDE, :SIDE] = 1
        self.dictionary = np.ascontiguousarray(problem.weights.transpose(1, 2, 3, 0))
        patches = np.fft.fft2(problem.weights.astype(float), (side, side), (1, 2))
        gram = np.einsum("fyxc,fyxd->yxcd", patches, patches.conj())
        self.curvature = float(np.linalg.eigvalsh(gram)[..., -1].max())

    def _solver(self, steps: int, **others: Any) -> Any:
        keys = {"MaxMainIter": steps, "RelStopTol": 0.0, "FastSolve": True, "NonNegCoef": True}
        keys |= {"L1Weight": self.price, "DataType": np.float32, **others}
        ends = (self.dictionary, self.signal, PRICE)
        if self.solver == "PGM":
            return pgm.ConvBPDNMask(
                *ends, self.mask, pgm.ConvBPDNMask.Options({**keys, "L": self.curvature}), dimK=1
            )
        keys |= {"rho": self.rho, "AutoRho": {"Enabled": False}}
        if self.solver == "ADMM":
            options = admm.ConvBPDNMaskDcpl.Options(keys)
            return admm.ConvBPDNMaskDcpl(*ends, self.mask, options, dimK=1)
        return admm.ConvBPDN(*ends, admm.ConvBPDN.Options(keys), dimK=1)

    def run(self, steps: int) -> np.ndarray:
        """Make iterations from rest; return the codes."""
        return self._run(steps)

    def energies(self, steps: int) -> np.ndarray:
        """Return the energy after every LOOK iterations."""
        side, before = (FRAMED, BEFORE) if self.masked else (SIDE, 0)
        found: list[float] = []
        made = count(1)

        def look(solver: Any) -> None:
            if next(made) % LOOK == 0:
                found.append(self.problem.energy(_codes(solver.getcoef()), side, before))

        self._run(steps, Callback=look)
        return np.array(found)

    def _run(self, steps: int, **others: Any) -> np.ndarray:
        sporco.fft.pyfftw_threads = self.threads
        with threadpool_limits(self.threads):
            return _codes(self._solver(steps, **others).solve())


def _codes(coefficients: np.ndarray) -> np.ndarray:
    """Return SPORCO's coefficients `[ny, nx, 1, n, features]` as codes."""
    return np.asarray(coefficients[:SIDE, :SIDE, 0].transpose(2, 0, 1, 3))


def within(energies: np.ndarray, lowest: float) -> int | None:
    """Return after how many iterations the energy is and stays within 1 % of the lowest."""
    above = np.flatnonzero(~(energies <= 1.01 * lowest))
    first = int(above[-1]) + 1 if len(above) else 0
    return LOOK * (first + 1) if first < len(energies) else None


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def candidates(problem: Problem, threads: int) -> dict[str, Petabatch | Sporco]:
    """Return all solvers."""
    descent = Sporco(problem, "PGM", threads)
    return {
        OURS: Petabatch(problem, threads),
        "petabatch FISTA, first step 1 / L": Petabatch(problem, threads, 1 / descent.curvature),
        "SPORCO PGM": descent,
        **{f"SPORCO ADMM, rho {rho:g}": Sporco(problem, "ADMM", threads, rho) for rho in RHO},
        PERIODIC: Sporco(problem, "ADMM, periodic", threads, 3.0),
    }


def main() -> None:
    parser = options(__doc__, rounds=3)
    parser.add_argument("--slices", type=int, default=16)
    given = parser.parse_args()
    about = introduce() | {"sporco": sporco.__version__}
    print(f"SPORCO {sporco.__version__}\n")
    problem = Problem(given.slices)

    solvers = candidates(problem, max(given.threads))
    code, theirs = solvers[OURS].run(LONG), solvers["SPORCO PGM"].run(LONG // 3)
    lowest = problem.energy(code)
    print(
        f"minimum {lowest:.3f} by petabatch, {problem.energy(theirs):.3f} by SPORCO; their codes differ by "
        f"{np.linalg.norm(theirs - code) / np.linalg.norm(code):.1e} of the norm; "
        f"{(code != 0).mean():.2%} active"
    )
    counts = {}
    for name, solver in solvers.items():
        energies = solver.energies(MOST)
        counts[name] = within(energies, energies.min() if name == PERIODIC else lowest)
        print(f"{name}: {counts[name] or f'not in {MOST}'} iterations to 1 %", flush=True)
    rival = [name for name in counts if name.startswith("SPORCO ADMM") and name != PERIODIC and counts[name]]
    rival.sort(key=lambda name: counts[name] or MOST)
    kept = [name for name in counts if counts[name] and ("ADMM, rho" not in name or name == PERIODIC)]
    kept += rival[:1]
    rows, results = [], []
    for threads in given.threads:
        jobs = {name: (candidates(problem, threads)[name], counts[name] or MOST) for name in kept}
        times: dict[str, list[float]] = {name: [] for name in jobs}
        for turn in range(given.rounds + 1):
            for name, (solver, steps) in jobs.items():
                spent = seconds(lambda solver=solver, steps=steps: solver.run(steps))
                if turn:  # the first prepares
                    times[name].append(spent)
        mine = times[OURS]
        for name, found in times.items():
            against = np.median(np.divide(found, mine))
            rows.append([name, threads, counts[name], f"{np.median(found):.2f} s", f"{against:.1f}"])
        results.append({"threads": threads, "times": times})
    table(["solver", "threads", "iterations to 1 %", "time", "over petabatch"], rows)
    found = {"machine": about, "lowest": lowest, "iterations": counts, "results": results}
    keep(found, "peers_csc", given.json)


if __name__ == "__main__":
    main()
