"""Random problems for `encode`, and the energies of their codes beside those of a float64 model in NumPy.

    python tests/support/lasso_problems.py 500 [FIRST]

draws dictionaries with atoms of norm 1e-4 to 1e4, equal or not, of one sign or both; images of eight bits and
floats; strides, thresholds down to 1e-3 of the largest drive, and both signs of codes. A code is wrong where
its energy exceeds that of the code 0, or is further above the minimum than its gap says.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import petabatch
from support.optimum import Problem

GAP = 1e-3
ROUNDING = 2e-5
"""What rounding in float32 adds to an energy, relative to it."""
NORMS = (1, 1, 1e-4, 1e-2, 10, 1e2, 1e3, 1e4)


@dataclass(frozen=True)
class Drawn:
    """A problem, and its images as `encode` gets them."""

    model: Problem
    images: np.ndarray
    dictionary: np.ndarray

    def faults(self) -> Iterator[str]:
        """Code all images and yield what is wrong with the codes."""
        model = self.model
        codes = petabatch.encode(
            self.images,
            self.dictionary,
            model.threshold,
            stride=model.stride,
            signed=model.signed,
            gap=GAP,
            steps=3000,
            quiet=True,
            threads=1,
        )
        for number, (code, gap) in enumerate(zip(codes.activity, codes.gap, strict=True)):
            energy = model.energy(code.astype(float), number)
            zero, least = model.energy(np.zeros(model.code), number), minimum(model, number)
            if not energy <= zero * (1 + ROUNDING):
                yield f"energy {energy:.6g} above {zero:.6g} of code 0"
            if not energy <= least / (1 - min(gap, 0.999)) * (1 + ROUNDING):
                yield f"energy {energy:.6g}, minimum {least:.6g}, gap {gap:.2g}"


def minimum(problem: Problem, number: int, most: int = 50_000) -> float:
    """Return the least energy, to a tenth of GAP if `most` steps of restarted FISTA in float64 reach it."""
    image, size = problem.data[number, 0].ravel(), np.linalg.norm(problem.matrix, 2)
    matrix, penalty = problem.matrix / size, problem.threshold / size
    gram, seen = matrix.T @ matrix, matrix.T @ image
    code = start = np.zeros(len(seen))
    age, energy = 1.0, 0.0
    for step in range(most):
        target = start + seen - gram @ start
        shrunk = np.maximum((np.abs(target) if problem.signed else target) - penalty, 0)
        new = np.copysign(shrunk, target) if problem.signed else shrunk
        older = 1.0 if (start - new) @ (new - code) > 0 else (1 + np.sqrt(1 + 4 * age**2)) / 2
        start = new + max(0.0, (age - 1) / older) * (new - code)
        code, age = new, older
        if step % 50 == 49:
            residual = image - matrix @ code
            slope = matrix.T @ residual
            steepest = np.abs(slope).max() if problem.signed else slope.max()
            inside = min(1.0, penalty / steepest) if steepest > 0 else 1.0
            energy = 0.5 * residual @ residual + penalty * np.abs(code).sum()
            dual = inside * (residual @ image) - 0.5 * inside**2 * (residual @ residual)
            if energy - dual <= 0.1 * GAP * energy:
                break
    return float(energy)


def drawn(seed: int) -> Drawn:
    """Return the problem of a seed."""
    rng = np.random.default_rng(seed)
    stride, channels = int(rng.choice([1, 2, 4])), int(rng.choice([1, 1, 3]))
    rows, columns = (stride * int(rng.integers(*((4, 8) if stride == 1 else (2, 5)))) for _ in "yx")
    patch = [int(rng.integers(1, min(length, 7) + 1)) for length in (rows, columns)]
    shape = (int(rng.integers(1, 3)), rows, columns, channels)
    if rng.random() < 0.3:
        images = rng.integers(0, 256, shape).astype(np.uint8)
        pixels = images / 255
    else:
        images = (rng.normal(size=shape) * rng.choice([1e-3, 1, 1, 100])).astype(rng.choice(["f4", "f8"]))
        pixels = images
    atoms = rng.normal(size=(int(rng.integers(1, 9)), *patch, channels))
    atoms = np.abs(atoms) if rng.random() < 0.3 else atoms
    if rng.random() < 0.2:
        atoms[rng.integers(len(atoms))] = atoms[0]
    atoms *= rng.choice(NORMS) / np.sqrt(np.square(atoms).sum(axis=(1, 2, 3), keepdims=True))
    if rng.random() < 0.2:
        atoms *= 10 ** rng.uniform(-1, 1, len(atoms))[:, None, None, None]
    dictionary = atoms.astype(rng.choice(["f4", "f8"]))
    data = pixels.astype(np.float32).astype(float)[:, None]
    model = Problem(data, dictionary.astype(float)[None, None], stride, 1.0, bool(rng.integers(2)))
    drive = np.abs(data.reshape(len(data), -1) @ model.matrix).max()
    return Drawn(
        model.at(threshold=float(drive * rng.choice([0.5, 0.1, 0.1, 0.02, 1e-3]))), images, dictionary
    )


if __name__ == "__main__":
    logging.getLogger("petabatch").setLevel(logging.ERROR)
    number, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    wrong = 0
    for seed in range(first, first + number):
        for fault in drawn(seed).faults():
            wrong += 1
            print(f"problem {seed}: {fault}", flush=True)
    print(f"{number} problems, {wrong} faults")
