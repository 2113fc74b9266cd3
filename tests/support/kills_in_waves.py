"""A campaign of kills: a sweep in waves that is killed and resumed 20 times has the bits of one that is not.

    python tests/support/kills_in_waves.py [KILLS]
    python tests/support/kills_in_waves.py 10 --split rows --ranks 4            # or features
    python tests/support/kills_in_waves.py 10 --split rows --ranks 4 --pool
    python tests/support/kills_in_waves.py 10 --format zarr

Each kill is a SIGKILL at a random time after the first wave of a process was committed; on ranks, of all
processes or of one alone, and the run is resumed on one or more groups of two. No point is lost, and none is
there twice. The short form is in `tests/waves/test_waves.py`.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from petabatch import results  # noqa: E402
from petabatch.storage import points  # noqa: E402
from petabatch.storage.directory import RunDirectory  # noqa: E402
from support.commands import BIN, set_all, write_small  # noqa: E402
from support.processes import PATIENCE, descendants, wait_for_end  # noqa: E402

POINTS = 80_000
"""About twenty times what is done between two commits."""
SETTINGS = (
    "run.batch=1", "run.display=40", "run.displays=1", "sweep.wave=20", f"sweep.draws={POINTS}",
    "sweep.layers.E.parameters.input={low=0.0, high=2.8}",
    "sweep.layers.I.parameters.input={low=-1.0, high=2.5}",
    "layers.E.parameters.input=0.0", "layers.I.parameters.input=0.0", "output.layers.E.every='display'",
    "output.layers.I.every='display'",
)  # fmt: skip
NETWORK = ROOT / "demos" / "wilson_cowan" / "network.toml"
SHARED = 1_000
"""Points whose slices ranks share."""
CODES = ("connections.dictionary.learn.every='never'", "run.display=10", "run.displays=1",
         "output.layers.V1={every='display', variables=['A']}")  # fmt: skip
WAVES = (*CODES, "run.batch=1", "sweep.wave=20", f"sweep.draws={SHARED}",
         "sweep.layers.V1.threshold={low=0.1, high=0.6}")  # fmt: skip
POOL = (*CODES, f"run.batch={SHARED}", "run.pool=true", "layers.image.source.transforms=[{type='flip'}]")


@dataclass(frozen=True)
class Campaign:
    """Runs that are killed: what of, and on how many ranks at most."""

    folder: Path
    network: Path
    settings: tuple[str, ...]
    points: int
    ranks: int = 1
    parts: int = 1

    def start(self, rng: random.Random, *arguments: object) -> subprocess.Popen[bytes]:
        """Start the command line on some ranks."""
        ranks = self.parts * rng.randint(1, self.ranks // self.parts)
        launcher = [BIN / "mpirun", "-n", str(ranks)] if ranks > 1 else []
        program = [sys.executable, "-P", "-m", "petabatch", *map(str, arguments), "--threads", "1", "-q"]
        return subprocess.Popen([*launcher, *program])

    def run(self, kills: int) -> str:
        """Return what was compared; raises AssertionError where something differs."""
        rng, killed, alone, out = random.Random(1), 0, 0, self.folder / "killed"
        given = ("run", self.network, *set_all(*self.settings), "--out")
        assert self.start(random.Random(1), *given, self.folder / "whole").wait() == 0
        while True:
            process = self.start(rng, "resume", out) if out.exists() else self.start(rng, *given, out)
            before = size(out) if out.exists() else 0
            while process.poll() is None and (killed == kills or not out.exists() or size(out) == before):
                time.sleep(0.01)
            if killed < kills and process.poll() is None:
                time.sleep(rng.random() / 10)  # of a run that takes some seconds
                alone += kill(process, rng)
            if process.wait() == 0:
                break
            killed += 1
        found = points.PointsFiles(RunDirectory.open(out)).read()
        values = np.concatenate([one.values for one in found])
        assert len(values) == len(np.unique(values, axis=0)) == self.points, "points are lost, or twice there"
        assert recorded(out) == recorded(self.folder / "whole")
        counted = f"{killed} kills, {alone} of them of a rank alone, {len(found)} files"
        return f"{counted}, {self.points:,} points: none lost or twice, all bits alike"


def kill(process: subprocess.Popen[bytes], rng: random.Random) -> bool:
    """Kill a run, all of its processes or one of its ranks; return whether it was one."""
    family = descendants(process.pid)
    leaves = [pid for pid in family if not descendants(pid)]
    alone = len(leaves) > 1 and rng.random() < 0.5
    for pid in [rng.choice(leaves)] if alone else [process.pid, *family]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(PATIENCE)
    wait_for_end(family)
    return alone


def size(out: Path) -> int:
    """Return the bytes of the files of points."""
    return sum((out / "points" / str(name)).stat().st_size for name in points.names_of(out))


def recorded(out: Path) -> dict[str, bytes]:
    """Return all that was recorded, as bytes."""
    with results.open(out) as run:
        return {name: np.ascontiguousarray(run[name][...]).tobytes() for name in run}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=20)
    parser.add_argument("--split", choices=("features", "rows"), help="what two ranks share a slice by")
    parser.add_argument("--ranks", type=int, default=2, help="at most, with --split")
    parser.add_argument("--pool", action="store_true", help="slices of a pool, with --split")
    parser.add_argument("--format", choices=("hdf5", "zarr"), default="hdf5", help="output.format")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        form = () if chosen.format == "hdf5" else (f"output.format={chosen.format}",)
        campaign = Campaign(folder, NETWORK, (*SETTINGS, *form), POINTS)
        if chosen.split is not None:
            settings = (*(POOL if chosen.pool else WAVES), f"parallel.{chosen.split}=2", *form)
            campaign = Campaign(folder, write_small(folder), settings, SHARED, chosen.ranks, 2)
        print(campaign.run(chosen.kills))
