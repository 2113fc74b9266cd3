"""The same traces and spikes as Brian2's, which `tests/support/brian.py` has computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.brian import SAMPLED
from support.brian_models import MODELS, NETWORKS, SHORT
from support.brian_runs import spikes, traces

GIVEN = Path(__file__).parents[1] / "data" / "brian.npz"
"""Of Brian2 2.10.1."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name, model in MODELS.items() for method in model.methods]
)
def test_traces_of_units_are_those_of_brian(name: str, method: str) -> None:
    with np.load(GIVEN) as given:
        theirs = given[f"{name} {method}"]
    mine = traces(name, method)[:, SAMPLED - 1 :: SAMPLED]
    assert np.ptp(theirs, axis=1).all()
    np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name in SHORT for method in NETWORKS[name].methods]
)
def test_all_spikes_of_networks_are_those_of_brian(name: str, method: str) -> None:
    """The short form of `python tests/support/brian.py whole.npz --compare`."""
    with np.load(GIVEN) as given:
        theirs = set(zip(*given[f"{name} {method}"].tolist(), strict=True))
    mine = set(zip(*spikes(name, method, 400, 1000).tolist(), strict=True))
    assert len(theirs) > 150
    assert mine == theirs
