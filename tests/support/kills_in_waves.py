"""A campaign of kills: a sweep in waves that is killed and resumed 20 times has the bits of one that is not.

    python tests/support/kills_in_waves.py [KILLS]

Each kill is a SIGKILL at a random time after the first wave of a process was committed. No point is lost, and
none is in the ledger twice. The short form is in `tests/waves/test_waves.py`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from petabatch import results  # noqa: E402
from petabatch.storage import ledger  # noqa: E402
from support.commands import set_all  # noqa: E402

POINTS = 80_000
"""About twenty times what is done between two commits to the ledger."""
SETTINGS = (
    "run.batch=1", "run.display=40", "run.displays=1", "sweep.wave=20", f"sweep.draws={POINTS}",
    "sweep.layers.E.parameters.input={low=0.0, high=2.8}",
    "sweep.layers.I.parameters.input={low=-1.0, high=2.5}",
    "layers.E.parameters.input=0.0", "layers.I.parameters.input=0.0", "output.layers.E.every='display'",
    "output.layers.I.every='display'",
)  # fmt: skip
NETWORK = ROOT / "demos" / "wilson_cowan" / "network.toml"


def start(*arguments: object) -> subprocess.Popen[bytes]:
    """Start the command line."""
    return subprocess.Popen([sys.executable, "-m", "petabatch", *map(str, arguments), "-q"])


def size(out: Path) -> int:
    """Return the bytes of the ledger."""
    return sum(path.stat().st_size for path in ledger.files_of(out))


def recorded(out: Path) -> dict[str, bytes]:
    """Return all that was recorded, as bytes."""
    with results.open(out) as run:
        return {name: np.ascontiguousarray(run[name][...]).tobytes() for name in run}


def campaign(folder: Path, kills: int) -> str:
    """Return what was compared; raises AssertionError where something differs."""
    rng, killed, out = random.Random(1), 0, folder / "killed"
    run = ("run", NETWORK, *set_all(*SETTINGS), "--threads", 1, "--out")
    assert start(*run, folder / "whole").wait() == 0
    while True:
        process = start("resume", out) if out.exists() else start(*run, out)
        before = size(out) if out.exists() else 0
        while process.poll() is None and (killed == kills or not out.exists() or size(out) == before):
            time.sleep(0.01)
        if killed < kills and process.poll() is None:
            time.sleep(rng.random() / 10)  # of a run that takes some seconds
            process.kill()
        if process.wait() == 0:
            break
        killed += 1
    found = [one for path in ledger.files_of(out) if (one := ledger.read(path)) is not None]
    values = np.concatenate([rows[ledger.VALUES] for one in found for rows in one.rows])
    assert len(values) == len(np.unique(values, axis=0)) == POINTS, "points are lost, or twice in the ledger"
    assert recorded(out) == recorded(folder / "whole")
    return f"{killed} kills, {len(found)} ledgers, {POINTS:,} points: none lost or twice, all bits alike"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(campaign(Path(temporary), int(sys.argv[1]) if sys.argv[1:] else 20))
