"""Runs with the rows of all layers split over ranks, with real mpirun: files as without, and resumed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from petabatch import simulation
from petabatch.engine.row_split import RowSplit
from petabatch.errors import ParamsError, PetabatchError
from petabatch.network import lazy_codes
from petabatch.parallel.comm import Serial
from petabatch.parallel.grid import Grid
from petabatch.report.explain import explain, summary
from support.commands import Command, alone, contents, datasets, set_all

MORE = ("run.batch=2", "run.displays=4", "run.kernel=lazy", "run.verify=2", "checkpoint.every=7")


def assert_close(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        if array.dtype.kind == "f":
            np.testing.assert_allclose(other[name], array, rtol=1e-4, atol=1e-4, err_msg=name)
        else:
            np.testing.assert_array_equal(other[name], array, err_msg=name)


@pytest.mark.mpi
def test_a_run_with_tiles_has_the_file_of_one_rank_and_is_resumed_with_its_bits_or_without_the_split(
    small: Path, petabatch: Command
) -> None:
    folder = small.parent
    alone(small, "one", *MORE)
    done = petabatch("run", small, "--out", "tiles", "-q", *set_all(*MORE, "parallel.rows=2"), ranks=2)
    assert done.returncode == 0, done.stderr
    one, tiles = (datasets(folder / name / "run.h5") for name in ("one", "tiles"))
    assert_close(one, tiles)
    for name, ranks, changed in (("again", 2, ()), ("whole", 1, ("--rows", 1))):
        shutil.copytree(folder / "tiles", folder / name)
        for file in (folder / name / "checkpoints").glob("step_000000040*"):
            file.unlink()  # as if it had been killed after step 35, within a display
        done = petabatch("resume", name, "-q", *changed, ranks=ranks)
        assert done.returncode == 0, done.stderr
    assert contents(folder / "again" / "run.h5") == contents(folder / "tiles" / "run.h5")
    assert_close(one, datasets(folder / "whole" / "run.h5"))


WHOLE = """
[layers.noisy]
type = "gaussian_noise"
shape = [6, 6, 8]
std = 0.1
[layers.scaled]
type = "rescale"
method = "length"
shape = [6, 6, 8]
[layers.F]
type = "fista"
shape = [6, 6, 8]
threshold = 0.1
[connections.V1_to_noisy]
type = "identity"
pre = "V1"
post = "noisy"
[connections.noisy_to_scaled]
type = "identity"
pre = "noisy"
post = "scaled"
[connections.scaled_to_V1]
type = "identity"
pre = "scaled"
post = "V1"
feedback = true
[connections.drive_F]
type = "transpose"
pre = "image"
post = "F"
of = "dictionary"
"""


@pytest.mark.mpi
@pytest.mark.long
def test_runs_with_layers_that_are_whole_keep_their_bits_and_go_on_on_other_grids(
    small: Path, petabatch: Command
) -> None:
    folder, more = small.parent, (*MORE, "output.layers.scaled={}", "output.layers.F={}")
    small.write_text(small.read_text().replace("[output]", WHOLE + "[output]"))
    alone(small, "one", *more)
    for name, ranks in (("two", 2), ("four", 4)):
        done = petabatch("run", small, "--out", name, "-q", *set_all(*more, "parallel.rows=2"), ranks=ranks)
        assert done.returncode == 0, done.stderr
    assert contents(folder / "two" / "run.h5") == contents(folder / "four" / "run.h5")
    one = datasets(folder / "one" / "run.h5")
    assert one["layers/scaled/A"].any()
    assert one["layers/F/A"].any()
    assert_close(one, datasets(folder / "two" / "run.h5"))
    for name, ranks, flags in (("again", 4, ()), ("three", 3, ("--rows", 3)), ("whole", 1, ("--rows", 1))):
        shutil.copytree(folder / "two", folder / name)
        for file in (folder / name / "checkpoints").glob("step_000000040*"):
            file.unlink()  # as if it had been killed after step 35, within a display
        done = petabatch("resume", name, "-q", *flags, ranks=ranks)
        assert done.returncode == 0, done.stderr
        assert_close(one, datasets(folder / name / "run.h5"))
    assert contents(folder / "again" / "run.h5") == contents(folder / "two" / "run.h5")


@pytest.mark.mpi
@pytest.mark.long
def test_two_by_two_ranks_have_the_bits_of_two(small: Path, petabatch: Command) -> None:
    for name, ranks in (("two", 2), ("four", 4)):
        done = petabatch("run", small, "--out", name, "-q", *set_all(*MORE, "parallel.rows=2"), ranks=ranks)
        assert done.returncode == 0, done.stderr
    two, four = (small.parent / name / "run.h5" for name in ("two", "four"))
    assert contents(two) == contents(four)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [(5, "12 rows cannot be split into 5 tiles"), (2, "the number of ranks does not match")],
)
def test_the_log_of_a_run_says_nothing_of_parts_that_are_refused(small: Path, rows: int, reason: str) -> None:
    path = alone(small, "one", *MORE)
    before = (path / "log.txt").read_text()
    with pytest.raises(PetabatchError, match=reason):
        simulation.resume(path, rows=rows, quiet=True)
    assert (path / "log.txt").read_text() == before


def test_each_rank_holds_its_rows_and_check_says_what_that_saves_and_costs(small: Path) -> None:
    whole = simulation.plan(simulation.read(small, ("parallel.rows=2",)))
    group = Serial()
    group.size, group.rank = 2, 1
    part = RowSplit(whole, Grid(group, Serial(), group)).plan.variables
    assert part["connections/dictionary/weights"].shape == (1, 1, 8, 4, 4, 3)
    assert part["layers/V1/V"].shape == (3, 6, 8)
    assert part["layers/recon/A"].shape[1:] == (6, 12, 3)
    said = summary(whole)
    # One row of the error in its padding, and one of the reconstruction.
    assert f"cost: a halo of {(14 + 12) * 3 * 4} B exchanged with each neighbour" in " ".join(said.split())
    assert "exchanged between ranks: error, dictionary" in " ".join(explain(whole).split())
    held = [
        sum(v.nbytes("float32") for k, v in some.items() if k.startswith("layers/"))
        for some in (whole.variables, part)
    ]
    assert f"saving on each rank: {(held[0] - held[1]) / 1024:.1f} KiB per slice" in said


def test_no_rank_decides_by_its_own_tile_whether_all_units_are_computed(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_SHORT", "LEAST"):
        monkeypatch.setattr(lazy_codes, name, 0)
    keys = ("run.display=40", "run.displays=1")
    (alone_,) = simulation.plan(simulation.read(small, keys)).method.program.lazy
    assert alone_.most < 1
    whole, group = simulation.plan(simulation.read(small, (*keys, "parallel.rows=2"))), Serial()
    group.size = 2
    (part,) = RowSplit(whole, Grid(group, Serial(), group)).plan.method.program.lazy
    assert part.most == 1  # `awake`, of which a checkpoint has one for a slice, stays 0 on all ranks


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "patch = [4, 4]",
            "patch = [14, 4]",
            "drive is computed whole on each rank: patches of 14 rows reach",
        ),
        (
            "[6, 6, 8]",
            '[6, 6, 8]\nborder = "mirror"',
            "dictionary is computed whole on each rank: units beyond the edge, where the border is not zero",
        ),
        ("[12, 12, 3]", "[12, 12, 3]", "rows of all layers split over 2 ranks cost: "),
    ],
)
def test_check_says_what_is_whole_on_each_rank_and_why(small: Path, old: str, new: str, said: str) -> None:
    assert old in small.read_text()
    small.write_text(small.read_text().replace(old, new))
    found = " ".join(summary(simulation.plan(simulation.read(small, ("parallel.rows=2",)))).split())
    assert said in found
    gathered = " gathered from each rank of the group" in found
    assert gathered == (old != new)


def test_check_names_the_connection_for_which_a_layer_is_whole_on_each_rank(small: Path) -> None:
    near = """
[layers.near]
type = "linear"
shape = [12, 12, 2]

[connections.blur]
type = "conv"
pre = "image"
post = "near"
patch = [3, 3]
init = { type = "gaussian" }
"""
    text = small.read_text().replace("[12, 12, 3]", '[12, 12, 3]\nborder = "image"', 1)
    small.write_text(text + near)
    found = " ".join(summary(simulation.plan(simulation.read(small, ("parallel.rows=2",)))).split())
    assert "image is whole on each rank: blur, which is computed whole, sees the image around" in found
    assert "blur is computed whole on each rank: " in found


def test_a_layer_that_does_not_divide_into_tiles_is_whole_and_one_of_them_must(small: Path) -> None:
    whole = simulation.plan(simulation.read(small, ("parallel.rows=4",)))
    assert whole.graph.tiling.layers == whole.graph.network.layers.keys() - {"V1"}
    found = " ".join(summary(whole).split())
    assert "of image, error, recon split over 4 ranks V1 is whole on each rank: 6 rows cannot be" in found
    assert f"; {12 * 12 * 3 * 4 // 4} B gathered from each rank of the group" in found  # of the error
    with pytest.raises(ParamsError, match="12 rows cannot be split into 5 tiles") as raised:
        simulation.plan(simulation.read(small, ("parallel.rows=5",)))
    (problem,) = raised.value.problems
    expected = "parallel.rows is 5; set it to 2, 3, 4, 6 or 12, or to 1 not to split rows over ranks"
    assert (problem.key, problem.hint) == ("parallel.rows", expected)


@pytest.mark.mpi
@pytest.mark.long
def test_a_run_goes_on_from_one_grid_of_ranks_to_another(small: Path, petabatch: Command) -> None:
    folder, more = small.parent, (*MORE, "checkpoint.keep=10")
    alone(small, "one", *more)
    grids = (
        ("features", ("parallel.features=2", "parallel.batch=1"), 2, 7),
        ("rows", ("--features", 1, "--rows", 2), 4, 14),
        ("both", ("--features", 2, "--rows", 2), 4, 21),
        ("again", ("--features", 2, "--rows", 1), 2, 28),
        ("whole", ("--features", 1), 1, 40),
    )
    before = ""
    for name, flags, ranks, last in grids:
        if before:
            shutil.copytree(folder / before, folder / name)
            done = petabatch("resume", name, "-q", *flags, ranks=ranks)
        else:
            done = petabatch("run", small, "--out", name, "-q", *set_all(*more, *flags), ranks=ranks)
        assert done.returncode == 0, done.stderr
        later = [one for one in (folder / name / "checkpoints").iterdir() if _step(one) > last]
        assert later or last == 40
        for file in later:  # as if it had been killed before
            file.unlink()
        before = name
    assert_close(datasets(folder / "one" / "run.h5"), datasets(folder / "whole" / "run.h5"))


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.split("_")[1].split(".")[0])
