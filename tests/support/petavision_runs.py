"""Runs of PetaVision, made again here from the same weights and potentials, and compared step by step.

    python tests/support/petavision_runs.py FOLDER [NAME ...]

Each folder in FOLDER has `run.params`, what it reads, and `out/` as PetaVision wrote it: `LAYER.pvp` of all
written steps, `CONNECTION.pvp` whose first frame has the weights in step 0, and `Checkpoints/` with the
potentials. Input layers whose files are not there show what they were in each step, and layers whose initial
state is of a file that is not there start as they did. Printed is, for each run, the layer or connection with
the largest difference, as a fraction of the largest value that it ever has there, or that a layer has that it
takes a difference of; of a network with random numbers also the means of its layers. Activities of step 0
that nothing sees are not imported, and not compared. The exit code is 1 where one cannot be imported or run,
or more than 1e-4 apart without random numbers.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from petabatch import in_memory
from petabatch.errors import ParamsError, PetabatchError
from petabatch.petavision import Imported, read
from petabatch.petavision.text import toml
from petabatch.sources.pvp import Activities, Weights
from petabatch.spec.load import parse

_MOST = 60
"""Steps of a run that are made again."""
_LIMIT = 1e-4
_RANDOM = ("dropout", "gaussian_noise", "retina", "conductance_lif", "shuffled")


@dataclass(frozen=True)
class Compared:
    """What a run has been found to be."""

    worst: float
    where: str
    frames: int
    random: bool
    means: Mapping[str, tuple[float, float]]
    """Means of each layer over all written steps, there and here."""


def run(folder: Path) -> tuple[Mapping[str, np.ndarray], Imported, int]:
    """Return the states in all steps, the network, and the last step; raises PetabatchError."""
    (one, *_) = read(folder / "run.params")
    if (error := one.translation.error()) is not None:
        raise error
    tables, last = _started(one, folder / "out"), one.translation.draft.length
    last = min(last, _MOST)
    tables["run"] = {
        key: value for key, value in tables["run"].items() if key not in ("display", "displays", "steps")
    }
    display = one.translation.draft.display
    tables["run"] |= {"steps": last} | ({"display": display} if display > 1 else {})
    tables.pop("output", None), tables.pop("checkpoint", None)
    network = parse(toml(tables), str(folder / "run.params"), folder).network
    return in_memory.run(network, range(last + 1)).states, one, last


def compared(folder: Path) -> Compared:
    """Run a parameter file and compare; raises PetabatchError if it cannot be run."""
    found, one, last = run(folder)
    worst, where, frames, means = 0.0, "", 0, {}
    written = {name: (steps, theirs) for name, steps, theirs in _written(one, folder / "out", last)}
    for name, (steps, theirs) in written.items():
        key = next((key for key in (f"layers/{name}/A", f"connections/{name}/weights") if key in found), None)
        if key is None or not steps:
            continue
        mine = found[key][steps].reshape(theirs.shape)
        scale = max(_scale(one, name, written), float(np.abs(theirs).max())) or 1.0
        with np.errstate(invalid="ignore"):
            apart = np.abs(mine - theirs)
        by = float(np.where(mine == theirs, 0, apart).max()) / scale
        frames += len(steps)
        if key.startswith("layers"):
            means[name] = float(theirs[1:].mean()), float(mine[1:].mean())
        if not by <= worst:
            worst, where = by, name
    kinds = [table["type"] for table in one.tables["layers"].values()]
    kinds += [str(table.get("source", {}).get("order")) for table in one.tables["layers"].values()]
    kinds += [str(table.get("stochastic")) for table in one.tables.get("connections", {}).values()]
    return Compared(worst, where, frames, any(kind in (*_RANDOM, "True") for kind in kinds), means)


def _started(one: Imported, out: Path) -> dict[str, Any]:
    """Return the tables of the network, with the weights and potentials of step 0."""
    tables = dict(one.tables)
    folders = (out / "Checkpoints").glob("Checkpoint*")
    start = min(folders, key=lambda path: int(path.name.removeprefix("Checkpoint")), default=None)
    tables["connections"] = {
        name: _weighted(one, out, name, table) for name, table in one.tables.get("connections", {}).items()
    }
    tables["layers"] = {
        name: _shown(one, out, name, _charged(one, out, start, name, table))
        for name, table in one.tables["layers"].items()
    }
    return tables


def _shown(one: Imported, out: Path, name: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return an input layer; where its file is not there, with what it was in each step from step 1 on."""
    file, source = out / f"{name}.pvp", table.get("source", {})
    paths = source.get("file", source.get("files", []))
    paths = [paths] if isinstance(paths, str) else paths
    if not set(paths).intersection(one.translation.draft.files.missing) or not file.exists():
        return table
    batch = one.translation.draft.batch  # of each time there is a frame for each slice, the first of time 0
    order = {"type": "specified", "start": [batch + number for number in range(batch)], "skip": batch}
    shown = {"type": "array", "file": str(file.absolute()), "order": order}
    # A margin of the image is not in the file; what mirrors it, or fills it, is computed from what is.
    kept = {key: value for key, value in table.items() if (key, value) != ("border", "image")}
    return kept | {"every": "step", "source": shown}


def _weighted(one: Imported, out: Path, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of a connection with the first weights of its file, those of its arbor."""
    draft = one.translation.draft
    part = draft.origin.get(("connections", name))
    convs = {f"connections.{key}" for key, one in draft.connections.items() if one["type"] == "conv"}
    arbors = [key for key in part.becomes if key in convs] if part else []
    first = part.name if part and len(arbors) > 1 else name
    file = (out / f"{first}.pvp").absolute()
    if table["type"] != "conv" or not file.exists():
        return dict(table)
    given: dict[str, Any] = {"type": "file", "path": str(file), "frame": 0}
    if len(arbors) > 1:
        given["arbor"] = arbors.index(f"connections.{name}")
    found = {**table, "init": given}
    if "normalize" in table:
        found["normalize"] = {**table["normalize"], "at_start": False}
        if "learn" not in table:
            del found["normalize"]
    return found


def _charged(
    one: Imported, out: Path, start: Path | None, name: str, table: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a layer that starts as it did there, if its start is random, or of a file that is not there."""
    lost = one.translation.draft.files.missing
    random = [
        key
        for key, value in table.get("start", {}).items()
        if value["type"] in ("uniform", "gaussian") or value.get("path") in lost
    ]
    file = out / f"{name}.pvp" if "A" in random else None if start is None else start / f"{name}_V.pvp"
    if file is None or not file.exists() or not random:
        return dict(table)
    where = {"type": "file", "path": str(file.absolute()), "frame": 0, "per_slice": True}
    return {**table, "start": dict.fromkeys(table["start"], where)}


def _written(one: Imported, out: Path, last: int) -> Iterator[tuple[str, list[int], np.ndarray]]:
    """Yield name, steps and values `[steps, ...]` of each file."""
    draft = one.translation.draft
    for part in draft.parts.values():
        file = out / f"{part.name}.pvp"
        if not file.exists() or file.stat().st_size == 0 or not part.becomes:
            continue
        if part.kind.role not in ("layer", "connection"):
            continue
        layer = part.kind.role == "layer"
        read: Any = Activities(str(file)) if layer else Weights(str(file))
        batch = draft.batch if layer else 1
        times = [round(read.time(number) / draft.dt) for number in range(0, read.count, batch)]
        first = 0 if not layer or _starts(one.tables["layers"][part.name]) else 1
        chosen = [at for at, step in enumerate(times) if first <= step <= last]
        values = [np.stack([read.frame(at * batch + element) for element in range(batch)]) for at in chosen]
        if not values:
            continue
        found = np.stack(values)
        if not layer:
            fixed = "plasticityFlag" in part.kind.keys and not part.flag("plasticityFlag")
            if found.shape[2] > 1 or fixed or read.header.kind == 3:
                continue  # of weights that are not shared, a file has those of the margin, 0 off the image
            found = found[:, :, 0]
        yield part.name, [times[at] for at in chosen], found


def _starts(table: Mapping[str, Any]) -> bool:
    """Return whether step 0 of a layer is what it is in PetaVision."""
    memory = ("lca", "momentum_lca", "ista", "constant", "leaky_integrator", "conductance_lif")
    return "start" in table or table["type"] in memory


def _scale(one: Imported, name: str, written: Mapping[str, tuple[list[int], np.ndarray]]) -> float:
    """Return the largest value of the layers that a layer takes a difference of."""
    links = [
        table
        for table in one.tables.get("connections", {}).values()
        if table["post"] == name and table["type"] == "identity"
    ]
    if not any(table.get("channel") == "inh" for table in links):
        return 0.0
    found = [written[table["pre"]][1] for table in links if table["pre"] in written]
    return max((float(np.abs(values).max()) for values in found), default=0.0)


def main() -> int:
    """Compare the runs of a folder; return the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("names", nargs="*")
    given = options.parse_args()
    bad = 0
    warnings.simplefilter("ignore")
    for folder in sorted(path.parent for path in given.folder.glob("*/run.params")):
        if given.names and folder.name not in given.names:
            continue
        try:
            found = compared(folder)
        except (ParamsError, PetabatchError) as error:
            bad += 1
            print(f"{folder.name:60} {error!s}")
            continue
        wrong = not found.worst <= _LIMIT and not found.random
        bad += wrong
        said = "DIFFERS" if wrong else "random" if found.random else "agrees"
        print(
            f"{folder.name:60} {said:8} {found.worst:8.1e} {found.where} ({found.frames} frames)", flush=True
        )
        if found.random:
            for name, (there, here) in found.means.items():
                print(f"    {name:40} mean {there:10.4g} there, {here:10.4g} here")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
