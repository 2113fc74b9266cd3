"""Gradients of codes by images, dictionary and threshold: ours, and backpropagation through unrolled steps.

python benchmarks/gradients.py [--slices 4] [--steps 400] [--rounds 3]    # needs torch; about two minutes

W1 with the learned dictionary: gradients of the squared, randomly weighted sum of codes.
`petabatch.torch.sparse_code` differentiates exact codes on their active sets; the torch loop unrolls a fixed
number of float32 LCA steps and stops short of the minimum. Reported are processor seconds of one thread for
forward and backward passes, the minimum over alternating rounds, and the growth of peak memory, each measured
in a separate process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from common import introduce, keep, options, table
from torch_loop import margins
from workloads import LEARNED, WORKLOADS

from petabatch.sources import Photographs
from petabatch.torch import sparse_code

Gradients = tuple[torch.Tensor, ...]


class Problem:
    """Images, a dictionary, a threshold, and weights of a loss."""

    def __init__(self, slices: int, steps: int) -> None:
        self.work, self.steps = WORKLOADS["W1"], steps
        shape = self.work.image, self.work.image, self.work.channels
        source = Photographs(names=(self.work.photograph,), crop="random", normalize="standard")
        read = source.open(shape, slices, seed=1)
        images = np.stack([read(number, 0) for number in range(slices)])
        atoms = np.load(LEARNED)
        atoms = atoms.reshape(-1, *atoms.shape[-3:])[: self.work.features]
        atoms /= np.sqrt(np.square(atoms).sum((1, 2, 3), keepdims=True))
        self.images, self.atoms = (self.first(one) for one in (images, atoms))
        units = self.work.units
        rng = np.random.default_rng(0)
        self.weights = torch.tensor(
            rng.standard_normal((slices, len(atoms), units, units)), dtype=torch.float
        )

    @staticmethod
    def first(array: np.ndarray) -> torch.Tensor:
        """Return an array with its channels first."""
        return torch.tensor(np.moveaxis(array, -1, 1).copy(), dtype=torch.float, requires_grad=True)

    def gradients(self, code: Callable[..., torch.Tensor]) -> tuple[Gradients, float, float]:
        """Return gradients, and the processor times of forward and backward."""
        threshold = torch.tensor(self.work.threshold, requires_grad=True)
        begin = time.process_time()
        found = code(self.images, self.atoms, threshold)
        middle = time.process_time()
        made = torch.autograd.grad(
            (found * self.weights).square().sum(), (self.images, self.atoms, threshold)
        )
        return made, middle - begin, time.process_time() - middle

    def exact(self, images: torch.Tensor, atoms: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
        """Return codes by petabatch."""
        return sparse_code(images, atoms, threshold, stride=self.work.stride, threads=1)

    def unrolled(self, x: torch.Tensor, w: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
        """Return codes by steps of the LCA."""
        k, stride, (before, after) = 1 - np.exp(-1 / self.work.tau), self.work.stride, margins(self.work)
        pad, uneven = (before, before != after)
        u = a = torch.zeros_like(self.weights)
        recon = torch.zeros_like(x)
        for _ in range(self.steps):
            error = x - recon
            error = F.pad(error, (before, after) * 2) if uneven else error
            drive = F.conv2d(error, w, stride=stride, padding=0 if uneven else pad)
            u = torch.lerp(u, drive + a, k)
            a = (u - threshold).relu()
            recon = F.conv_transpose2d(a, w, stride=stride, padding=0 if uneven else pad)
            if uneven:
                recon = recon[:, :, before:-after, before:-after]
        return a


def peak() -> float:
    """Return the largest memory of this process so far, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def memory(name: str, slices: int, steps: int) -> float:
    """Return the MB by which the memory of a process that differentiates once grows."""
    done = subprocess.run(
        [sys.executable, __file__, "--alone", name, "--slices", str(slices), "--steps", str(steps)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure times and memory."""
    parser = options(__doc__, rounds=3, threads=(1,))
    parser.add_argument("--slices", type=int, default=4)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--alone", help="for measuring memory")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    problem = Problem(given.slices, given.steps)
    ways = {"petabatch": problem.exact, f"{given.steps} unrolled steps": problem.unrolled}
    if given.alone:
        if given.alone == "petabatch":
            problem.gradients(problem.exact)  # kernels are loaded
        before = peak()
        problem.gradients(ways[given.alone])
        print(json.dumps(peak() - before))
        return
    about = introduce()
    problem.gradients(problem.exact)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        for name, way in ways.items():
            _, *both = problem.gradients(way)
            times[name].append((both[0], both[1]))
    least = {name: min(all_times, key=sum) for name, all_times in times.items()}
    grown = {name: memory(name, given.slices, given.steps) for name in ways}
    rows = [
        [name, f"{forward:.3f}", f"{backward:.3f}", f"{forward + backward:.3f}", f"{grown[name]:.0f}"]
        for name, (forward, backward) in least.items()
    ]
    table(("", "forward s", "backward s", "both s", "MB"), rows)
    both = [sum(one) for one in least.values()]
    print(f"\n{both[1] / both[0]:.1f} times")
    keep({"machine": about, "times": rows}, "gradients", given.json)


if __name__ == "__main__":
    main()
