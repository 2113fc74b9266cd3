"""A small network as a parameter file, and a checkpoint of PetaVision for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from petabatch.petavision.pvp import write_activities, write_weights
from support.petavision_network import group

RNG = np.random.default_rng(1)
WEIGHTS = RNG.normal(size=(1, 1, 2, 3, 3, 1)).astype(np.float32)
MOMENTUM = RNG.normal(size=WEIGHTS.shape).astype(np.float32)
POTENTIALS = RNG.normal(size=(2, 4, 4, 2)).astype(np.float32)


def checkpoint(folder: Path) -> Path:
    """Write a checkpoint of the network of `net`."""
    place = folder / "Checkpoint08"
    place.mkdir()
    write_weights(place / "CToO_W.pvp", [(8.0, WEIGHTS)])
    write_weights(place / "CToO_prev_dW.pvp", [(8.0, MOMENTUM)])
    write_activities(place / "C_V.pvp", (4, 4, 2), ((8.0, frame) for frame in POTENTIALS))
    (place / "I_FrameNumbers.bin").write_bytes(np.array([2, 3], "<i4").tobytes())
    return place


def net(folder: Path, start: bool) -> Path:
    write_activities(
        folder / "images.pvp", (4, 4, 1), enumerate(np.arange(5.0)[:, None, None, None] * np.ones((4, 4, 1)))
    )
    flag: dict[str, Any] = {"initializeFromCheckpointFlag": True} if start else {}
    column: dict[str, Any] = {"initializeFromCheckpointDir": "Checkpoint08"} if start else {}
    groups = [
        group("HyPerCol", "column", nx=4, ny=4, nbatch=2, stopTime=4, **column),
        group("PvpLayer", "I", inputPath="images.pvp", nf=1, phase=0, displayPeriod=2, **flag),
        group(
            "HyPerLCALayer", "C", nf=2, phase=1, VThresh=0.3, AMin=0, AShift=0.3, InitVType="UniformRandomV",
            **flag,
        ),
        group("HyPerLayer", "O", nf=1, phase=2),
        group(
            "MomentumConn", "CToO", nxp=3, nyp=3, weightInitType="UniformRandomWeight", dWMax=1,
            triggerLayerName="I", momentumMethod="simple", timeConstantTau=0.5, normalizeMethod="none",
            channelCode=0, **flag,
        ),
    ]  # fmt: skip
    (folder / "net.params").write_text("\n".join(groups))
    return folder / "net.params"
