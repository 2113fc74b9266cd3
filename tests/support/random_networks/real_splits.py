"""Networks whose slices real ranks share, a batch of them in one start of mpirun, compared with one rank.

    mpirun -n 2 python tests/support/random_networks/real_splits.py FILE

FILE holds pickled pairs of a network and its parts, as many as there are ranks. Each is run in memory and to
files, in float64. Rank 0 prints a line for each difference, and how many there were.
"""

from __future__ import annotations

import logging
import pickle
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import petabatch
from petabatch import in_memory
from petabatch.parallel.comm import Comm
from petabatch.parallel.launch import connect
from petabatch.probes import PSNR
from petabatch.spec.network import Network
from support.mpirun import mpirun
from support.parts import Recorded, split
from support.random_networks.runs import with_run

Parted = tuple[Network, Mapping[str, int]]
EXACT = 1e-9
"""Largest difference in float64, of the largest number of an array."""


def on_real_ranks(networks: Sequence[Parted], ranks: int, folder: Path) -> list[str]:
    """Return what differs between networks on real ranks and on one."""
    file = folder / "splits.pickle"
    file.write_bytes(pickle.dumps(list(networks)))
    done = mpirun(ranks, "-W", "ignore", __file__, file, timeout=3600)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert last == f"{len(networks)} networks"
    return lines


def differences(network: Network, parts: Mapping[str, int], world: Comm, folder: Path) -> Iterator[str]:
    """Yield where parts differ from the whole, in memory and in files; collective."""
    whole = with_run(network, kernel="array", precision="float64", device="cpu")
    alone = _found(in_memory.run(whole, threads=1))
    free = dict.fromkeys(by_rounding(network, alone), np.inf)
    found = _found(in_memory.run(split(whole, **parts), threads=1))
    yield from apart(found, alone, free, EXACT, f"{parts} in memory")
    petabatch.run(split(whole, **parts), folder, force=True, quiet=True, threads=1)
    world.barrier()
    with petabatch.open(folder) as run:
        written = {f"recorded {name}": run[name][...] for name in run if len(run[name])}
    expected = {key: array for key, array in alone.items() if key.startswith("recorded ") and len(array)}
    yield from apart(written, expected, free, EXACT, f"{parts} in files")


def _found(result: in_memory.Result) -> Recorded:
    recorded = {f"recorded {path}": values for path, values in result.recorded.items()}
    return recorded | {key: array for key, array in result.end.arrays.items() if not key.startswith("lazy/")}


def by_rounding(network: Network, recorded: Recorded) -> Iterator[str]:
    """Yield what follows from rounding alone.

    Which units of a sum are not 0, where a probe measures those alone; the PSNR of a layer with itself.
    """
    for name, probe in network.probes.items():
        masks = {getattr(one, "mask", None) for one in (probe, *getattr(probe, "terms", {}).values())}
        same = isinstance(probe, PSNR) and probe.image == probe.reconstruction
        if same or any(mask is not None and not network.layers[mask].sparse for mask in masks):
            yield from (path for path in recorded if path.startswith(f"recorded probes/{name}/"))


def apart(
    found: Recorded, expected: Recorded, spread: Mapping[str, float], tolerance: float, what: str
) -> Iterator[str]:
    """Yield the arrays that are apart by more than a tolerance, and what `spread` grants each."""
    for key in found.keys() ^ expected.keys():
        yield f"{what}: {key} is there once only"
    for key in found.keys() & expected.keys():
        mine, theirs = found[key], expected[key]
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            yield f"{what}: {key} is {mine.dtype} {mine.shape}, not {theirs.dtype} {theirs.shape}"
            continue
        finite = np.isfinite(theirs.astype(float))
        scale = max(1.0, float(abs(theirs[finite]).max(initial=0)))
        far = distance(mine, theirs)
        if not far <= tolerance * scale + spread.get(key, 0.0):
            yield f"{what}: {key} differs by {far:.3g} of {scale:.3g}"


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference; infinity where one alone is finite, or of lists of other lengths."""
    if found.shape != expected.shape:
        return np.inf
    a, b = found.astype(float), expected.astype(float)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return float(np.nan_to_num(abs(a - b)[~same], nan=np.inf).max(initial=0.0))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.getLogger("petabatch").setLevel(logging.CRITICAL)
    ranks, file = connect(True), Path(sys.argv[1])
    given = pickle.loads(file.read_bytes())
    for network, parts in given:
        for line in differences(network, parts, ranks, file.parent / "run"):
            if ranks.rank == 0:
                print(line, flush=True)
    if ranks.rank == 0:
        print(f"{len(given)} networks")
