"""Waves and pools of ranks that share slices on emulated GPUs, against those of one rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from petabatch import simulation
from petabatch.engine import assembly
from petabatch.parallel.comm import Comm
from petabatch.storage.point_rows import Rows
from petabatch.waves import plan
from petabatch.waves.compute import Making
from petabatch.waves.items import Items
from petabatch.waves.plan import Waves
from petabatch.waves.team import Team
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.rank_threads import on_threads

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
FROZEN = ("connections.dictionary.learn.every='never'", "run.displays=2", "run.device='gpu'")
WAVES = ("sweep.layers.V1.threshold=[0.2, 0.3, 0.4]", "sweep.wave=2")
POOL = ("run.batch=5", "run.pool=true")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parts", ["features", "rows"])
@pytest.mark.parametrize("settings", [WAVES, POOL], ids=["waves", "pool"])
def test_points_are_split_over_gpus(
    small: Path, settings: tuple[str, ...], parts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = [EmulatedGpu(), EmulatedGpu()]
    for module in (assembly, plan):
        monkeypatch.setattr(module, "choose", lambda _, comm: devices[comm.rank])

    def rows(*split: str) -> dict[str, np.ndarray]:
        loaded = simulation.read(small, (*FROZEN, *settings, *split))

        def one(comm: Comm) -> list[Rows]:
            points = Items.of(loaded, comm, 1) if settings is POOL else Waves.of(loaded)
            team = Team.of(comm, points.base, 1)
            parts = points.parts(points.points(), team)
            return [wave.rows for wave in points.computed(parts, Making(team, lambda: False))]

        first, *others = on_threads(2 if split else 1, one)
        assert others == [[]] * len(others)
        found = Rows.joined(first)
        order = np.argsort(found.values[:, 0])
        return {path: column[order] for path, column in found.columns.items()}

    whole, split = rows(), rows(f"parallel.{parts}=2")
    for name in whole:
        np.testing.assert_allclose(split[name], whole[name], rtol=1e-5, atol=1e-5, err_msg=name)
