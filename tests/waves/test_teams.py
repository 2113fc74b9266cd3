"""Waves and pools of ranks that share slices: teams take points, with the bits of any number of teams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import results, simulation
from petabatch.engine.stopping import Stopped
from petabatch.errors import ResourceError
from petabatch.parallel.comm import Comm
from petabatch.report.information import describe
from petabatch.storage import points
from petabatch.waves import checkpoints, plan
from petabatch.waves.checkpoints import WaveCheckpoints
from petabatch.waves.compute import Making, Wave
from petabatch.waves.items import Items
from petabatch.waves.plan import Waves
from petabatch.waves.run import join
from petabatch.waves.team import Team
from support.commands import Command, alone, set_all
from support.rank_threads import on_threads

FROZEN = ("connections.dictionary.learn.every='never'", "run.displays=2")
SWEEP = (*FROZEN, "sweep.layers.V1.threshold=[0.2, 0.25, 0.3, 0.35, 0.4]", "sweep.wave=2")
POOL = (*FROZEN, "run.batch=7", "run.display=40", "run.pool=true")
ROWS, FEATURES = "parallel.rows=2", "parallel.features=2"
Recorded = dict[str, np.ndarray]
PICKY = """
from typing import Literal

from mpi4py import MPI
from petabatch.connections import Identity
from petabatch.layers import LCA
from petabatch.spec.parts import Capabilities


class Picky(LCA):
    type: Literal["picky"] = "picky"
    capabilities = Capabilities(splittable=True)

    def update(self, ctx, state, drive, previous, activity):
        super().update(ctx, state, drive, previous, activity)
        if activity.max() > 20 and ctx.step >= (9, 5)[MPI.COMM_WORLD.rank]:
            raise ValueError("that is too much")


class Wire(Identity):
    type: Literal["wire"] = "wire"
    operation = property(lambda self: "other")

    def deliver(self, kernels, wiring, activity, border, patches):
        return activity
"""
LATE = """
import time
from typing import Literal

from mpi4py import MPI
from petabatch.layers import LCA
from petabatch.spec.parts import Capabilities


class Late(LCA):
    type: Literal["late"] = "late"
    capabilities = Capabilities(splittable=True)

    def update(self, ctx, state, drive, previous, activity):
        if 6 in ctx.slices and ctx.step > 5:
            time.sleep(0.5)  # the other slot has no more slices
            if ctx.step > 10 and MPI.COMM_WORLD.rank == 1:
                raise MemoryError("the last slice")
        super().update(ctx, state, drive, previous, activity)
"""


def recorded(path: Path) -> Recorded:
    """Return all that a run recorded."""
    with results.open(path) as run:
        assert run.status == "done"
        return {name: run[name][...] for name in run} | run.coordinates


def assert_close(found: Recorded, expected: Recorded, tolerance: float = 1e-4) -> None:
    """Compare what two runs recorded, to rounding, or to the bit with a tolerance of 0."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape), name
        np.testing.assert_allclose(found[name], values, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.sampled(1)
@pytest.mark.mpi
@pytest.mark.parametrize("split", [ROWS, pytest.param(FEATURES, marks=pytest.mark.long)])
@pytest.mark.parametrize("settings", [SWEEP, POOL], ids=["waves", "pool"])
def test_any_number_of_teams_gives_the_same_bits(
    small: Path, petabatch: Command, settings: Sequence[str], split: str
) -> None:
    one = recorded(alone(small, "one", *settings))
    found = []
    for teams in (1, 2):
        out = small.parent / f"teams_{teams}"
        given = ("--threads", 3 - teams, *set_all(*settings, split))
        done = petabatch("run", small, "--out", out, "-q", *given, ranks=2 * teams)
        assert done.returncode == 0, done.stderr
        assert len({name.stem for name in points.names_of(out)}) == teams, (
            "the first rank of each team writes"
        )
        with results.open(out) as run:
            assert run.attributes["times"]["communication"] > 0
        found.append(recorded(out))
    assert_close(found[0], one)
    assert_close(found[0], found[1], 0)


@pytest.mark.mpi
@pytest.mark.parametrize(
    "settings", [pytest.param(SWEEP, id="waves", marks=pytest.mark.long), pytest.param(POOL, id="pool")]
)
def test_points_fail_alone_at_the_step_of_a_single_rank(
    small: Path, petabatch: Command, settings: Sequence[str]
) -> None:
    if settings is POOL:
        images = np.load(small.parent / "images.npy")
        images[4, -2:] = np.nan  # the second rank alone sees them
        np.save(small.parent / "images.npy", images)
        bad, step, cause = 4, 0, "some pixels are not finite"
    else:
        settings = (*settings[:-2], "sweep.connections.recon_to_error.strength=[1.0, -80.0, 0.5]")
        settings = (*settings, "run.display=400", "sweep.wave=2")
        bad, step, cause = 1, 400, "is no longer finite"
    one = alone(small, "one", *settings)
    done = petabatch("run", small, "--out", "two", "-q", *set_all(*settings, ROWS), ranks=2)
    assert done.returncode == 4, done.stderr
    with results.open(one) as run:
        expected = run.coordinates["failed"]
    with results.open(small.parent / "two") as run:
        assert run.failed == 1
        assert np.array_equal(run.coordinates["failed"], expected)
        assert sorted(set(expected.tolist())) == [-1, step]
    assert cause in " ".join(describe(small.parent / "two").split())
    assert_close(recorded(small.parent / "two"), recorded(one))
    again = petabatch("resume", "two", "--retry-failed", "-q", "--rows", 1)
    assert again.returncode == 4, again.stderr
    assert expected[bad * (1 if settings is POOL else 3)] == step


@pytest.mark.mpi
def test_jobs_of_an_array_and_resumed_runs_may_split_slices_or_not(
    small: Path, petabatch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, out = recorded(alone(small, "one", *SWEEP)), small.parent / "jobs"
    for chunk, given, ranks in (("1/2", [ROWS], 2), ("2/2", [], 0)):
        done = petabatch(
            "run", small, "--out", out, "-q", "--chunk", chunk, *set_all(*SWEEP, *given), ranks=ranks
        )
        assert done.returncode == 0, done.stderr
    assert str(join(out)) == "5 of 5 points finished"
    assert_close(recorded(out), one)
    made = plan.waves

    def dying(*arguments: Any) -> Iterator[Wave]:
        yield from made(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "_COMMIT", 0.0)
        patched.setattr(plan, "waves", dying)
        with pytest.raises(KeyboardInterrupt):
            alone(small, "cut", *SWEEP)
    done = petabatch("resume", "cut", "-q", "--features", 2, ranks=2)
    assert done.returncode == 0, done.stderr
    assert_close(recorded(small.parent / "cut"), one)


@pytest.mark.mpi
@pytest.mark.parametrize("settings", [("sweep.wave=5",), pytest.param((), marks=pytest.mark.long)])
def test_an_update_that_raises_on_ranks_that_share_a_point_fails_it_at_the_earliest_of_their_steps(
    small: Path, petabatch: Command, settings: Sequence[str]
) -> None:
    """The update of all points at once, for which features of other ranks are gathered."""
    (small.parent / "picky.py").write_text(PICKY)
    given = (
        *(
            *FROZEN,
            *settings,
            "plugins=['picky.py']",
            "connections.wire={type='wire', pre='V1', post='more'}",
        ),
        "layers.more={type='picky', shape=[6, 6, 8], tau=2.0, threshold=0.1}",
        *("output.layers.more={}", "sweep.connections.image_to_error.strength=[1.0, 1.1, 900.0, 0.9, 0.8]"),
    )
    done = petabatch("run", small, "--out", "two", "-q", *set_all(*given, FEATURES), ranks=2)
    assert done.returncode == 4, done.stderr
    assert "that is too much" in describe(small.parent / "two")
    found, one = recorded(small.parent / "two"), recorded(alone(small, "one", *given))
    assert found.pop("failed")[::3].tolist() == [-1, -1, 5, -1, -1]
    assert one.pop("failed")[::3].tolist() == [-1, -1, 9, -1, -1]
    for name, values in one.items():
        if name.startswith(("layers/", "probes/")):
            others = [0, 1, 3, 4]
            mine, theirs = (a.reshape(len(a), 5, -1)[:, others] for a in (found[name], values))
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5 * abs(theirs).max(), err_msg=name)


@pytest.mark.mpi
@pytest.mark.long
def test_an_error_on_one_rank_alone_ends_a_pool_while_its_other_slots_have_nothing_to_do(
    small: Path, petabatch: Command
) -> None:
    (small.parent / "late.py").write_text(LATE)
    given = set_all(*POOL, FEATURES, "plugins=['late.py']", "layers.V1.type='late'")
    done = petabatch("run", small, "--out", "two", "-q", "--threads", 2, *given, ranks=2)
    assert done.returncode == 1, done.stderr
    assert "the last slice" in done.stderr


def wave_rows(small: Path, split: str, ranks: int, found: list[tuple[Path, np.ndarray]], stop: int) -> Any:
    """Compute a wave of four points on ranks that are threads; stop it after some looks at signals."""
    points = ("sweep.layers.V1.threshold=[0.2, 0.3, 0.4, 0.5]", "sweep.wave=4", "checkpoint.every=3")
    loaded = simulation.read(small, (*FROZEN, *points, *([split] if split else ())))

    def one(comm: Comm) -> Any:
        waves = Waves.of(loaded)
        team = Team.of(comm, waves.base, 1)
        file = small.parent / f"{stop}.wave"
        saved, looks = WaveCheckpoints(file, waves.layout, {}, found), iter(range(100))

        def stopped() -> bool:
            return comm.rank == 1 and next(looks) >= stop  # a signal to the second rank

        parts = waves.parts(waves.points(), team)
        try:
            return [wave.rows for wave in waves.computed(parts, Making(team, stopped, saved))]
        except Stopped:
            return file

    return on_threads(ranks, one)


@pytest.mark.parametrize(("split", "ranks"), [(ROWS, 2), (FEATURES, 2)])
def test_a_wave_that_was_stopped_goes_on_from_its_checkpoint_also_with_other_parts(
    small: Path, split: str, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,), nothing = wave_rows(small, split, ranks, [], 99)
    assert nothing == []
    files = wave_rows(small, split, ranks, [], 3)
    assert files == [small.parent / "3.wave"] * ranks
    steps = []
    monkeypatch.setattr(
        checkpoints.wave, "load", lambda path, load=checkpoints.wave.load: steps.append(path) or load(path)
    )
    (again,), _ = wave_rows(small, split, ranks, [(files[0], whole.values)], 98)
    for name, column in whole.columns.items():
        assert again.columns[name].tobytes() == column.tobytes(), name
    (other,), *_ = wave_rows(small, "", 1, [(files[0], whole.values)], 97)
    assert len(steps) == 2, "the first rank alone reads the file"
    for name, column in whole.columns.items():
        np.testing.assert_allclose(other.columns[name], column, rtol=1e-4, atol=1e-4, err_msg=name)


def test_the_slots_of_a_team_follow_those_of_its_first_rank_and_stop_with_any(small: Path) -> None:
    loaded = simulation.read(small, (*POOL, ROWS))

    def made(stop: int) -> Any:
        def one(comm: Comm) -> Any:
            items = Items.of(loaded, comm, 3 - comm.rank)  # the team has the fewest
            team, looks = Team.of(comm, items.base, 3 - comm.rank), iter(range(10**6))
            parts = items.parts(items.points(), team)

            def stopped() -> bool:
                return comm.rank == 1 and next(looks) >= stop

            try:
                return [wave.points.numbers.tolist() for wave in items.computed(parts, Making(team, stopped))]
            except Stopped:
                return "stopped"

        return on_threads(2, one)

    first, second = made(10**6)
    assert (sorted(number for part in first for number in part), second) == (list(range(7)), [])
    assert "stopped" in made(0)


def test_ranks_that_make_no_whole_teams_are_refused_before_anything_is_written(small: Path) -> None:
    with pytest.raises(ResourceError, match="number of ranks does not match"):
        alone(small, "one", *SWEEP, ROWS)
    assert not (small.parent / "one").exists()
