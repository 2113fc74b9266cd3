"""Random networks whose slices several ranks share, by rows, by features or both, compared with one rank.

In float64, where ranks differ by rounding alone: in what is recorded, and in the state at the end. In float32
compiled steps may decide otherwise what rounding decides: they are compared as far as the kernels of one rank
agree.
"""

from __future__ import annotations

import math
import pickle
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from petabatch.errors import InputError, NonFiniteError, ParamsError
from petabatch.network.build import build
from petabatch.spec.network import Network
from support.parts import Recorded, of_ranks, split
from support.random_networks.drawing import Drawing
from support.random_networks.real_splits import EXACT, Parted, apart, by_rounding, distance, on_real_ranks
from support.random_networks.repairing import repaired
from support.random_networks.runs import run, with_run

PARTS: tuple[Mapping[str, int], ...] = (
    {"rows": 2}, {"rows": 3}, {"features": 2}, {"features": 3}, {"features": 2, "rows": 2},
    {"features": 2, "rows": 3},
)  # fmt: skip
LARGEST = 1e4
"""Largest number of a network that is compared: rounding is soon all of a network that diverges."""
ROUNDED, SPREAD = 1e-4, 20
"""Largest difference in float32, of the largest number of an array, to which that between the kernels of one
rank, so many times, is added."""
REAL_EVERY = 10
"""One of this many networks is run on real ranks, too."""


class Divisible(Drawing):
    """A network that is being drawn, of layers whose rows and features several ranks can share."""

    def __init__(self, seed: int, folder: Path) -> None:
        """Begin with nothing; files that the network names are made in `folder`."""
        super().__init__(seed, folder)
        ny, nx, down = self.one_of(2, 2, 3, 4, 6), int(self.rng.integers(1, 4)), self.one_of(1, 2, 3)
        channels, features = self.one_of(1, 2, 3, 4), self.one_of(2, 3, 4, 6, 12)
        self.fine, self.coarse = (ny * down, nx * down, channels), (ny, nx, features)
        self.shapes = [self.fine, self.fine, self.coarse, self.coarse, (ny, nx, channels), (ny, nx, 1)]
        self.shapes += [(ny, nx * down, features), (ny * down, nx, channels), (1, 1, features)]
        self.shapes += [(ny, nx, channels + 1), (ny, nx, 2 * channels + 2)]


class Splits:
    """Draws networks and compares their parts with the whole."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        """Begin after a seed; files that networks name are made in `folder`."""
        self._folder, self.seed = folder, seed
        self.counts = Counter[str]()

    def network(self) -> tuple[Network, list[Mapping[str, int]]]:
        """Draw a network whose numbers stay small, with the parts that `check` accepts, at least one."""
        while True:
            self.seed += 1
            try:
                with warnings.catch_warnings(action="ignore"):
                    network = repaired(Divisible(self.seed, self._folder).network(), lambda *told: None)
                    parts = [one for one in PARTS if self._accepts(network, one)]
                    states = run(with_run(network, kernel="array")).states if parts else []
            except (InputError, NonFiniteError, ParamsError):
                continue
            numbers = [a for a in states[-1].values() if a.dtype.kind == "f" and a.size] if states else []
            if parts and all(abs(a[np.isfinite(a)]).max(initial=0) < LARGEST for a in numbers):
                return network, parts

    def go(self, networks: int, end: float = math.inf) -> Iterator[str]:
        """Compare networks until the time `end`, every tenth on real ranks, too; yield what is wrong.

        Networks of which something is wrong are kept in the folder.
        """
        real: dict[int, list[Parted]] = {}
        for number in range(networks):
            if time.monotonic() > end:
                break
            network, several = self.network()
            parts = several[self.seed % len(several)]
            if number % REAL_EVERY == 0:
                real.setdefault(math.prod(parts.values()), []).append((network, parts))
            if lines := list(self.compare(network, parts)):
                kept = self._folder / f"split_{self.seed}.pickle"
                kept.write_bytes(pickle.dumps((network, parts)))
                yield f"{kept}: " + "; ".join(lines[:5])
        for ranks, some in sorted(real.items()):
            self.counts[f"on {ranks} real ranks"] += len(some)
            yield from on_real_ranks(some, ranks, self._folder)

    def compare(self, network: Network, parts: Mapping[str, int]) -> Iterator[str]:
        """Yield where parts differ from the whole."""
        self.counts[" x ".join(f"{count} {axis}" for axis, count in parts.items())] += 1
        with warnings.catch_warnings(action="ignore"):
            exact = with_run(network, kernel="array", precision="float64", device="cpu")
            expected = _whole(exact)
            free = dict.fromkeys(by_rounding(network, expected), np.inf)
            yield from apart(_whole(split(exact, **parts)), expected, free, EXACT, f"{parts} in float64")
            rounded = with_run(network, kernel="auto", precision="float32", device="cpu")
            alone = _whole(rounded)
            others = expected, _whole(with_run(rounded, kernel="array"))
            spread = {
                key: max(distance(other[key], array) for other in others) for key, array in alone.items()
                if all(key in other for other in others)
            }  # fmt: skip
            found = _whole(split(rounded, **parts))
            yield from apart(
                found,
                alone,
                {key: SPREAD * one for key, one in spread.items()} | free,
                ROUNDED,
                f"{parts} in float32",
            )

    @staticmethod
    def _accepts(network: Network, parts: Mapping[str, int]) -> bool:
        try:
            build(split(network, **parts))
        except ParamsError:
            return False
        return True


def _whole(network: Network) -> Recorded:
    """Return what the ranks of a network, which are threads, have recorded, and their state at the end."""
    recorded, state = of_ranks(network)
    mine = {key: array for key, array in state.items() if not key.startswith("lazy/")}
    return {f"recorded {path}": values for path, values in recorded.items()} | mine
