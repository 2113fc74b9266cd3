"""Parameter files of a PetaVision project: which are imported, and which run.

    python tests/support/petavision_project.py FOLDER [NAME ...] [--steps 60] [--probes]

Every `.params` file below FOLDER is imported, or those with a NAME in their path. What is supported is run
for some steps. Inputs, weights and potentials of files that are not there are random numbers of the right
shape. Printed is a line for each file, and how many there are of each outcome. The exit code is 1 where a
file is neither run nor refused.

With `--probes` only files with a RequireAllZeroActivityProbe or a StatsProbe are run, and it is printed what
these find: how many units are not zero where all are to be, at most in any step, and how far statistics are
from those in `*Stats_batchElement_0.txt` beside the file, where a test has them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from petabatch import in_memory
from petabatch.errors import ParamsError, PetabatchError
from petabatch.petavision import Imported, read
from petabatch.petavision.part import Part
from petabatch.petavision.text import toml
from petabatch.spec.load import parse

_LOOKED_AT = ("RequireAllZeroActivityProbe", "StatsProbe")
"""Probes that tests of PetaVision look at."""


def outcome(file: Path, steps: int, place: Path, probes: bool) -> tuple[str, str]:
    """Return what became of a file in a word, and why; of `probes` what they found."""
    try:
        networks = read(file)
    except ParamsError as error:
        return "not a network", str(error)
    for one in networks:
        if (error := one.translation.error()) is not None:
            return "not supported", str(error)
    said: list[str] = []
    try:
        for one in networks:
            tables = _tables(one, steps, place)
            done = in_memory.run(parse(toml(tables), str(file), file.parent).network)
            said += _found(one, file, done.recorded) if probes else []
    except PetabatchError as error:
        return "refused", str(error)
    return "runs", "\n".join(dict.fromkeys(said))


def _found(one: Imported, file: Path, recorded: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Yield what probes that a test looks at have found."""
    parts, missing = one.translation.draft.parts, sorted(set(one.translation.draft.files.missing))
    lost = f", with random numbers in place of {', '.join(missing)}" if missing else ""
    for name, part in parts.items():
        found = {key.rpartition("/")[2]: value for key, value in recorded.items() if f"probes/{name}/" in key}
        if part.keyword == "RequireAllZeroActivityProbe" and found:
            counts = found["active"]
            when = f", first in row {int(np.argwhere(counts)[0][0])}" if counts.any() else ""
            layer = part.text("targetLayer")
            yield f"{name}: {counts.max():g} units of {layer} are not zero{when}{lost}"
        if part.keyword == "StatsProbe" and found:
            yield f"{name}: {_statistics(part, file, found)}{lost}"


def _statistics(part: Part, file: Path, found: Mapping[str, np.ndarray]) -> str:
    """Compare statistics with those that a test expects; these have six decimal places."""
    names = {
        "Total": "total",
        "Min": "minimum",
        "Avg": "mean",
        "Max": "maximum",
        "sigma": "std",
        "nnz": "active",
    }
    output = (part.optional_text("probeOutputFile") or "").removesuffix(".txt")
    worst, count = 0.0, 0
    for element in range(found["total"].shape[1]):
        text = file.parent / f"{output}_batchElement_{element}.txt"
        for line in text.read_text().splitlines() if text.exists() else ():
            numbers = dict(re.findall(r"(\w+)==\s*([-\d.e+]+)", line))
            row = round(float(numbers["t"])) - 1
            if not 0 <= row < len(found["total"]):
                continue
            apart = [
                abs(found[ours][row, element] - float(numbers[theirs])) for theirs, ours in names.items()
            ]
            worst, count = max(worst, *apart), count + len(apart)
    if not count:
        return "no values beside the file"
    return f"{count} values, at most {worst:.1e} apart"


def _tables(one: Imported, steps: int, place: Path) -> dict[str, Any]:
    """Return the tables of a network that makes some steps, with files for those that are not there."""
    draft = one.translation.draft
    tables = {key: value for key, value in one.tables.items() if key not in ("output", "checkpoint")}
    run = {key: value for key, value in tables["run"].items() if key not in ("displays", "steps")}
    tables["run"] = run | {"steps": min(steps, draft.length)}
    lost = set(draft.files.missing)
    for table in tables.get("layers", {}).values():
        source = table.get("source", {})
        paths = source.get("files", source.get("file", []))
        if source and lost.intersection([paths] if isinstance(paths, str) else paths):
            found = place / f"{len(list(place.iterdir()))}.npy"
            np.save(found, np.random.default_rng(1).random((8, *table["shape"]), np.float32))
            kept = {key: value for key, value in source.items() if key not in ("type", "files", "file")}
            table["source"] = {"type": "array", "file": str(found), **kept}
        for key, start in table.get("start", {}).items():
            if start.get("path") in lost:
                table["start"][key] = {"type": "uniform"}
    for table in tables.get("connections", {}).values():
        if table.get("init", {}).get("path") in lost:
            table["init"] = {"type": "uniform"}
        if table.get("learn", {}).get("previous", {}).get("path") in lost:
            del table["learn"]["previous"]
    return tables


def main() -> int:
    """Import and run the files of a folder; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("names", nargs="*")
    options.add_argument("--probes", action="store_true")
    options.add_argument("--steps", type=int, default=60)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        for file in sorted(given.folder.rglob("*.params")):
            text = file.read_text(errors="replace")
            if given.names and not any(name in str(file) for name in given.names):
                continue
            if given.probes and not any(f"\n{name} " in text for name in _LOOKED_AT):
                continue
            try:
                what, why = outcome(file, given.steps, Path(place), given.probes)
            except Exception:
                what, why = "failed", traceback.format_exc()
            counts[what] += 1
            print(f"{what:14} {file.relative_to(given.folder)}")
            print("".join(f"    {line}\n" for line in why.splitlines()), end="", flush=True)
    print(dict(counts))
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
