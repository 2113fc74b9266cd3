"""What a GPU takes of the demos, params files and keys: a table, judged by runs on the emulated GPU.

    python tests/support/gpu_table.py            print the table, in Markdown

Started in the root of the repository, where it writes the images of demos to `runs/demos`. Each network
makes some steps on the emulation of `gpu_emulation.py` and on the CPU. A row says by which method the GPU
advances it and how far the states differ, relative to their norms, or why it is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import petabatch  # noqa: E402
from petabatch.errors import PetabatchError  # noqa: E402
from petabatch.network.build import build  # noqa: E402
from petabatch.network.plan import schedule  # noqa: E402
from petabatch.spec.network import Network  # noqa: E402
from support.gpu_emulation import EmulatedGpu  # noqa: E402
from support.gpu_runs import simulate  # noqa: E402

TOLERANCE = {"tf32": 2e-3}
"""Of rows by the last word of their name; of others 1e-4."""
STEPS = 20
"""Of a display."""
KEYS = {
    "values per slice": ["layers.V1.threshold={slices=[0.3,0.5]}", "run.batch=2"],
    "values over time": ["layers.V1.threshold={at=[1,2],values=[0.5,0.3]}"],
    "sweep": ["sweep.layers.V1.threshold=[0.3,0.5]"],
    "evaluate": ["evaluate.every='1 displays'", "evaluate.source={type='photographs'}"],
    "until": [
        "run.until={gap=0.1}",
        "probes.gap={type='optimality',image='image',reconstruction='recon',code='V1',"
        "drive='error_to_V1',coefficient=0.55}",
    ],
    "float64": ["run.precision='float64'"],
    "tf32": ["run.tf32=true"],
    "kernel = step": ["run.kernel='step'"],
    "kernel = array": ["run.kernel='array'"],
    "all weights learn apart": ["connections.dictionary.mode='shared'"],
}
"""Settings on top of a network whose dictionary is fixed."""


class Row(NamedTuple):
    """What became of a network."""

    name: str
    way: str
    distance: float


def judged(name: str, file: Path, settings: list[str]) -> Row:
    """Return how a network is advanced, and how far its state is from that of the CPU."""
    short = [*settings, "run.displays=2", f"run.display={STEPS}"]
    try:
        there = [setting for setting in short if setting not in ("run.kernel='step'", "run.kernel='display'")]
        _, expected = simulate(petabatch.load(file, there).network)
    except PetabatchError as error:
        return Row(name, f"no run on the CPU either: {_reason(error)}", np.nan)
    device = EmulatedGpu()
    try:
        wanted: Network = petabatch.load(file, [*short, "run.device='gpu'"]).network
        method = schedule(build(wanted), device.limits).method
        _, found = simulate(wanted, device)
    except PetabatchError as error:
        return Row(name, f"refused: {_reason(error)}", np.nan)
    far = [
        float(np.linalg.norm(found[key] - values) / max(np.linalg.norm(values), 1e-30))
        for key, values in expected.items()
    ]
    return Row(name, str(method).split(",")[0].split(":")[0], max(far, default=0.0))


def _reason(error: PetabatchError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].split(": ", 1)[-1]


def rows() -> Iterator[Row]:
    """Judge all demos, all params files, and the main job with other keys."""
    for script in sorted((ROOT / "demos").glob("*/demo.py")):
        exec(script.read_text().partition("# ## Run")[0], {})  # writes its images
        for file in sorted(script.parent.glob("*.toml")):
            yield judged(str(file.relative_to(ROOT)), file, [])
    for file in sorted((ROOT / "params").glob("*.toml")):
        yield judged(str(file.relative_to(ROOT)), file, ["run.batch=2"])
    fixed = ROOT / "params" / "lca_fixed.toml"
    for key, settings in KEYS.items():
        yield judged(f"{fixed.name}, {key}", fixed, ["run.batch=2", *settings])


if __name__ == "__main__":
    print("| network | on a GPU | distance from the CPU |\n|---|---|---|")
    wrong = 0
    for row in rows():
        wrong += row.distance > TOLERANCE.get(row.name.split()[-1], 1e-4)
        distance = "" if np.isnan(row.distance) else f"{row.distance:.1e}"
        print(f"| {row.name} | {row.way} | {distance} |", flush=True)
    sys.exit(bool(wrong))
