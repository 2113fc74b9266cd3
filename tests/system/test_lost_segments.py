"""Lost segments: what is left of a run is read, merged and resumed, and their steps are a visible gap."""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import petabatch as pb
from petabatch import plotting, simulation
from petabatch.errors import DamagedError, NotRecorded, StorageError
from petabatch.report import information, integrity
from petabatch.report.page import content
from petabatch.storage.claim import Claim
from petabatch.storage.merge import merge
from petabatch.storage.prune import prune
from petabatch.storage.seal import read_json
from support.commands import contents
from support.damage import flip, resume, segment
from support.sealing import reseal

mpl.use("agg")


def repair(folder: Path) -> str:
    text, whole = integrity.verify(folder, repairing=True)
    assert whole, text
    return text


def shaded(axes: Any) -> list[tuple[float, float]]:
    """Return where a plot is shaded, along its x axis."""
    ends = axes.transData.inverted()
    boxes = [patch.get_extents().transformed(ends) for patch in axes.patches]
    return [(round(box.x0, 6), round(box.x1, 6)) for box in boxes]


def assert_a_gap(path: Path, expected: Path, first: int, last: int) -> None:
    """Check that a run has the bits of another, and nothing of the steps `first` to `last`."""
    with pb.open(path) as run, pb.open(expected) as other:
        assert run.gaps == [(first, last)]
        assert list(run) == list(other)
        assert any(((other[name].steps >= first) & (other[name].steps <= last)).any() for name in other)
        for name in run:
            steps = other[name].steps
            kept = (steps < first) | (steps > last)
            np.testing.assert_array_equal(run[name].steps, steps[kept])
            assert run[name][...].tobytes() == other[name][...][kept].tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("index", [None, flip, Path.unlink], ids=["", "index flipped", "no index"])
@pytest.mark.parametrize("change", [flip, Path.unlink], ids=["flipped", "missing"])
def test_the_index_is_rebuilt_without_the_steps_of_a_lost_segment(
    runs: Path, stopped: Path, change: Callable[[Path], None], index: Callable[[Path], None] | None
) -> None:
    lost = segment(stopped, 11)
    change(lost)
    if index is not None:
        index(stopped / "run.h5")
    text, whole = integrity.verify(stopped, repairing=False)
    assert not whole
    assert "steps 11 to 20 of slices 0 to 2: lost without a copy of the file; `petabatch verify --rep" in text
    assert "rebuilt            run.h5" in repair(stopped)
    assert_a_gap(stopped, runs / "stopped", 11, 20)
    assert "rebuilt   " not in repair(stopped)
    text, whole = integrity.verify(stopped, repairing=False)
    assert whole
    assert f"lost               {lost}.lost" in text
    assert "steps 11 to 20 of slices 0 to 2: lost; the other steps can be read" in text
    assert_a_gap(merge(stopped, stopped.parent / "merged.h5"), runs / "stopped", 11, 20)


def test_without_an_index_a_missing_segment_is_a_gap(runs: Path, stopped: Path) -> None:
    for path in (segment(stopped, 11), stopped / "run.h5"):
        path.unlink()
    repair(stopped)
    assert_a_gap(stopped, runs / "stopped", 11, 20)


def test_readers_name_the_gap(runs: Path, stopped: Path) -> None:
    segment(stopped, 11).unlink()
    with pb.open(stopped) as run, pytest.raises(StorageError, match="petabatch verify --repair"):
        run["layers/V1/A"][0]
    repair(stopped)
    assert "lost steps 11 to 20, of which there are no records" in " ".join(
        information.describe(stopped).split()
    )
    with pb.open(stopped) as run, pb.open(runs / "stopped") as other:
        assert "without steps 11 to 20, which are lost" in repr(run)
        with pytest.raises(NotRecorded, match=r"is lost, with steps 11 to 20[^$]*the nearest is"):
            run["layers/V1/A"].at(display=2)
        for step in (11, 20):
            with pytest.raises(NotRecorded, match=f"shown at step {step} is lost, with steps 11 to 20"):
                run.shown("image", step=step)
        for step in (1, 10, 21, 30, 40):
            assert run.shown("image", step=step) == other.shown("image", step=step)


def test_gaps_are_shaded_and_no_line_crosses_them(runs: Path, stopped: Path) -> None:
    flip(segment(stopped, 11))
    repair(stopped)
    with pb.open(stopped) as run:
        for draw in (plotting.energy, plotting.sparsity, plotting.compare):
            axes = draw(run).axes[0]
            for line in axes.lines:
                displays, values = line.get_xydata().T
                steps = 10 * displays
                assert not ((steps[:-1] <= 10) & (steps[1:] >= 21)).any()
                assert np.isnan(values[(steps > 10) & (steps <= 20)]).all()
                assert shaded(axes) == [(1, 2)]  # in displays
        with pb.open(runs / "whole") as other:
            both = plotting.compare(run, other)
        assert shaded(both.axes[0]) == [(1, 2)]
        assert [text.get_text() for text in both.legends[0].texts] == [
            "stopped; steps 11 to 20 are lost",
            "whole",
        ]
        changes = plotting.weights_over_time(run).axes[1]
        assert shaded(changes) == [(1, 2)]
        displays, change = changes.lines[0].get_xydata().T
        assert np.isnan(change[displays == 3]).all()
        assert not np.isnan(change[displays != 3]).any()
        plotting.raster(run)
        assert "steps 11 to 20 are lost" in [text.get_text() for text in plotting.energy(run).axes[0].texts][
            -1
        ].replace("\n", " ")
        assert all(chart["gaps"] == [(11, 20)] for chart in content.curves(run))
        line = content.curves(run)[0]["lines"][0]
        assert line["mean"][line["steps"].index(20)] is None


def test_a_run_is_resumed_without_lost_steps_that_no_checkpoint_precedes(
    runs: Path, stopped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = segment(stopped, 11)
    flip(lost)
    with pytest.raises(DamagedError, match=r"no checkpoint from before[^$]*petabatch verify --repair"):
        resume(stopped)
    repair(stopped)
    with caplog.at_level(logging.WARNING, "petabatch"):
        resume(stopped)
    warnings = [record.message for record in caplog.records if lost.name in record.message]
    assert warnings == [f"{lost}: this segment is lost; the run is resumed at step 40 without its steps"]
    assert_a_gap(stopped, runs / "whole", 11, 20)
    assert integrity.verify(stopped, repairing=False)[1]


def test_lost_steps_after_a_checkpoint_are_computed_again(runs: Path, stopped: Path) -> None:
    flip(segment(stopped, 31))
    assert "`petabatch resume` computes them again from step 30" in repair(stopped)
    with pb.open(stopped) as run:
        assert (run.gaps, run.steps_reached) == ([(31, 40)], 30)
    resume(stopped)
    assert contents(merge(stopped, stopped.parent / "merged.h5")) == contents(runs / "whole.h5")
    assert not list((stopped / "parts").glob("*.lost"))


def test_a_segment_that_is_put_back_closes_the_gap(runs: Path, stopped: Path) -> None:
    path = segment(stopped, 11)
    flip(path)
    repair(stopped)
    shutil.copy(runs / "stopped" / "parts" / path.name, path)
    assert "rebuilt            run.h5" in repair(stopped)
    assert contents(stopped / "run.h5") == contents(runs / "stopped" / "run.h5")
    assert not list((stopped / "parts").glob("*.lost"))


def forget(folder: Path, *steps: int) -> None:
    """Remove the index, what else tells how far it has come, and the segments that start at these steps."""
    for path in (folder / "run.h5", *(segment(folder, step) for step in steps)):
        path.unlink()
    described = read_json(folder / "run.json")
    described["segments"] = []
    (folder / "run.json").write_text(json.dumps(described))
    reseal(folder / "run.json")


def test_a_segment_that_no_file_names_is_missed_because_of_the_checkpoint_after_it(
    runs: Path, stopped: Path
) -> None:
    forget(stopped, 31)
    other = shutil.copytree(stopped, stopped.parent / "other")
    resume(other)
    assert contents(merge(other, stopped.parent / "merged.h5")) == contents(runs / "whole.h5")
    for path in (stopped / "checkpoints").glob("*_000000030*"):
        path.unlink()
    with pytest.raises(DamagedError, match=r"no segment has steps 31 to 40[^$]*verify --repair"):
        resume(stopped)
    repair(stopped)
    with pb.open(stopped) as run:
        assert run.gaps == [(31, 40)]


def test_of_segments_that_no_file_names_those_after_a_checkpoint_are_computed_again(
    runs: Path, stopped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    forget(stopped, 21, 31)
    with pytest.raises(DamagedError, match=r"steps 21 to 30\n.*no segment has steps 31 to 40\n"):
        resume(stopped)
    text = repair(stopped)
    assert "steps 21 to 30 of all slices: lost; the other steps can be read" in text
    assert "steps 31 to 40 of all slices: `petabatch resume` computes them again from step 30" in text
    with pb.open(stopped) as run:
        assert (run.gaps, run.steps_reached) == ([(21, 40)], 20)
    with caplog.at_level(logging.WARNING, "petabatch"):
        resume(stopped)
    assert [record.message.partition(" lost; ")[2] for record in caplog.records] == [
        "the run is resumed at step 30, and its steps are computed again",
        "the run is resumed at step 30 without its steps",
    ]
    assert_a_gap(stopped, runs / "whole", 21, 30)
    assert [path.name[:31] for path in (stopped / "parts").glob("*.lost")] == [
        "steps_000000000021-000000000030"
    ]


def test_a_first_segment_that_no_file_names_is_one_gap_from_step_0_on(runs: Path, tmp_path: Path) -> None:
    loaded = simulation.read(runs / "small.toml", ["output.flush=1 display", "checkpoint.keep=9"])
    simulation.run(loaded, tmp_path / "done", mpi=False, quiet=True, threads=1)
    forget(tmp_path / "done", 0)
    assert "steps 0 to 10 of all slices: `petabatch resume` computes them again" in repair(tmp_path / "done")
    resume(tmp_path / "done")
    assert contents(merge(tmp_path / "done", tmp_path / "done.h5")) == contents(runs / "whole.h5")


def test_a_segment_that_no_file_names_is_not_counted_with_lost_ones_before_it(stopped: Path) -> None:
    flip(segment(stopped, 11))
    repair(stopped)
    forget(stopped, 21)
    text = repair(stopped)
    assert "steps 11 to 20 of slices 0 to 2: lost" in text
    assert "steps 21 to 30 of all slices: lost" in text


def test_checkpoints_from_which_lost_steps_can_be_computed_again_are_not_pruned(
    runs: Path, tmp_path: Path
) -> None:
    done = shutil.copytree(runs / "whole", tmp_path / "done")
    first, last = segment(done, 11), segment(done, 51)
    for path in (first, last):
        flip(path)
    repair(done)
    before = sorted((done / "checkpoints").iterdir())
    with pytest.raises(DamagedError, match=rf"parts/{last.name}\n[^$]*remove .*step_000000050.h5"):
        prune(done)
    assert sorted((done / "checkpoints").iterdir()) == before
    resume(done)
    assert_a_gap(done, runs / "whole", 11, 20)
    prune(done)
    assert not any((done / "checkpoints").iterdir())
    assert_a_gap(done, runs / "whole", 11, 20)


def test_where_a_loss_is_accepted_the_checkpoint_is_removed_by_hand_and_the_others_are_pruned(
    runs: Path, tmp_path: Path
) -> None:
    done = shutil.copytree(runs / "whole", tmp_path / "done")
    flip(segment(done, 51))
    repair(done)
    with pytest.raises(DamagedError, match=r"accept the loss: remove .*step_000000050.h5\n *and prune again"):
        prune(done)
    (done / "checkpoints" / "step_000000050.h5").unlink()
    prune(done)
    assert not any((done / "checkpoints").iterdir())
    assert integrity.verify(done, repairing=False)[1]
    assert_a_gap(done, runs / "whole", 51, 60)


def test_all_checkpoints_from_which_lost_steps_can_be_computed_again_are_named_at_once(
    runs: Path, tmp_path: Path
) -> None:
    loaded = simulation.read(runs / "small.toml", ["output.flush=1 display", "checkpoint.keep=9"])
    simulation.run(loaded, tmp_path / "done", mpi=False, quiet=True, threads=1)
    done = tmp_path / "done"
    lost = [segment(done, 21), segment(done, 31)]
    for path in lost:
        flip(path)
    repair(done)
    flip(done / "checkpoints" / "step_000000020.h5")  # of no use
    with pytest.raises(DamagedError) as refused:
        prune(done)
    text = str(refused.value)
    assert [path.name in text for path in lost] == [True, True]
    heads = re.findall(r"\S+/checkpoints/step_\d+.h5", text)
    assert [Path(head).stem for head in heads] == [f"step_0000000{step}" for step in ("00", "10", "30")]
    for head in heads:
        Path(head).unlink()
    prune(done)
    assert_a_gap(done, runs / "whole", 21, 40)


def test_a_run_in_progress_is_to_be_stopped_before_it_removes_the_checkpoint_that_is_needed(
    stopped: Path,
) -> None:
    flip(segment(stopped, 31))
    warning = "from step 30; stop the run first, before it removes that checkpoint\n"
    with Claim() as claim:
        claim.take(stopped)
        assert warning in integrity.verify(stopped, repairing=False)[0]
    assert "from step 30\n" in integrity.verify(stopped, repairing=False)[0]
