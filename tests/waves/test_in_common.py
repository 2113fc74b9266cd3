"""Synapses that all slices of a wave share: those that each point has in a run of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory, simulation
from petabatch.errors import ParamsError
from petabatch.storage import segment
from petabatch.waves import index
from petabatch.waves.plan import Waves

NODES = """
[run]
batch = 2
steps = 30

[layers.nodes]
type = "neurons"
shape = [2, 4, 1]
equations = "dx/dt = (k + coupling - x) / 10"
parameters = { k = 0.5 }
currents = ["coupling"]
start.x = { type = "uniform", low = 0.0, high = 1.0, per_slice = true }

[connections.tracts]
type = "sparse"
pre = "nodes"
post = "nodes"
target = "coupling"
probability = 0.5
speed = 0.4
init = { type = "uniform", low = 0.0, high = 0.5 }

[output.layers.nodes]
"""


def ended(folder: Path, name: str, *settings: str) -> np.ndarray:
    """Return what a run with these settings recorded of the layer."""
    file = folder / "nodes.toml"
    file.write_text(NODES, "utf-8")
    with simulation.run(simulation.read(file, settings), folder / name, mpi=False, quiet=True) as run:
        found: np.ndarray = run["layers/nodes/A"][...]
        return found


@pytest.mark.parametrize("wave", [(), ("sweep.wave=3",)])
@pytest.mark.parametrize("key", ["connections.tracts.speed", "connections.tracts.probability"])
def test_a_wave_has_one_value_of_what_its_synapses_follow_from(
    key: str, wave: tuple[str, ...], tmp_path: Path
) -> None:
    ranges = {key: (0.3, 1.0), "layers.nodes.parameters.k": (0.5, 0.9)}
    swept = ended(tmp_path, "swept", *wave, *(f"sweep.{path}={list(r)}" for path, r in ranges.items()))
    for number, values in enumerate(product(*ranges.values())):
        given = (f"{path}={value}" for path, value in zip(ranges, values, strict=True))
        own = ended(tmp_path, f"alone_{number}", *given)
        assert np.array_equal(swept[:, 2 * number : 2 * number + 2], own), number
    assert not np.array_equal(swept[:, :2], swept[:, 4:6])


def test_sweeps_in_memory_have_one_value_of_what_their_synapses_follow_from(tmp_path: Path) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text(NODES, "utf-8")
    with pytest.raises(ParamsError, match="are those of all slices") as raised:
        in_memory.run(simulation.read(file, ["sweep.connections.tracts.speed=[0.3, 2.0]"]))
    assert "sweep.wave" in raised.value.problems[0].hint


def test_points_with_synapses_of_their_own_share_a_wave(tmp_path: Path) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text(NODES, "utf-8")
    given = ["sweep.connections.tracts.speed=[0.3, 2.0]", "sweep.run.seed=[1, 2]", "sweep.wave=4"]
    for mode, waves in (("non_shared", 1), ("extra_non_shared", 4)):
        plan = Waves.of(simulation.read(file, [*given, f"connections.tracts.mode='{mode}'"]))
        points = plan.points()
        assert len(list(plan.cut(points, 4))) == waves


@pytest.mark.parametrize(
    ("key", "whole"), [("connections.tracts.speed", False), ("layers.nodes.parameters.k", True)]
)
def test_points_whose_synapses_differ_are_no_single_wave(key: str, whole: bool, tmp_path: Path) -> None:
    """The state at the end of a sweep that is a single wave has one array of synapses, for all points."""
    file = tmp_path / "nodes.toml"
    file.write_text(NODES, "utf-8")
    plan = Waves.of(simulation.read(file, [f"sweep.{key}=[0.3, 1.0]"]))
    assert plan.whole == whole
    assert ("one wave" in str(plan)) == whole


@pytest.mark.parametrize(
    ("module", "limit", "value"), [(index, "_AT_ONCE", -1), (segment, "_COMPRESSED", 1), (None, "", 0)]
)
@pytest.mark.parametrize("output", ["hdf5", "zarr"])
def test_points_of_an_extended_sweep_may_have_more_synapses_and_fewer(
    module: Any, limit: str, value: int, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if module is not None:
        monkeypatch.setattr(module, limit, value)
    file = tmp_path / "nodes.toml"
    file.write_text(NODES + '[output.connections.tracts]\nevery = "10 steps"\n', "utf-8")
    key, own = "connections.tracts.probability", ("connections.tracts.mode='non_shared'", "run.steps=20")

    def swept(name: str, points: Sequence[float], extend: bool = True) -> list[Any]:
        settings = (*own, f"sweep.{key}={list(points)}", f"output.format='{output}'")
        loaded = simulation.read(file, settings)
        with simulation.run(loaded, tmp_path / name, mpi=False, quiet=True, extend=extend) as run:
            places = range(2 * len(points))
            tables = [run.synapses("tracts", slice=place, step=10) for place in places]
            return [(len(one), one.i.tolist(), one.j.tolist(), one.w.tolist()) for one in tables]

    for number, points in enumerate(((0.0,), (0.0, 0.2), (0.2, 0.9, 0.0), (0.0, 0.2))):
        alone = swept(f"alone_{number}", points, extend=False)
        assert swept("extended", points) == alone, points
    assert alone[-1][0] > 0
