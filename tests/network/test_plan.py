"""The plan: periods that are derived where the params file names none, and plans of slices."""

from __future__ import annotations

from pathlib import Path

import pytest

import petabatch
from petabatch.network.build import build
from petabatch.network.plan import schedule
from support.networks import images, lca_network


@pytest.mark.parametrize(("display", "flush"), [(1, 1000), (10, 1000), (30, 1500)])
def test_very_short_displays_are_flushed_as_often_as_checkpoints_are_saved(display: int, flush: int) -> None:
    """Each flush writes a file, which has to be merged later."""
    plan = schedule(build(lca_network(images(1, 1, (8, 8, 1)), features=2, patch=(2, 2), display=display)))
    assert (plan.flush, plan.checkpoint) == (flush, flush)


NODES = """
[run]
batch = 1
display = 4
displays = 1

[layers.nodes]
type = "neurons"
shape = [1, 1, 6]
equations = "dx/dt = (k + coupling - x) / 10"
parameters = { k = 0.5 }
currents = ["coupling"]

[connections.tracts]
type = "sparse"
pre = "nodes"
post = "nodes"
target = "coupling"
probability = 0.5
init = { type = "uniform", low = 0.0, high = 1.0 }
"""


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("layers.nodes.parameters.k", [0.5, 0.7]),
        ("connections.tracts.strength", [0.5, 0.7]),
        ("run.dt", [0.5, 1.0]),
        ("connections.tracts.probability", [0.2, 0.7]),
    ],
)
def test_slices_have_room_for_the_synapses_of_any(key: str, values: list[float], tmp_path: Path) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text(NODES, "utf-8")
    given = [f"sweep.{key}={values}", 'connections.tracts.mode="non_shared"']
    plan = schedule(build(petabatch.load(file, given).network))
    first, second = (plan.of_slice(number).graph.synapses["tracts"] for number in range(2))
    assert first is second is plan.graph.synapses["tracts"]
    assert first.apart == key.endswith("probability")
