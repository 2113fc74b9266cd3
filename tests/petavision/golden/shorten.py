"""The compact golden cases of this folder, made from the full ones: fewer steps, and parts of large arrays.

    python tests/petavision/golden/shorten.py FULL

`FULL` is the folder of the full cases. Every number is copied, none is computed.
"""

from __future__ import annotations

import argparse
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent

TIMES = {
    "bc_learn_mirror_s4p12": [0, 21],
    "deep_lca": [0, 102],
    "input_variants_raw": [0, 20],
    "lca_fixed": [0, 100],
    "lca_fixed_adaptive": [0, 400],  # the time scale passes its knee at step 210
    "lca_hard": [0, 3],
    "learn_batch": [0, 101],
    "learn_batch_specified": [0, 101],
    "learn_delayed": [0, 41],
    "learn_hebb": [0, 41],
    "learn_simple": [0, 41],
    "learn_visc_decay": [0, 41],
    "unshared_lca": [0, 21],
    "unshared_learn": [0, 21],
}
"""The steps at which states are kept; otherwise 0 and 50."""

UPDATES = {"bc_learn_mirror_s4p12": 1, "learn_batch_specified": 1, "unshared_learn": 1}
"""The number of weight updates that are kept; otherwise 2, so that the second has a momentum."""

STATES = ("V1_V", "V1_A", "V2_V", "V2_A", "InputError", "InputRecon", "V1Error", "V1Recon")
NORMS = ("energy", "err_sumsq", "sparsity_cost", "l1", "l0", "timescale", "timescale_max")
AT_UPDATES = ("prev_dW", "V1_A_upd", "InputError_upd")
ABOUT = (
    "name",
    "note",
    "images",
    "header",
    "geometry",
    "max_abs_diff_other_build",
    "max_abs_diff_float64_replica",
    "l0_max_diff_other_build",
)
Arrays = dict[str, np.ndarray]


def shorten(about: dict[str, Any], full: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Return the description and the arrays of a compact case."""
    params = about["params"]
    short = {key: full[key] for key in ("images_u8", "W_file", "W1", "W2") if key in full}
    kept = {key: about[key] for key in ABOUT if key in about}
    if "out" in full:  # a single step
        return {**kept, "params": params}, short | {key: full[key] for key in ("W", "input", "out")}
    times = TIMES.get(about["name"], [0, 50])
    rows = [full["t"].tolist().index(t) for t in times]
    short["t"] = full["t"][rows]
    for name in (name for name in STATES if name in full):
        short[name] = leading(full[name][rows])
    steps = times[-1]
    if "tW" in full:
        count = UPDATES.get(about["name"], 2)
        steps = max(steps, int(full["tW"][count - 1]))
        learns = {"W0": full["W0"], **{name: full[name][:count] for name in AT_UPDATES if name in full}}
        short |= {"tW": full["tW"][:count], "W": full["W"][:count], **(learns if "prev_dW" in full else {})}
    short["input"] = full["input"][: math.ceil(steps / params["D"])]
    for name in (name for name in NORMS if name in full):
        before = len(full[name]) - params["nsteps"]  # 1 if there is a row for step 0
        short[name] = full[name][: before + steps]
    return {**kept, "params": {**params, "nsteps": steps}}, short


def leading(states: np.ndarray) -> np.ndarray:
    """Return the leading slices or rows of states `[t, slice, y, x, feature]`, up to 32 KiB for each time."""
    part = states
    while part[0].nbytes > 1 << 15:
        axis = 1 if part.shape[1] > 1 else 2
        part = part.take(range((part.shape[axis] + 1) // 2), axis)
    return part


def save(path: Path, arrays: Arrays) -> None:
    """Write an .npz file that `numpy.load` reads, smaller than `numpy.savez_compressed` makes it."""
    with zipfile.ZipFile(path, "w") as file:
        for name, values in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # without a date: the same bytes each time
            entry.compress_type = zipfile.ZIP_LZMA
            with file.open(entry, "w") as stream:
                np.lib.format.write_array(stream, np.ascontiguousarray(values))


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the compact golden cases from the full ones.")
    parser.add_argument("full", type=Path)
    first: dict[tuple[str, tuple[int, ...], bytes], str] = {}
    for file in sorted(parser.parse_args().full.glob("*/case.json")):
        name = file.parent.name
        with np.load(file.parent / "data.npz") as data:
            about, arrays = shorten(json.loads(file.read_text()), dict(data))
        owners = {key: first.setdefault((key, a.shape, a.tobytes()), name) for key, a in arrays.items()}
        about["same"] = {key: owner for key, owner in owners.items() if owner != name}
        (HERE / name).mkdir(exist_ok=True)
        (HERE / name / "case.json").write_text(json.dumps(about, indent=1) + "\n")
        save(HERE / name / "data.npz", {key: arrays[key] for key, owner in owners.items() if owner == name})


if __name__ == "__main__":
    main()
