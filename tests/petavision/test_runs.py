"""The comparison with runs of PetaVision, `tests/support/petavision_runs.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import petabatch
from petabatch import in_memory
from petabatch.petavision.pvp import write_activities, write_weights
from support.petavision_network import group
from support.petavision_runs import compared

RNG = np.random.default_rng(5)
STEPS = 6


def test_a_run_whose_inputs_are_lost_is_repeated_from_what_its_layers_were(tmp_path: Path) -> None:
    """Each slice shows its own frames, also beyond a mirrored edge, and layers start as they did."""
    frames = RNG.normal(size=(5, 4, 4, 1)).astype(np.float32)
    write_activities(tmp_path / "images.pvp", (4, 4, 1), enumerate(frames))
    write_activities(tmp_path / "start.pvp", (4, 4, 1), enumerate(frames[:2]))
    (tmp_path / "run.params").write_text(
        group("HyPerCol", "column", nx=4, ny=4, nbatch=2, stopTime=STEPS)
        + group("PvpLayer", "I", inputPath="images.pvp", nf=1, displayPeriod=2, mirrorBCflag=True)
        + group("ConstantLayer", "C", nf=1, InitVType="InitVFromFile", Vfilename="start.pvp")
        + group("HyPerLayer", "O", nf=1, phase=1, InitVType="ZeroV")
        + group("IdentConn", "CToO", channelCode=0)
        + group(
            "HyPerConn", "IToO", channelCode=0, nxp=3, nyp=3, plasticityFlag=False, normalizeMethod="none",
            weightInitType="UniformRandomWeight",
        )
    )  # fmt: skip
    states = in_memory.run(petabatch.load(tmp_path / "run.params"), range(STEPS + 1)).states
    (tmp_path / "out").mkdir()
    for name in "ICO":
        found = [(float(t), one) for t, batch in enumerate(states[f"layers/{name}/A"]) for one in batch]
        write_activities(tmp_path / "out" / f"{name}.pvp", (4, 4, 1), found)
    weights = [(0.0, states["connections/IToO/weights"][0, 0])]
    write_weights(tmp_path / "out" / "IToO.pvp", weights)
    for name in ("images", "start"):
        (tmp_path / f"{name}.pvp").unlink()
    found = compared(tmp_path)
    assert (found.worst, found.frames) == (0.0, 3 * STEPS + 1)
