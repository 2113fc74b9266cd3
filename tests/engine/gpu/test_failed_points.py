"""Points of a sweep that fail on an emulated GPU: alone, and with their last finite state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from petabatch import results, simulation
from petabatch.engine import assembly
from petabatch.engine.gpu.arrays import DeviceArrays, slice_bytes
from petabatch.network.build import build
from petabatch.network.slices import sliced
from petabatch.storage.checkpoint import load_checkpoint
from petabatch.waves import plan
from petabatch.waves import run as runs
from support.commands import alone
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)

SETTINGS = (
    *("connections.dictionary.learn.every='never'", "run.displays=4", "run.display=20", "checkpoint.keep=19"),
    "sweep.connections.image_to_error.strength=[1.0, 1e30, 0.5]",
)


def have(device: EmulatedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be this GPU."""
    for module in (assembly, plan):
        monkeypatch.setattr(
            module, "choose", lambda wanted, _: device if wanted.run.device == "gpu" else None
        )
    monkeypatch.setattr(runs, "require", lambda: None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kernel", "fit"), [("display", 9), ("step", 9), ("array", 9), ("step", 4)])
def test_they_fail_alone(small: Path, kernel: str, fit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.load(small.parent / "images.npy")
    images[3:] *= 1e10  # those of the second display
    np.save(small.parent / "images.npy", images)
    loaded = simulation.read(small, SETTINGS)
    each = slice_bytes(build(sliced(loaded.network, 0)))
    kept = sum(
        v.nbytes("float32") for v in build(sliced(loaded.network, 0)).variables.values() if v.checkpoint
    )
    device = EmulatedGpu((fit + 0.5) * (each + kept) / 0.85)
    windows: list[int] = []
    made = DeviceArrays.__init__

    def noted(self: DeviceArrays, *found: object) -> None:
        made(self, *found)  # type: ignore[arg-type]
        windows.append(len(self.windows))

    monkeypatch.setattr(DeviceArrays, "__init__", noted)
    have(device, monkeypatch)
    out = alone(small, "gpu", *SETTINGS, "run.device='gpu'", f"run.kernel='{kernel}'")
    assert windows == [1 if fit == 9 else 3]
    with results.open(out) as run, results.open(alone(small, "cpu", *SETTINGS)) as expected:
        assert run.coordinates["failed"][::3].tolist() == [-1, 40, -1]
        sound = [0, 1, 2, 6, 7, 8]
        for name in ("layers/V1/A", "probes/energy/total"):
            mine, theirs = run[name][...], expected[name][...]
            assert np.isnan(mine[-1, 3:6]).all()
            scale = np.abs(theirs[:, sound]).max()
            np.testing.assert_allclose(mine[:, sound], theirs[:, sound], rtol=0, atol=3e-4 * scale)
    begin = alone(small, "begin", *SETTINGS, "run.displays=1", "run.device='gpu'", f"run.kernel='{kernel}'")
    states = {20: load_checkpoint(begin / "checkpoints" / "step_000000020.h5", 0, 9)[0]}
    states[80], meta = load_checkpoint(out / "checkpoints" / "step_000000080.h5", 0, 9)
    assert [[number, step] for number, _, step in meta["failed"]] == [[3, 40], [4, 40], [5, 40]]
    before, found = states[20]["layers/V1/V"][3:6], states[80]["layers/V1/V"][3:6]
    assert np.abs(before).max() > 1e20
    assert found.tobytes() == before.tobytes()


@pytest.mark.long
def test_they_fail_alone_on_held_out_images(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = (
        *(SETTINGS[0], "run.displays=1", "run.display=20"),
        "sweep.connections.recon_to_error.strength=[1.0, -4.0, 0.5]",
        "evaluate={source={type='noise'}, every='display', displays=9}",
    )
    loaded = simulation.read(small, settings)
    each = slice_bytes(build(sliced(loaded.network, 0)))
    device = EmulatedGpu(4.5 * 2 * each / 0.85)
    have(device, monkeypatch)
    out = alone(small, "gpu", *settings, "run.device='gpu'")
    with results.open(out) as run:
        assert run.coordinates["failed"][::3].tolist() == [-1, 20, -1]
        assert np.isfinite(run["probes/evaluate/energy_total"][...][:, [0, 1, 2, 6, 7, 8]]).all()
    arrays, _ = load_checkpoint(out / "checkpoints" / "step_000000020.h5", 0, 9)
    assert not arrays["layers/V1/V"][3:6].any()  # the only other finite state is that of step 0
    assert np.isfinite(arrays["layers/V1/V"]).all()


PICKY = """
from typing import Literal

from petabatch.layers import LCA


class Picky(LCA):
    type: Literal["picky"] = "picky"

    def update(self, ctx, state, drive, previous, activity):
        if self.threshold == 0.3 and ctx.step > 5:
            raise ValueError("no threshold of 0.3, please")
        super().update(ctx, state, drive, previous, activity)
"""


def test_an_update_that_raises_fails_its_points(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (small.parent / "picky.py").write_text(PICKY)
    settings = (
        *(SETTINGS[0], "plugins=['picky.py']", "run.device='gpu'"),
        *("layers.V1.type='picky'", "sweep.layers.V1.threshold=[0.3, 0.4, 0.3]"),
    )
    have(EmulatedGpu(), monkeypatch)
    with results.open(alone(small, "out", *settings)) as run:
        assert run.coordinates["failed"][::3].tolist() == [0, -1, 0]
        assert "no threshold of 0.3" in run.attributes["points"]["why"]["2"]
        assert np.isnan(run["layers/V1/A"][:, :3]).all()
        assert np.isfinite(run["layers/V1/A"][:, 3:6]).all()
