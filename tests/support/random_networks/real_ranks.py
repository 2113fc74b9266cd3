"""Networks on real ranks, a batch of them in one start of mpirun: a checksum of every array of every slice.

    mpirun -n 3 python tests/support/random_networks/real_ranks.py FILE

FILE holds pickled networks. Rank 0 prints a line for each.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from petabatch.parallel.comm import Comm
from petabatch.parallel.launch import connect
from petabatch.spec.network import Network
from support.mpirun import mpirun
from support.random_runs import finish


def checksum(arrays: Mapping[str, np.ndarray], slices: Sequence[str], comm: Comm | None = None) -> str:
    """Return the checksum of the arrays of all ranks, of which `slices` have an axis of slices."""
    whole = hashlib.sha256()
    for key, array in sorted(arrays.items()):
        own = [hashlib.sha256(one.tobytes()).hexdigest() for one in array]
        parts = [own] if comm is None else comm.gather(own)
        of_all = [one for part in parts or () for one in part] if key in slices else (parts or [own])[0]
        whole.update(f"{key} {of_all}".encode())
    return whole.hexdigest()


def on_real_ranks(networks: Iterable[Network], ranks: int, folder: Path) -> list[str]:
    """Return the checksums of networks, run on real ranks."""
    file = folder / "networks.pickle"
    file.write_bytes(pickle.dumps(list(networks)))
    done = mpirun(ranks, "-W", "ignore", __file__, file, timeout=3600)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


if __name__ == "__main__":
    world = connect(True)
    for network in pickle.loads(Path(sys.argv[1]).read_bytes()):
        engine, _ = finish(network, world)
        saved, variables = engine.state.saved(), engine.state.variables
        line = checksum(saved, [key for key in saved if variables[key].per == "slice"], world)
        if world.rank == 0:
            print(line, flush=True)
