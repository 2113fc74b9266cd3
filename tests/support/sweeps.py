"""A campaign of sweeps: 8 thresholds x 4 slices in one run equal the 8 runs, byte for byte.

    python tests/support/sweeps.py [NETWORK ...]

A sparse-coding loop by each of its kernels, and two layers: each as one sweep on 1, 2 and 3 ranks, and
made again on another number of ranks. All that is recorded and the last checkpoint are compared with the runs
of the thresholds alone. The short forms are in `tests/engine/test_sweep.py`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from petabatch import results, simulation  # noqa: E402
from petabatch.storage.checkpoint import load_checkpoint  # noqa: E402
from support.commands import BIN, set_all  # noqa: E402

KEY, VALUES, BATCH = "layers.V1.threshold", (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65), 4
SWEEP = ("--sweep", f"{KEY}={','.join(map(str, VALUES))}")
SETTINGS = (
    f"run.batch={BATCH}", "run.display=60", "run.displays=2", "checkpoint.every=50", "checkpoint.keep=3",
    'output.layers.V1={variables=["A", "V"]}', 'output.layers.recon.every="20 steps"',
)  # fmt: skip
SMALLER = tuple(
    f"layers.{name}.shape={shape}"
    for name, shape in {
        "image": "[16,16,3]",
        "error": "[16,16,3]",
        "recon": "[16,16,3]",
        "V1": "[8,8,128]",
    }.items()
)
NETWORKS = {
    "array": ("lca_fixed.toml", ("run.kernel=array", *SMALLER)),
    "dense": ("lca_fixed.toml", ("run.kernel=dense",)),
    "lazy": ("lca_fixed.toml", ("run.kernel=lazy",)),
    "two_layers": ("two_layer.toml", ("layers.V2.shape=[8,8,32]", 'output.layers.V2.variables=["A", "V"]')),
}
"""Params files, with further settings."""
Arrays = Mapping[str, np.ndarray]


def recorded(out: Path) -> dict[str, np.ndarray]:
    """Return all that a run recorded, `[times, batch, ...]`, and nothing else."""
    with results.open(out) as run:
        return {name: run[name][:] for name in run}


def saved(out: Path, lo: int, hi: int) -> dict[str, np.ndarray]:
    """Return the arrays of some slices in the last checkpoint of a run."""
    last = max((out / "checkpoints").glob("step_?????????.h5"))
    return load_checkpoint(last, lo, hi)[0]


def same(found: Arrays, expected: Arrays) -> int:
    """Return how many bytes were compared; raises AssertionError where one differs."""
    assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == array.tobytes(), f"{name} differs"
    return sum(array.nbytes for array in expected.values())


def compare(out: Path, alone: Sequence[Path]) -> int:
    """Compare a sweep with the runs of its points."""
    whole, compared = recorded(out), 0
    for point, own in enumerate(alone):
        lo, hi = BATCH * point, BATCH * (point + 1)
        series = recorded(own)
        # What has no batch axis belongs to all slices, as weights in common do.
        mine = {n: v[:, lo:hi] if series[n].shape != v.shape else v for n, v in whole.items()}
        compared += same(mine, series) + same(saved(out, lo, hi), saved(own, 0, BATCH))
    return compared


def petabatch(ranks: int, *arguments: str | Path) -> None:
    """Start the command line on ranks."""
    subprocess.run(
        [BIN / "mpirun", "-n", str(ranks), sys.executable, "-m", "petabatch", *arguments, "-q"], check=True
    )


def campaign(folder: Path, name: str) -> str:
    """Return what was compared of a network; raises AssertionError where bytes differ."""
    file, more = NETWORKS[name]
    settings, params, compared = (*SETTINGS, *more), ROOT / "params" / file, 0
    alone = [folder / f"alone_{value}" for value in VALUES]
    for value, out in zip(VALUES, alone, strict=True):
        loaded = simulation.read(params, [*settings, f"{KEY}={value}"])
        simulation.run(loaded, out, mpi=False, quiet=True)
    codes = [recorded(out)["layers/V1/A"].tobytes() for out in alone]
    assert len(set(codes)) == len(VALUES), "some thresholds make no difference"
    for ranks, then in ((1, 3), (2, 1), (3, 2)):
        out = folder / f"on_{ranks}"
        petabatch(ranks, "run", params, "--out", out, *set_all(*settings), *SWEEP)
        compared += compare(out, alone)
        for file in (out / "points").glob("*.h5"):
            file.unlink()
        petabatch(then, "resume", out)
        compared += compare(out, alone)
    return f"{name}: {compared / 2**20:.0f} MiB alike on 1, 2, 3 ranks, and made again on 3, 1, 2"


def main(names: Sequence[str]) -> None:
    """Run the campaign for the named networks, by default for all."""
    for name in names or NETWORKS:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            print(campaign(Path(folder), name), f"({time.monotonic() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
