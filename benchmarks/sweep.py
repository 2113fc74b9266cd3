"""Time of a sweep of 8 points against the 8 runs of its points, in turns: python benchmarks/sweep.py."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from petabatch import results

KEY, VALUES = "layers.V1.threshold", (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65)
NETWORKS = {
    "loop": ("params/lca_fixed.toml", ("run.batch=4", "run.displays=4")),
    "two layers": ("params/two_layer.toml", ("run.batch=4", "run.displays=1")),
}
_ROOT = Path(__file__).parents[1]


def seconds(folder: Path, file: str, settings: Sequence[str], *more: str) -> tuple[float, float]:
    """Return the time of a run in a process of its own: of all, and without start and kernels."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    flags = [flag for setting in settings for flag in ("-s", setting)]
    command = [sys.executable, "-m", "petabatch", "run", file, "--out", str(out), "-q", *flags, *more]
    begin = time.perf_counter()
    subprocess.run(command, cwd=_ROOT, check=True)
    whole = time.perf_counter() - begin
    with results.open(out) as run:
        about = run.attributes
    return whole, float(about["seconds"]) - dict(about["times"]).get("kernels", 0.0)


def apart(folder: Path, file: str, settings: Sequence[str]) -> tuple[float, float]:
    """Return the sums over one run for each value."""
    each = [seconds(folder, file, (*settings, f"{KEY}={value}")) for value in VALUES]
    return sum(whole for whole, _ in each), sum(steps for _, steps in each)


def together(folder: Path, file: str, settings: Sequence[str]) -> tuple[float, float]:
    """Return the times of one sweep."""
    return seconds(folder, file, settings, "--sweep", f"{KEY}={','.join(map(str, VALUES))}")


def main(rounds: int) -> None:
    """Print, for each network, the ratio of the two and its range over rounds."""
    with tempfile.TemporaryDirectory() as name:
        for network, (file, settings) in NETWORKS.items():
            run = Path(name), file, settings
            seconds(*run)  # compiles
            ratios = []
            for number in range(rounds):
                ours = together(*run) if number % 2 else None
                theirs = apart(*run)
                ours = ours or together(*run)
                ratios.append((ours[0] / theirs[0], ours[1] / theirs[1]))
            for what, column in zip(("whole", "without the start"), zip(*ratios, strict=True), strict=True):
                found = f"{statistics.median(column):.3f} ({min(column):.3f} to {max(column):.3f})"
                print(f"{network}, {what}: {found} of the 8 runs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
