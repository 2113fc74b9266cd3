"""Fuzzing of PetaVision's .pvp files, for a given time.

    python tests/support/fuzz_pvp.py --seconds 600 [--folder FOLDER]

Bytes of good files (of FOLDER, or some that are written here) are changed, removed and repeated, those of the
headers most. A file must be read, and become an array, or be refused by an InputError, within ten seconds of
processor time and without asking for more memory than 4 GB. Printed are the outcomes, and everything else;
then the exit code is 1.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from petabatch.errors import InputError
from petabatch.petavision.arrays import convert_pvp
from petabatch.petavision.pvp import write_activities, write_weights
from petabatch.sources.pvp import Activities, Pvp, Weights

_SECONDS = 10
_FIELDS = (0, 1, 2, 7, 8, 255, 2**16, 2**31 - 1, 2**32 - 1)


def good(folder: Path) -> list[bytes]:
    """Return files of each type."""
    rng = np.random.default_rng(0)
    frames = [(float(t), rng.normal(size=(3, 4, 2)) * (rng.random((3, 4, 2)) < 0.5)) for t in range(3)]
    weights = [(float(t), rng.normal(size=(2, 2, 3, 3, 3, 2))) for t in range(2)]
    path = folder / "good.pvp"
    found = []
    for sparse in (False, True):
        write_activities(path, (3, 4, 2), frames, sparse)
        found.append(path.read_bytes())
    for units in (None, (1, 1)):
        write_weights(path, weights, units)
        found.append(path.read_bytes())
    return found


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return a file with up to four changes."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(len(found), 112) if rng.random() < 0.7 else len(found))
        match rng.randrange(4):
            case 0:
                found[at] = rng.randrange(256)
            case 1:
                at -= at % 4
                found[at : at + 4] = rng.choice(_FIELDS).to_bytes(4, "little")
            case 2:
                del found[at : at + rng.randrange(1, 64)]
            case _:
                found[at:at] = found[at : at + rng.randrange(1, 64)]
        if not found:
            return b""
    return bytes(found)


def outcome(number: int, files: Sequence[bytes], place: Path) -> str:
    """Read a damaged file; return whether it was read or refused."""
    rng = random.Random(number)
    file = place / "x.pvp"
    file.write_bytes(damaged(rng.choice(files), rng))
    try:
        kind = Pvp(str(file)).header.kind
        read: Activities | Weights = Weights(str(file)) if kind in (3, 5) else Activities(str(file))
        for at in range(min(read.count, 4)):
            read.frame(at)
            read.time(at)
        if read.count * 8 <= len(files[0]):
            convert_pvp(file, place / "x.h5", force=True)
    except InputError:
        return "refused"
    return "read"


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {_SECONDS} seconds of processor time")


def main() -> int:
    """Run the campaign; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    counts: Counter[str] = Counter()
    end, number, bad = time.monotonic() + given.seconds, 0, 0
    signal.signal(signal.SIGPROF, _late)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        files = good(place)
        if given.folder is not None:
            found = sorted(given.folder.glob("**/*.pvp"))
            files += [file.read_bytes() for file in found if file.stat().st_size < 1 << 16]
        while time.monotonic() < end:
            signal.setitimer(signal.ITIMER_PROF, _SECONDS)
            try:
                counts[outcome(number, files, place)] += 1
            except Exception:
                bad += 1
                print(f"number {number}:\n{traceback.format_exc()}")
            signal.setitimer(signal.ITIMER_PROF, 0)
            number += 1
    print(f"{number} files: {dict(counts)}, {bad} others")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
