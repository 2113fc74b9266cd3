"""xarray opens the directory of a run itself."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import xarray
from xarray.backends.plugins import build_engines

import petabatch
from petabatch.results.xarray_backend import Runs
from support.commands import alone


def test_the_directory_of_a_run_is_a_tree(small: Path, tmp_path: Path) -> None:
    folder = alone(small, "out", "run.displays=1")
    assert Runs().guess_can_open(folder)
    assert Runs().guess_can_open(str(folder))
    assert not Runs().guess_can_open(tmp_path)
    assert not Runs().guess_can_open(folder / "run.h5")  # which h5netcdf opens
    tree = xarray.open_datatree(folder, engine=Runs)
    with petabatch.open(folder) as run:
        expected = run.to_xarray()
        assert tree.identical(expected)
    assert "A" not in xarray.open_datatree(folder, engine=Runs, drop_variables="A")["layers/V1"]
    with pytest.raises(ValueError, match="a run is a tree"):
        xarray.open_dataset(folder, engine=Runs)


def test_xarray_finds_it() -> None:
    project = tomllib.loads((Path(petabatch.__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["xarray.backends"] == {"petabatch": f"{Runs.__module__}:{Runs.__name__}"}
    found = EntryPoints([EntryPoint("petabatch", f"{Runs.__module__}:{Runs.__name__}", "xarray.backends")])
    assert "petabatch" in build_engines(found)  # which looks at signatures
