"""A pool of slices (`run.pool`): how long slots wait, beside images that are dealt to slices beforehand.

    python benchmarks/pool.py [--images 2000] [--size 32] [--gap 1e-3] [--threads 2] [--ranks 1]

Crops of a photograph that the dictionary of `params/lca_fixed.toml` has not seen are coded by FISTA up to the
gap. Printed is what the slots of a rank do with their time. From the steps that were made for each image
follows, for as many slots, what they wait for in a pool, and what they would wait for if images were dealt:
to 16 slices, which meet at each flush, every 10 displays.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from petabatch import results

PARAMS = Path(__file__).parents[1] / "params" / "lca_fixed.toml"
PROBE = (
    "{type='optimality', image='image', reconstruction='recon', code='V1', drive='error_to_V1', "
    "coefficient=0.55, every='never'}"
)
SLICES, FLUSH = 16, 10
WAITS = "waiting for slices", "waiting for images"


def settings(images: int, size: int, gap: float) -> list[str]:
    """Return the settings of a pool of images."""
    half = size // 2
    return [
        f"run.batch={images}", "run.displays=1", "run.display=2000", "run.pool=true",
        f"run.until={{gap={gap}}}", f"layers.image.shape=[{size},{size},3]",
        f"layers.error.shape=[{size},{size},3]", f"layers.recon.shape=[{size},{size},3]",
        f"layers.V1={{type='fista', shape=[{half},{half},128], threshold=0.55}}",
        f"probes={{optimality={PROBE}}}", "output.layers={V1={}}", "output.connections={}",
    ]  # fmt: skip


def end(work: np.ndarray, slots: int) -> float:
    """Return the makespan of list scheduling: each slot takes the next task when it is free."""
    busy = np.zeros(slots)
    for one in work:
        busy[busy.argmin()] += one
    return float(busy.max())


def dealt(steps: np.ndarray, slots: int, ranks: int) -> float:
    """Return the same for images dealt to slices, which meet at flushes."""
    shown = steps[: len(steps) // SLICES * SLICES].reshape(-1, SLICES)
    total = 0.0
    for first in range(0, len(shown), FLUSH):
        work = shown[first : first + FLUSH].sum(axis=0)
        each = np.array_split(work, ranks)
        total += max(end(one, slots // ranks) for one in each)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "codes"
        launcher = [str(Path(sys.executable).with_name("mpirun")), "-n", str(given.ranks)]
        command = [sys.executable, "-m", "petabatch", "run", str(PARAMS), "--out", str(out), "-q"]
        command += ["--threads", str(given.threads)]
        for one in settings(given.images, given.size, given.gap):
            command += ["-s", one]
        subprocess.run([*(launcher if given.ranks > 1 else []), *command], check=True)
        with results.open(out) as run:
            steps = run["probes/until/steps"][0].astype(float)
            times = run.attributes["times"]
    slots = given.threads * given.ranks
    busy = sum(times.get(name, 0.0) for name in ("steps", "input", "probes and output"))
    print(
        f"{len(steps):,} images, {steps.min():.0f} to {steps.max():.0f} steps, {steps.mean():.0f} on average"
    )
    lasted = busy + sum(times.get(name, 0.0) for name in WAITS)
    print(f"slots work {busy / lasted:.1%} of {lasted:.1f} s; ", end="")
    print(", ".join(f"{name} {one:.2f} s" for name, one in times.items()))
    whole = end(steps, slots)
    print(f"work in steps over {slots} slots: a pool is {steps.sum() / slots / whole:.2%} efficient")
    apart = dealt(steps, slots, given.ranks)
    used = steps[: len(steps) // SLICES * SLICES].sum()
    print(f"dealt to {SLICES} slices with flushes: {used / slots / apart:.2%}")


if __name__ == "__main__":
    main()
