"""Networks that learn, killed at random moments and resumed: a short form of `support/kills.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.kills import Campaign, write_synapses


@pytest.mark.mpi
@pytest.mark.long
@pytest.mark.parametrize("form", ["hdf5", "zarr"])
def test_two_layers_that_learn_have_the_same_bits_after_kills(tmp_path: Path, form: str) -> None:
    folders = [tmp_path / name for name in ("compiled", "killed")]
    for folder in folders:
        folder.mkdir()
    Campaign(folders[0], seed=3, displays=1)  # compiles the kernels, which is no part of the span of a run
    campaign = Campaign(folders[1], seed=3, displays=15, form=form)
    assert len(list(campaign.run(2))) == 2
    assert len(list(campaign.run(2, ranks=2))) == 2


@pytest.mark.mpi
@pytest.mark.long
def test_synapses_that_learn_have_the_same_bits_after_kills(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("compiled", "killed")]
    for folder in folders:
        folder.mkdir()
    Campaign(folders[0], seed=3, displays=1, write=write_synapses)
    campaign = Campaign(folders[1], seed=3, displays=60, write=write_synapses)
    assert len(list(campaign.run(2))) == 2
    assert len(list(campaign.run(2, ranks=2))) == 2
