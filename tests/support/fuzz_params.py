"""Fuzzing of the import of PetaVision's parameter files, for a given time.

    python tests/support/fuzz_params.py --seconds 600 [--folder FOLDER]

Characters, words and lines of good files, `.params` and `.lua`, are changed, removed, repeated and exchanged.
A file must be read or refused by a ParamsError, within seventy seconds (a process of Lua has sixty). Printed
are the outcomes, and everything else; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parents[1]))
from petabatch.errors import ParamsError
from petabatch.petavision import read
from petabatch.petavision.lua import Environment

_SECONDS = 70
_WORDS = (
    "infinity", "-infinity", "NULL", "true", "1e999", "-1", "0", "1e-400", "[1,2]", '""', '"V1"', '"column"',
    '#include "column"', "{", "}", ";", "=", "[", "]", '"', "//", "ParameterSweep", "9999999999999999999",
    "0.5", "-3", "@nx",
)  # fmt: skip


def damaged(text: str, rng: random.Random) -> str:
    """Return a text with up to five changes."""
    for _ in range(rng.randint(1, 5)):
        pieces = re.split(r"(\s+|[=;{}\[\]:,])", text) if rng.random() < 0.7 else list(text)
        at = rng.randrange(len(pieces))
        match rng.randrange(5):
            case 0:
                pieces[at] = rng.choice(_WORDS)
            case 1:
                del pieces[at]
            case 2:
                pieces[at] *= 2
            case 3:
                other = rng.randrange(len(pieces))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                pieces[at] = chr(rng.randrange(1, 0x2FFF))
        text = "".join(pieces)
        if not text:
            return text
    return text


def outcomes(numbers: Iterable[int], folder: Path, kinds: Sequence[str] = ("params", "lua")) -> Counter[str]:
    """Return how often damaged files of a folder were read or refused; anything else is raised."""
    files = [file for kind in kinds for file in sorted(folder.glob(f"**/*.{kind}"))]
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        for number in numbers:
            rng = random.Random(number)
            good = rng.choice(files)
            file = Path(place) / f"damaged{good.suffix}"
            file.write_text(damaged(good.read_text(), rng))
            try:
                for one in read(file, environment=Environment({"HOME": "/home/me"})):
                    assert one.report
                    assert one.text
                found["read"] += 1
            except ParamsError:
                found["refused"] += 1
    return found


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {_SECONDS} seconds")


def main() -> int:
    """Run the campaign; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "petavision" / "params")
    given = options.parse_args()
    found: Counter[str] = Counter()
    end, number, bad = time.monotonic() + given.seconds, 0, 0
    signal.signal(signal.SIGALRM, _late)
    while time.monotonic() < end:
        signal.alarm(_SECONDS)
        try:
            found += outcomes([number], given.folder)
        except Exception:
            bad += 1
            print(f"number {number}:\n{traceback.format_exc()}")
        signal.alarm(0)
        number += 1
    print(f"{number} files: {dict(found)}, {bad} others")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
