"""How much less ranks would wait for each other if slices were redistributed at each update.

    python benchmarks/deal.py RUN [--ranks 2 4]

RUN is a run directory that recorded the steps of each slice (`run.until`), or its active units more often
than once in a display (`-s 'probes.active.every="10 steps"'`). The work of a slice in a display is taken as
proportional to them. Printed is how far the work of the slowest rank lies above the mean of the ranks: with
contiguous ranges of slices, as they are; with slices balanced by the counts of the display before, which are
known at the update; and with the counts of the display itself, which are not. Balancing keeps the number of
slices of each rank: the slice with the most work goes to the rank with the least.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from petabatch import results

FIRST = 3
"""Displays that are left out: the dictionary is random."""


def counts(run: results.Results) -> np.ndarray:
    """Return the counted work of each slice in each display, `[displays, slices]`."""
    if "probes/until/steps" in run:
        return np.asarray(run["probes/until/steps"][...])
    active, display = run["probes/active/active"], int(run.params["run"]["display"])
    steps, values = np.asarray(active.steps), np.asarray(active[...])
    shown = [values[(steps > first) & (steps <= first + display)] for first in range(0, steps[-1], display)]
    return np.stack([one.mean(axis=0) for one in shown])


def deal(work: np.ndarray, ranks: int) -> np.ndarray:
    """Return the rank of each slice."""
    room, loads, owner = np.full(ranks, len(work) // ranks), np.zeros(ranks), np.zeros(len(work), int)
    for number in np.argsort(-work):
        rank = int(np.argmin(np.where(room > 0, loads, np.inf)))
        owner[number], room[rank] = rank, room[rank] - 1
        loads[rank] += work[number]
    return owner


def above(work: np.ndarray, owners: Sequence[np.ndarray]) -> float:
    """Return how far the slowest rank lies above the mean of the ranks, over all displays."""
    loads = [np.bincount(owner, one) for one, owner in zip(work, owners, strict=True)]
    return float(sum(map(np.max, loads)) / sum(map(np.mean, loads))) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    given = parser.parse_args()
    with results.open(given.run) as run:
        work = counts(run)[FIRST:].astype(float)
    before, after = work[:-1] - work.mean(0), work[1:] - work.mean(0)
    spread, kept = (work.std(axis=1) / work.mean(axis=1)).mean(), np.corrcoef(before.ravel(), after.ravel())
    print(f"{len(work)} displays of {work.shape[1]} slices")
    print(f"standard deviation over slices {spread:.2f} of the mean")
    print(f"correlation with the display before {kept[0, 1]:.2f}")
    print(
        "| ranks | contiguous | balanced by the display before | balanced by the same display |\n"
        + "|---" * 4
        + "|"
    )
    for ranks in given.ranks:
        contiguous = np.arange(work.shape[1]) * ranks // work.shape[1]
        best = [deal(one, ranks) for one in work]
        found = ([contiguous] * len(work), [contiguous, *best[:-1]], best)
        print(f"| {ranks} | {' | '.join(f'{above(work, owners):.2%}' for owners in found)} |")


if __name__ == "__main__":
    main()
