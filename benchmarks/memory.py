"""The estimated and the measured peak of the memory of runs: memory.py [--json FILE].

Each network runs twice, in a process of its own each: the first run compiles its kernels, the second is
measured. The estimate is the one by which `check` warns and `run` refuses.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES, TWO = "params/natural_images.toml", "params/two_layer.toml"
LARGE = [
    f"layers.{name}.shape={shape}"
    for name, shape in (
        ("image", [256, 256, 3]),
        ("error", [256, 256, 3]),
        ("recon", [256, 256, 3]),
        ("V1", [128, 128, 128]),
    )
]
NETWORKS: dict[str, tuple[str, list[str]]] = {
    "dictionary learning": (IMAGES, ["run.displays=2", "run.display=40"]),
    "large slices, lazy": (
        IMAGES,
        ["run.displays=1", "run.display=4", "run.batch=12", "run.kernel='lazy'", *LARGE],
    ),
    "two layers": (TWO, ["run.displays=2", "run.display=5", "run.batch=24"]),
    "non_shared weights": (
        IMAGES,
        ["run.displays=2", "run.display=5", "run.batch=4", "connections.dictionary.mode='non_shared'"],
    ),
    "every step recorded": (
        IMAGES,
        [
            "run.displays=2",
            "run.display=20",
            "run.batch=32",
            "output.layers.V1.variables=['A','V']",
            "output.layers.V1.every='step'",
            "output.flush='10 steps'",
        ],
    ),
    "layer by layer, float64": (
        IMAGES,
        ["run.displays=1", "run.display=4", "run.batch=32", "run.kernel='array'", "run.precision='float64'"],
    ),
}
MEASURE = """
import json, resource, sys
from petabatch import simulation
from petabatch.report.memory import estimate

loaded = simulation.read(sys.argv[1], sys.argv[3:])
expected = estimate(simulation.plan(loaded), loaded.network.run.batch, 2)
simulation.run(loaded, sys.argv[2], force=True, quiet=True, threads=2)
print(json.dumps([expected, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


def measure(file: str, settings: list[str]) -> tuple[int, int]:
    """Return the estimated and the measured peak of a run in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", MEASURE, str(ROOT / file), f"{folder}/run", *settings]
        for _ in range(2):
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    expected, peak = json.loads(done.stdout.splitlines()[-1])
    return expected, peak


def main() -> None:
    """Measure all networks and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the result")
    given, found = parser.parse_args(), {}
    print("| network | estimate (MiB) | measured (MiB) | ratio |\n|---|---|---|---|")
    for name, (file, settings) in NETWORKS.items():
        expected, peak = found[name] = measure(file, settings)
        print(f"| {name} | {expected >> 20} | {peak >> 20} | {expected / peak:.2f} |", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
