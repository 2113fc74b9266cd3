"""Fuzzing of the import of PetaVision's parameter files, for a given time.

    python tests/support/fuzz_params.py --seconds 600 [--folder FOLDER] [--kind params] [--kind lua]

Characters, words and lines of good files, `.params` and `.lua`, are changed, removed, repeated and exchanged;
files in Lua also try to read, write and execute what is outside of their root. A file must be read or refused
by a ParamsError, within seventy seconds (a process of Lua has sixty), and nothing outside may be read or
changed. Printed are the outcomes, and everything else; then the exit code is 1.
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
_SECRET = "what is outside of the root"
_INTRUSIONS = (
    'dofile("../outside.lua")', 'require("outside")', 'require("..outside")', 'dofile("{outside}")',
    'io.open("../new.params", "w"):write("x")', 'io.output("../new.params")', 'os.execute("touch ../new")',
    'dofile("link.lua")', 'print(io.open("{outside}"))', 'os.remove("{outside}")',
    'for line in io.lines("{outside}") do error(line) end', 'os.rename("{outside}", "x")', 'os.exit(0)',
    'loadstring("dofile([[../outside.lua]])")()', 'load("return 1")()', 'getmetatable("").__index = io',
    'package.loadlib("{outside}", "*")', "debug.getregistry()", 'string.rep("x", 1e9)',
    'error(setmetatable({}, {__tostring = function() error("again") end}))', "coroutine.wrap(f)()",
)  # fmt: skip
"""Statements of Lua that reach for what is outside of the root, or for the process."""
_ENDLESS = ("while true do end", "local t = {} while true do t[#t + 1] = t end")
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


def intruding(text: str, outside: Path, rng: random.Random) -> str:
    """Return a text in Lua with a line that reaches for what is outside of its root, or does not end."""
    lines = text.splitlines()
    line = rng.choice(_ENDLESS if rng.random() < 0.01 else _INTRUSIONS).replace("{outside}", str(outside))
    lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def outcomes(numbers: Iterable[int], folder: Path, kinds: Sequence[str] = ("params", "lua")) -> Counter[str]:
    """Return how often damaged files of a folder were read or refused; anything else is raised."""
    files = [file for kind in kinds for file in sorted(folder.glob(f"**/*.{kind}"))]
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        outside, root = Path(place) / "outside.lua", Path(place) / "root"
        outside.write_text(f'error("{_SECRET}")')
        root.mkdir()
        (root / "link.lua").symlink_to(outside)
        before = _seen(Path(place))
        for number in numbers:
            rng = random.Random(number)
            good = rng.choice(files)
            file = root / f"damaged{good.suffix}"
            text, intrudes = good.read_text(), good.suffix == ".lua" and rng.random() < 0.5
            if intrudes:
                text = intruding(text, outside, rng)
            file.write_text(text if intrudes and rng.random() < 0.5 else damaged(text, rng))
            said = ""
            try:
                for one in read(file, environment=Environment({"HOME": "/home/me"})):
                    assert one.report
                    assert one.text
                found["read"] += 1
            except ParamsError as error:
                said = str(error)
                found["refused"] += 1
            assert _SECRET not in said, number
            file.unlink()
            assert _seen(Path(place)) == before, number
    return found


def _seen(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, by name."""
    return {str(one): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {_SECONDS} seconds")


def main() -> int:
    """Run the campaign; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "petavision" / "params")
    options.add_argument("--kind", action="append", choices=("params", "lua"))
    given = options.parse_args()
    found: Counter[str] = Counter()
    end, number, bad = time.monotonic() + given.seconds, 0, 0
    signal.signal(signal.SIGALRM, _late)
    while time.monotonic() < end:
        signal.alarm(_SECONDS)
        try:
            found += outcomes([number], given.folder, given.kind or ("params", "lua"))
        except Exception:
            bad += 1
            print(f"number {number}:\n{traceback.format_exc()}")
        signal.alarm(0)
        number += 1
    print(f"{number} files: {dict(found)}, {bad} others")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
