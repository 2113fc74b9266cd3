"""What slices differ in, in the files of a run: coordinates on the batch, labels, the table of points."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from petabatch import plotting, results, simulation
from petabatch.errors import InputError, NotRecorded
from petabatch.report.information import describe
from petabatch.storage.directory import RunDirectory
from petabatch.storage.merge import merge
from petabatch.waves.plan import Waves
from petabatch.waves.run import repair
from support.commands import alone, contents

SHARED = 'connections.dictionary.mode="shared"'
SWEEP = ("sweep.layers.V1.threshold=[0.2, 0.5]", "sweep.run.seed=[3, 4]")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two thresholds and two seeds with three slices each."""
    from support.commands import SMALL

    folder = tmp_path_factory.mktemp("coordinates")
    np.save(folder / "images.npy", np.random.default_rng(3).normal(size=(7, 12, 12, 3)).astype("f4"))
    (folder / "small.toml").write_text(SMALL)
    return alone(folder / "small.toml", "out", SHARED, *SWEEP, "run.displays=2")


def test_xarray_selects_by_value_unaided(run: Path) -> None:
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(run / "run.h5", group="probes/energy", engine="h5netcdf") as energy:
        assert list(energy.threshold.values) == [0.2] * 6 + [0.5] * 6
        assert list(energy.seed.values) == ([3] * 3 + [4] * 3) * 2
        assert list(energy.point.values) == np.repeat(range(4), 3).tolist()
        assert list(energy.slice.values) == [0, 1, 2] * 4
        assert energy.set_xindex("threshold").sel(threshold=0.5).total.shape == (4, 6)
        points = energy.set_index(batch=["threshold", "seed", "slice"])
        one = points.sel(threshold=0.5, seed=4, slice=1).total
        assert np.array_equal(one, energy.total[:, 10])
        assert energy.threshold.attrs["key"] == "layers.V1.threshold"
    with xarray.open_datatree(run / "run.h5", engine="h5netcdf") as tree:
        assert set(tree["layers/V1"].coords) >= {"threshold", "seed", "point", "slice", "batch"}
        assert "threshold" in tree["connections/dictionary"].coords


def test_results_know_what_slices_differ_in(run: Path) -> None:
    with results.open(run) as opened:
        assert set(opened.coordinates) == {"threshold", "seed", "point", "slice", "failed"}
        assert opened.label(10) == "threshold 0.5, seed 4, slice 1"
        assert "threshold" not in opened.names()


def test_merged_and_repaired_files_keep_them(run: Path, tmp_path: Path) -> None:
    merged = merge(run, tmp_path / "merged.h5")
    with results.open(merged) as whole, results.open(run) as parts:
        for name, values in parts.coordinates.items():
            assert np.array_equal(whole.coordinates[name], values)
    before = contents(run / "run.h5")
    (run / "run.h5").unlink()
    repair(RunDirectory.open(run))
    assert contents(run / "run.h5") == before


def test_info_prints_the_table_of_points(run: Path) -> None:
    lines = describe(run).splitlines()
    (start,) = (number for number, line in enumerate(lines) if line.startswith("points "))
    assert lines[start].split() == ["points", "4"]
    assert lines[start + 1].split() == ["threshold", "seed", "slices", "energy"]
    with results.open(run) as opened:
        energy = opened["probes/energy/total"][-1]
    assert lines[start + 5].split() == ["0.5", "4", "3", f"{energy[9:].mean():.6g}"]


def test_probes_are_drawn_against_the_values(run: Path) -> None:
    pytest.importorskip("matplotlib")
    with results.open(run) as opened:
        figure = plotting.sweep(opened, quantities=["energy/total", "energy/sparsity"], against="threshold")
        left = figure.axes[0]
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["seed 3", "seed 4", "a slice"]
        means = [line.get_ydata() for line in left.get_lines() if line.get_label() == "seed 4"]
        energy = opened["probes/energy/total"][-1]
        np.testing.assert_allclose(means[0], [energy[3:6].mean(), energy[9:].mean()])
        with pytest.raises(InputError, match="threshold"):
            plotting.sweep(opened, against="tau")


def test_values_spread_over_scales_have_a_logarithmic_axis(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys.modules["petabatch.plotting.sweep"], "_is_wide", lambda along: True)
    with results.open(run) as opened:
        for axes in plotting.sweep(opened, against="threshold").axes:
            assert axes.get_xscale() == "log"


def test_slices_of_a_sweep_are_compared_by_their_values(run: Path) -> None:
    pytest.importorskip("matplotlib")
    with results.open(run) as opened:
        figure = plotting.compare(opened)
        values = opened["probes/energy/total"]
        energy = values[-max(1, len(values) // 4) :].mean(axis=0)
        said = [" ".join(text.get_text().split()) for text in figure.legends[0].get_texts()]
        assert said == [
            f"{opened.label(int(energy.argmin()))}: smallest mean energy in the last quarter",
            f"{opened.label(int(energy.argmax()))}: largest mean energy in the last quarter",
            "the other 10 slices",
        ]
        assert all(label.startswith("threshold ") and ", seed " in label for label in said[:2])


def test_figures_of_a_slice_are_labelled_by_its_values(run: Path) -> None:
    pytest.importorskip("matplotlib")
    with results.open(run) as opened:
        label = opened.label(10)
        for kind in (plotting.dictionary, plotting.weights_over_time, plotting.raster):
            assert label in " ".join(kind(opened, slice=10).get_suptitle().split()), kind


def test_runs_whose_slices_are_alike_have_none(small: Path) -> None:
    with results.open(alone(small, "plain", "run.displays=1")) as opened:
        assert opened.coordinates == {}
        assert opened.label(2) == opened.label(2 - opened.batch) == "slice 2"
        with pytest.raises(
            NotRecorded, match=r"there is no such slice\n    found:    slice 500\n    expected: 0 to"
        ):
            opened.label(500)
        with pytest.raises(InputError, match="the same values"):
            plotting.sweep(opened)
    assert "\npoints " not in describe(small.parent / "plain")


@pytest.mark.long
def test_more_points_than_fit_are_made_in_waves(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from petabatch.parallel.host_memory import Limit

    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10  # tests before have left some
    limit = Limit(taken + (1 << 30), "the test's")
    monkeypatch.setattr("petabatch.report.memory.host_limit", lambda: limit)
    many = "sweep.layers.V1.threshold={ start = 0.1, stop = 1.0, count = 100000 }"
    plan = Waves.of(simulation.read(small, [SHARED, many]))
    assert not plan.whole
    assert 100 < plan.size(1) < 1000
