"""Runs in Zarr: what those in HDF5 are, bit for bit, on any ranks, stopped and resumed, for every reader."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import xarray
from system.test_events import PARAMS as SPIKES

import petabatch as pb
from petabatch.cli.networks import check
from petabatch.engine.failure import Failure
from petabatch.errors import DamagedError, ResourceError, StoppedEarly
from petabatch.report.information import describe
from petabatch.report.integrity import verify
from petabatch.results import Results
from petabatch.session import RunSession
from petabatch.storage.merge import merge
from petabatch.waves import compute
from petabatch.waves.run import join
from support.commands import Command, alone, contents

ZARR = "output.format=zarr"
WIDE = ("run.display=35", "run.displays=3", "output.layers.V1.every=1 step")
"""So that chunks of codes have two slices of three, which ranks share."""
WAVES = (
    'sweep."layers.V1.threshold"=[0.1, 0.2, 0.3, 0.4]',
    "sweep.wave=1",
    "connections.dictionary.mode=shared",
)
VOLATILE = {"times", "run_id", "updated", "params", "seconds", "started", "overrides", "command"}


def chunks(folder: Path) -> dict[str, bytes]:
    """Return all files of a store but its root."""
    store = folder / "run.zarr"
    files = (path for path in store.rglob("*") if path.is_file() and path != store / "zarr.json")
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


def text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def assert_same(found: Results, expected: Results) -> None:
    """Assert that two runs have recorded the same, and say the same of it."""
    assert list(found) == list(expected)
    for name in expected:
        one, other = found[name], expected[name]
        assert (one.dims, one.shape, one.dtype) == (other.dims, other.shape, other.dtype)
        assert (one.units, one.description, one.sparse) == (other.units, other.description, other.sparse)
        np.testing.assert_array_equal(one.steps, other.steps)
        assert one[...].tobytes() == other[...].tobytes(), name
    assert found.coordinates.keys() == expected.coordinates.keys()
    for name, values in expected.coordinates.items():
        np.testing.assert_array_equal(found.coordinates[name], values)
    for name, value in expected.attributes.items():
        assert name in VOLATILE or found.attributes[name] == value, name
    assert found.status == expected.status


def test_a_run_in_zarr_is_that_in_hdf5(small: Path) -> None:
    expected, found = pb.open(alone(small, "hdf5")), pb.open(alone(small, "zarr", ZARR))
    with expected, found:
        assert_same(found, expected)
        assert found.files("image") == expected.files("image")
        assert found.shown("image", display=2, slice=1) == expected.shown("image", display=2, slice=1)
        np.testing.assert_array_equal(found.codes("V1").toarray(), expected.codes("V1").toarray())
        np.testing.assert_array_equal(found.use("V1"), expected.use("V1"))
        np.testing.assert_array_equal(
            found["layers/V1/A"].at(display=-1, slice=-1)[2:4, 1],
            expected["layers/V1/A"].at(display=-1, slice=-1)[2:4, 1],
        )
        tree, other = found.to_xarray(), expected.to_xarray()
        for node in other.subtree:
            for name, variable in node.variables.items():
                mine = tree[node.path].variables[name]
                assert mine.dims == variable.dims
                assert mine.attrs.get("units") == variable.attrs.get("units")
                assert list(map(text, mine.values.ravel())) == list(map(text, variable.values.ravel()))
    xarray.testing.assert_identical(xarray.open_datatree(small.parent / "zarr"), tree)
    plain = [contents(merge(small.parent / name, small.parent / f"{name}.h5")) for name in ("hdf5", "zarr")]
    assert plain[0] == plain[1] == contents(small.parent / "hdf5" / "run.h5")
    page = describe(small.parent / "zarr")
    assert "layers/V1/A" in page
    assert "damaged" not in page
    assert verify(small.parent / "zarr", repairing=False)[1]


@pytest.mark.mpi
def test_any_number_of_ranks_writes_the_same_store(small: Path, petabatch: Command) -> None:
    expected = chunks(alone(small, "alone", ZARR, *WIDE))
    assert "layers/V1/A/c/0/1/0/0/0" in expected
    flags = [flag for one in (ZARR, *WIDE) for flag in ("-s", one)]
    for ranks in (1, 2, 3):
        out = f"on_{ranks}"
        ended = petabatch("run", small, "--out", out, "-q", *flags, ranks=ranks)
        assert ended.returncode == 0, ended.stderr
        assert chunks(small.parent / out) == expected
        assert verify(small.parent / out, repairing=False)[1]


@pytest.mark.mpi
def test_ranks_that_share_slices_write_what_they_write_in_hdf5(small: Path, petabatch: Command) -> None:
    flags = [flag for one in (*WIDE, "parallel.features=2") for flag in ("-s", one)]
    found = []
    for out, more in (("hdf5", []), ("zarr", ["-s", ZARR])):
        ended = petabatch("run", small, "--out", out, "-q", *flags, *more, ranks=4)
        assert ended.returncode == 0, ended.stderr
        found.append(contents(merge(small.parent / out, small.parent / f"{out}.h5")))
    assert found[0] == found[1]


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_run_that_is_stopped_goes_on_on_other_ranks(small: Path, petabatch: Command, ranks: int) -> None:
    settings = (ZARR, *WIDE, "output.flush=7 steps", "checkpoint.every=21 steps")
    expected = chunks(alone(small, "alone", *settings))
    for at in (1, 28, 60):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(RunSession, "_out_of_time", lambda session, at=at: session.engine.step >= at)
            with pytest.raises(StoppedEarly):
                alone(small, f"cut_{at}", *settings)
        assert verify(small.parent / f"cut_{at}", repairing=False)[1]
        ended = petabatch("resume", small.parent / f"cut_{at}", "-q", ranks=ranks)
        assert ended.returncode == 0, ended.stderr
        found = chunks(small.parent / f"cut_{at}")
        assert found.keys() == expected.keys()
        assert [name for name, data in expected.items() if found[name] != data] == []
        assert verify(small.parent / f"cut_{at}", repairing=False)[1]


def test_spikes_are_those_in_hdf5(tmp_path: Path) -> None:
    file = tmp_path / "spikes.toml"
    file.write_text(SPIKES + 'e = { variables = ["spikes"] }\n' if "e = {" not in SPIKES else SPIKES)
    expected, found = pb.open(alone(file, "hdf5")), pb.open(alone(file, "zarr", ZARR))
    with expected, found:
        assert any(name.startswith("spikes/") for name in found)
        assert_same(found, expected)
        np.testing.assert_array_equal(found.spikes("e", slice=1).steps, expected.spikes("e", slice=1).steps)
    plain = [contents(merge(tmp_path / name, tmp_path / f"{name}.h5")) for name in ("hdf5", "zarr")]
    assert plain[0] == plain[1]


def test_a_sweep_in_one_batch_has_its_coordinates(small: Path) -> None:
    swept = ('sweep."layers.V1.threshold"=[0.1, 0.3]', "connections.dictionary.mode=shared")
    expected, found = (
        pb.open(alone(small, "hdf5", *swept)),
        pb.open(alone(small, "zarr", ZARR, *swept)),
    )
    with expected, found:
        assert_same(found, expected)
        tree = found.to_xarray()
        assert tree["layers/V1/A"].coords["threshold"].values.tolist() == [0.1] * 3 + [0.3] * 3


def test_without_the_extra_the_hint_names_it(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = alone(small, "out", ZARR)
    monkeypatch.setitem(sys.modules, "zarr", None)
    for work in (lambda: alone(small, "other", ZARR), lambda: pb.open(out)):
        with pytest.raises(ResourceError, match=r"zarr.*not installed[^$]*\.\[zarr\]"):
            work()
    assert not (small.parent / "other").exists()


def test_check_says_that_the_extra_is_missing(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check(small, [ZARR])
    assert "package zarr" not in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "zarr", None)
    check(small, [ZARR])
    said = " ".join(capsys.readouterr().out.split())
    assert 'output.format = "zarr" needs the package zarr' in said
    assert "`run` refuses it here" in said


@pytest.mark.parametrize("again", [lambda path: pb.resume(path, mpi=False), join])
def test_without_the_extra_what_goes_on_with_a_run_says_so_before_it_computes(
    small: Path, monkeypatch: pytest.MonkeyPatch, again: Callable[[Path], object]
) -> None:
    out = alone(small, "out", ZARR, *WAVES)
    (out / "run.zarr" / "zarr.json").unlink()
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ResourceError, match="needs the package zarr"):
        again(out)


def test_a_store_that_is_removed_is_missed_and_no_run_in_hdf5_takes_its_place(small: Path) -> None:
    settings = (ZARR, "output.flush=10 steps", "checkpoint.every=20 steps", "checkpoint.keep=1")
    out = alone(small, "out", *settings)
    shutil.rmtree(out / "run.zarr")
    text, whole = verify(out, repairing=False)
    assert not whole
    assert f"{out}/run.zarr/layers/V1/A/c/0/0/0/0/0: this chunk is missing" in text
    assert "steps 51 to 60 of all slices: lost without a copy of the file\n" in text
    assert "run.h5" not in text
    with pytest.raises(DamagedError, match="is missing") as raised:
        pb.resume(out, quiet=True)
    assert "verify --repair" not in str(raised.value)  # which is refused
    assert not (out / "run.h5").exists()


def test_a_store_that_is_removed_is_computed_again_from_the_start_where_its_checkpoint_is_left(
    small: Path,
) -> None:
    out = alone(small, "out", ZARR, "checkpoint.keep=9")
    expected = chunks(out)
    shutil.rmtree(out / "run.zarr")
    pb.resume(out, quiet=True)
    assert chunks(out) == expected
    assert verify(out, repairing=False)[1]


def read_sweep(found: Results) -> dict[str, np.ndarray]:
    return {name: found[name][...] for name in found} | found.coordinates


def test_a_sweep_in_waves_is_that_in_hdf5(small: Path) -> None:
    expected, found = pb.open(alone(small, "hdf5", *WAVES)), pb.open(alone(small, "zarr", ZARR, *WAVES))
    with expected, found:
        assert_same(found, expected)
        tree = xarray.open_datatree(small.parent / "zarr" / "run.zarr", engine="zarr")
        assert tree["layers/V1/A"].coords["threshold"].values[::3].tolist() == [0.1, 0.2, 0.3, 0.4]
    assert verify(small.parent / "zarr", repairing=False)[1]
    plain = [contents(merge(small.parent / name, small.parent / f"{name}.h5")) for name in ("hdf5", "zarr")]
    assert plain[0] == plain[1] == contents(small.parent / "hdf5" / "run.h5")
    with pb.open(small.parent / "zarr.h5") as merged, pb.open(small.parent / "hdf5.h5") as other:
        assert_same(merged, other)


def test_points_of_a_sweep_do_not_move_while_others_are_made(
    small: Path, monkeypatch: pytest.MonkeyPatch, petabatch: Command
) -> None:
    expected = read_sweep(pb.open(alone(small, "whole", ZARR, *WAVES)))
    with monkeypatch.context() as patched:
        real, made = compute.Recorded.end, 0

        def stopping(recorded: compute.Recorded, stopped: Mapping[int, Failure]) -> None:
            nonlocal made
            made += 1
            if made == 2:
                signal.raise_signal(signal.SIGTERM)
            real(recorded, stopped)

        patched.setattr(compute.Recorded, "end", stopping)
        with pytest.raises(StoppedEarly):
            alone(small, "cut", ZARR, *WAVES)
    with pb.open(small.parent / "cut") as found:
        some = read_sweep(found)
        tree = found.to_xarray()
        assert found.status == "stopped"
        assert 0 < found.attributes["points"]["finished"] < 4
    done = some["failed"] == -1
    assert 0 < done.sum() < 12
    assert set(some["failed"][~done]) == {-2}
    for name, values in expected.items():
        axis = 0 if values.ndim == 1 else 1
        if name in some and name not in ("failed",):
            same = some[name].compress(done, axis), values.compress(done, axis)
            assert same[0].tobytes() == same[1].tobytes(), name
    ended = petabatch("resume", small.parent / "cut", "-q", ranks=2)
    assert ended.returncode == 0, ended.stderr
    with pb.open(small.parent / "cut") as found:
        assert {name: one.tobytes() for name, one in read_sweep(found).items()} == {
            name: one.tobytes() for name, one in expected.items()
        }
    kept = tree["layers/V1/A"].values.compress(done, 1)  # read by one who opened it before
    assert kept.tobytes() == expected["layers/V1/A"].compress(done, 1).tobytes()


def test_a_damaged_store_of_a_sweep_is_made_again(small: Path, petabatch: Command) -> None:
    out = alone(small, "zarr", ZARR, *WAVES)
    expected = chunks(out)
    for path in [
        *sorted((out / "run.zarr").glob("layers/V1/A/**/[0-9]"))[-1:],
        out / "run.zarr" / "zarr.json",
    ]:
        path.write_bytes(path.read_bytes()[:-3])
        text, sound = verify(out, repairing=False)
        assert not sound
        assert str(path) in text
        repaired = petabatch("verify", "--repair", out)
        assert repaired.returncode == 0, repaired.stdout
        assert chunks(out) == expected


def test_jobs_and_pools_are_joined_to_a_store(small: Path, petabatch: Command) -> None:
    settings = [flag for one in (ZARR, *WAVES) for flag in ("-s", one)]
    expected = read_sweep(pb.open(alone(small, "whole", ZARR, *WAVES)))
    for number in (1, 2):
        ended = petabatch("run", small, "--out", "jobs", "--chunk", f"{number}/2", "-q", *settings)
        assert ended.returncode == 0, ended.stderr
    assert petabatch("join", "jobs").returncode == 0
    with pb.open(small.parent / "jobs") as found:
        assert {name: one.tobytes() for name, one in read_sweep(found).items()} == {
            name: one.tobytes() for name, one in expected.items()
        }
    pool = ("run.pool=true", "connections.dictionary.learn.every=never")
    with pb.open(alone(small, "pool", ZARR, *pool)) as one, pb.open(alone(small, "plain", *pool)) as other:
        assert_same(one, other)
