"""Spikes of runs as events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory
from petabatch.errors import NotRecorded

ROWS = [[0.0, 1, 0], [0.4, 1, 0], [0.5, 0, 0], [0.5, 0, 0], [0.6, 1, 0], [0.3, 2, 1]]


def network(**output: Any) -> petabatch.Network:
    return petabatch.Network.model_validate(
        {
            "run": {"steps": 20, "dt": 0.1, "batch": 2},
            "layers": {
                "in": {"type": "spike_times", "shape": [1, 1, 3], "spikes": ROWS},
                "out": {"type": "linear", "shape": [1, 1, 3], "scale": 0.5},
            },
            "connections": {"c": {"type": "identity", "pre": "in", "post": "out"}},
            "output": {"layers": {"in": {"every": 1, **output}, "out": {"every": 1}}},
        }
    )


@pytest.mark.parametrize("on_disk", [True, False])
def test_spikes_are_events_of_a_slice(on_disk: bool, tmp_path: Path) -> None:
    run = petabatch.run(network(), tmp_path / "run", quiet=True) if on_disk else in_memory.run(network())
    found = run.spikes("in")
    np.testing.assert_array_equal(found.steps, [1, 5, 6, 6, 7])
    np.testing.assert_array_equal(found.units, [1, 1, 0, 0, 1])
    np.testing.assert_allclose(found.times, [0.1, 0.5, 0.6, 0.6, 0.7])
    np.testing.assert_array_equal(found.counts, [2, 3, 0])
    np.testing.assert_allclose(found.rates, [1.0, 1.5, 0])
    np.testing.assert_allclose(np.concatenate(found.isi), [0, 0.4, 0.2])
    assert [each.size for each in found.isi] == [1, 2, 0]
    assert np.isnan(found.cv()).all()
    np.testing.assert_allclose(found.cv(least=2)[1], 0.1 / 0.3)
    assert run.spikes("in", slice=-1).units.tolist() == [2]
    assert repr(found) == "<5 spikes of layer in, slice 0 of 2 slices: 3 units, 20 steps>"


def test_former_names_have_hints() -> None:
    spikes = in_memory.run(network()).spikes("in")
    with pytest.raises(AttributeError, match=r"has no attribute 'variation': did you mean cv\?"):
        spikes.variation  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'intervals': did you mean isi\?"):
        spikes.intervals  # noqa: B018


def test_spikes_are_a_dataset_of_xarray() -> None:
    pytest.importorskip("xarray")
    spikes = in_memory.run(network()).spikes("in")
    table = spikes.to_pandas()
    assert table.columns.to_list() == ["step", "time", "unit"]
    np.testing.assert_array_equal(table["unit"], spikes.units)
    found = spikes.to_xarray()
    assert found.sizes == {"spike": 5}
    assert found["unit"].values.tolist() == [1, 1, 0, 0, 1]


def test_what_is_not_all_spikes_is_refused() -> None:
    run = in_memory.run(network())
    with pytest.raises(NotRecorded, match=r"this layer does not spike(.|\n)*activity 0\.5"):
        run.spikes("out")
    run = in_memory.run(network(every=2))
    with pytest.raises(NotRecorded, match=r"not every step was recorded(.|\n)*every 2 steps"):
        run.spikes("in")


def test_times_are_those_of_the_slices_own_steps() -> None:
    tables = network().model_dump()
    run = in_memory.run(petabatch.Network.model_validate({**tables, "slices": {"run.dt": [0.1, 0.2]}}))
    assert run.spikes("in").times.tolist() == pytest.approx([0.1, 0.5, 0.6, 0.6, 0.7])
    assert run.spikes("in", slice=1).times.tolist() == pytest.approx([0.4])  # 0.3 is in the second step
