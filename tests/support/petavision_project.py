"""Parameter files of a PetaVision project: which are imported, and which run.

    python tests/support/petavision_project.py FOLDER [--steps 60]

Every `.params` file below FOLDER is imported, and what is supported is run for some steps. Inputs, weights
and potentials of files that are not there are random numbers of the right shape. Printed is a line for each
file, and how many there are of each outcome. The exit code is 1 where a file is neither run nor refused.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from petabatch import in_memory
from petabatch.errors import ParamsError, PetabatchError
from petabatch.petavision import Imported, read
from petabatch.petavision.text import toml
from petabatch.spec.load import parse


def outcome(file: Path, steps: int, place: Path) -> tuple[str, str]:
    """Return what became of a file in a word, and why."""
    try:
        networks = read(file)
    except ParamsError as error:
        return "not a network", str(error)
    for one in networks:
        if (error := one.translation.error()) is not None:
            return "not supported", str(error)
    try:
        for one in networks:
            in_memory.run(parse(toml(_tables(one, steps, place)), str(file), file.parent).network)
    except PetabatchError as error:
        return "refused", str(error)
    return "runs", ""


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
    options.add_argument("--steps", type=int, default=60)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        for file in sorted(given.folder.rglob("*.params")):
            try:
                what, why = outcome(file, given.steps, Path(place))
            except Exception:
                what, why = "failed", traceback.format_exc()
            counts[what] += 1
            print(f"{what:14} {file.relative_to(given.folder)}")
            print("".join(f"    {line}\n" for line in why.splitlines()), end="", flush=True)
    print(dict(counts))
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
