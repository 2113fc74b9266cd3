"""Run directories, segments, the index, merging, and reading back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import h5py
import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from petabatch import results
from petabatch.engine.recorder import Record
from petabatch.errors import RunDirectoryError, StorageError
from petabatch.storage import compact, provenance
from petabatch.storage import index as run_index
from petabatch.storage.checkpoint import save_checkpoint
from petabatch.storage.description import Description, Status
from petabatch.storage.directory import RunDirectory
from petabatch.storage.index import drop_after, write_index
from petabatch.storage.merge import merge
from petabatch.storage.rows import Row, all_segments
from petabatch.storage.segment import Segment, Summary, write_segment
from petabatch.storage.verify import file_states, repair
from petabatch.variable import Stream
from support.processes import killed_at

B = 5
CODE = Stream(
    "layers/V1/A", (B, 4, 3, 40), ("batch", "y", "x", "feature"), "float32", True, "activity", "1", True
)
POTENTIAL = Stream("layers/V1/V", (B, 4, 3, 100), ("batch", "y", "x", "feature"), "float32", True, "", "mV")
WEIGHTS = Stream(
    "connections/D/weights", (3, 2, 2, 7), ("feature_pre", "y", "x", "feature"), "float32", False
)
ENERGY = Stream("probes/energy/total", (B,), ("batch",), "float64", True, "energy per slice")
STREAMS = (CODE, POTENTIAL, WEIGHTS, ENERGY)
UNEVEN = ((0, 2), (2, 3), (3, 5))
Values = dict[str, tuple[np.ndarray, np.ndarray]]
T = TypeVar("T")


def make(tmp_path: Path, name: str = "run") -> RunDirectory:
    return RunDirectory.create(tmp_path / name, "[run]\nbatch = 5\n")


def record(stream: Stream, steps: Sequence[int], seed: int) -> Record:
    """Values that depend on the stream and the seed alone, mostly zero for a sparse stream."""
    rng = np.random.default_rng([seed, sum(map(ord, stream.path))])
    values = rng.standard_normal((len(steps), *stream.shape)).astype(stream.dtype)
    if stream.sparse:
        values[rng.random(values.shape) < 0.9] = 0
    return Record(stream, np.asarray(steps, np.int64), values)


def flush(
    directory: RunDirectory,
    records: Sequence[Record],
    first: int,
    last: int,
    shares: Sequence[tuple[int, int]] = UNEVEN,
) -> None:
    """Write one flush as the ranks would, one after the other."""
    for rank, (lo, hi) in enumerate(shares):
        mine = [Record(r.stream, r.steps, r.values[:, lo:hi]) if r.stream.batched else r for r in records]
        write_segment(directory, mine, rank, first, last, lo, hi)


def display(directory: RunDirectory, k: int, shares: Sequence[tuple[int, int]] = UNEVEN) -> list[Record]:
    """Write display k of 10 steps: weights also at step 0, V only at even displays, energy at each step."""
    first, last = (10 * k + 1 if k else 0), 10 * k + 10
    records = [
        record(CODE, [last], k),
        record(POTENTIAL, [] if k % 2 else [last], k),
        record(WEIGHTS, [0, 10] if k == 0 else [last], k),
        record(ENERGY, range(10 * k + 1, last + 1), k),
    ]
    flush(directory, records, first, last, shares)
    return records


def joined(records: Sequence[Record]) -> Values:
    """What a reader must see: path to (steps, values)."""
    seen: Values = {}
    for r in records:
        old = seen.get(r.stream.path, (np.empty(0, np.int64), np.empty((0, *r.stream.shape), r.stream.dtype)))
        seen[r.stream.path] = np.concatenate([old[0], r.steps]), np.concatenate([old[1], r.values])
    return seen


def assert_holds(path: Path, expected: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    with results.open(path) as run:
        assert sorted(run.names()) == sorted(expected)
        for place, (steps, values) in expected.items():
            series = run[place]
            np.testing.assert_array_equal(series.steps, steps)
            assert series.dtype == values.dtype
            np.testing.assert_array_equal(series[...], values)


def described(streams: Sequence[Stream], batch: int = B, status: Status = "running") -> Description:
    return Description(tuple(streams), {"params": {"a": 1}, "seed": 3}, batch, status)


def index(
    directory: RunDirectory,
    streams: Sequence[Stream] = STREAMS,
    status: Status = "running",
    until: int | None = None,
    limit: float = compact.LIMIT,
) -> None:
    write_index(directory, described(streams, status=status), until, limit)


def four_displays(directory: RunDirectory) -> list[list[Record]]:
    """Record four displays, and return what is recorded of each."""
    records = [display(directory, k) for k in range(4)]
    index(directory)
    return records


def killed_everywhere(
    tmp_path: Path, prepare: Callable[[RunDirectory], T], work: Callable[[RunDirectory], object], least: int
) -> Iterator[tuple[RunDirectory, T]]:
    """Yield run directories in which `work` was killed at each of its changes of the disk, `least` or more.

    In the last one it was not killed. Each comes with what `prepare` returned of it.
    """
    whole = make(tmp_path, "prepared")
    prepared = prepare(whole)
    number, killed = 0, True
    while killed:
        directory = RunDirectory.open(shutil.copytree(whole.path, tmp_path / f"run{number}"))
        killed = killed_at(number, lambda directory=directory: work(directory))  # type: ignore[misc]
        yield directory, prepared
        number += 1
    assert number > least


# -- the run directory


def test_a_new_run_directory_has_its_layout_and_the_params_as_given(tmp_path: Path) -> None:
    directory = make(tmp_path, "new/run")
    assert sorted(p.name for p in directory.path.iterdir()) == [
        "checkpoints",
        "inputs.json",
        "log.txt",
        "params.json",
        "params.toml",
        "parts",
    ]
    assert directory.params.read_text() == "[run]\nbatch = 5\n"
    assert RunDirectory.open(directory.path) == directory
    assert [p.name for p in directory.path.parent.iterdir()] == ["run"]


def test_an_existing_directory_is_refused_without_force_and_replaced_with_it(tmp_path: Path) -> None:
    directory = make(tmp_path)
    display(directory, 0)
    index(directory)
    with pytest.raises(RunDirectoryError, match="already exists"):
        make(tmp_path)
    RunDirectory.create(directory.path, "x = 1", ".py", force=True)
    assert not directory.run_file.exists()
    assert directory.params.name == "params.py"
    assert not any(directory.parts.iterdir())
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    "foreign", ["notes.txt", "parts/mine.h5", "checkpoints/figure.png", "origin/checkpoints/a.txt"]
)
def test_force_leaves_alone_what_no_run_wrote(tmp_path: Path, foreign: str) -> None:
    directory = make(tmp_path)
    (directory.path / foreign).parent.mkdir(parents=True, exist_ok=True)
    (directory.path / foreign).write_text("precious")
    with pytest.raises(RunDirectoryError, match=Path(foreign).name):
        RunDirectory.create(directory.path, "", force=True)
    assert (directory.path / foreign).read_text() == "precious"


def test_force_leaves_alone_what_is_not_a_run_directory(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(make(tmp_path).path)
    for name in ("home", "file", "link"):
        with pytest.raises(RunDirectoryError, match="not replaced"):
            RunDirectory.create(tmp_path / name, "", force=True)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("function", ["rename", "mkdir"])
def test_a_run_directory_that_cannot_be_made_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool, function: str
) -> None:
    if force:
        (make(tmp_path).path / "log.txt").write_text("old")
    real, calls = getattr(os, function), iter(range(99))
    fail_at = {"rename": int(force), "mkdir": 2}[function]

    def failing(*arguments: object, **options: object) -> object:
        if next(calls) == fail_at:
            raise OSError(28, "No space left on device")
        return real(*arguments, **options)

    monkeypatch.setattr(os, function, failing)
    with pytest.raises(RunDirectoryError, match="No space left"):
        RunDirectory.create(tmp_path / "run", "", force=force)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == (["run"] if force else [])
    assert not force or (tmp_path / "run" / "log.txt").read_text() == "old"


def test_a_place_that_cannot_hold_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="file/run: cannot create the run directory"):
        make(tmp_path, "file/run")
    with pytest.raises(RunDirectoryError, match="no parts/"):
        RunDirectory.open(tmp_path)
    with pytest.raises(RunDirectoryError, match="no such run directory"):
        RunDirectory.open(tmp_path / "nothing")


# -- segments and the index


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Stream], list[tuple[list[tuple[int, int]], list[Record]]]]:
    """Streams of random shapes, and flushes of random ranks and times, several of them empty."""
    batch = draw(st.integers(1, 4))
    streams = []
    for number in range(draw(st.integers(1, 4))):
        batched = draw(st.booleans())
        rest = tuple(draw(st.lists(st.integers(1, 4), max_size=2) | st.just([1100])))
        dims = tuple(f"d{axis}" for axis in range(len(rest)))
        shape, dims = ((batch, *rest), ("batch", *dims)) if batched else (rest, dims)
        dtype = draw(st.sampled_from(["float32", "float64", "int64", "uint8"]))
        folder = draw(st.sampled_from(["layers/L", "probes/p"]))
        streams.append(Stream(f"{folder}/s{number}", shape, dims, dtype, batched, sparse=draw(st.booleans())))
    flushes = []
    for k in range(draw(st.integers(0, 5))):
        cuts = sorted(draw(st.lists(st.integers(0, batch), max_size=2)))
        shares = list(zip([0, *cuts], [*cuts, batch], strict=True))
        due = [sorted(draw(st.sets(st.integers(10 * k, 10 * k + 9), max_size=3))) for _ in streams]
        flushes.append((shares, [record(s, steps, k) for s, steps in zip(streams, due, strict=True)]))
    return streams, flushes


@settings(max_examples=25, deadline=None)
@given(runs(), st.integers(1, 8))
@pytest.mark.long
def test_what_any_ranks_record_is_read_back_exactly_also_merged(
    run: tuple[list[Stream], list[tuple[list[tuple[int, int]], list[Record]]]], limit: int
) -> None:
    streams, flushes = run
    batch = next((s.shape[0] for s in streams if s.batched), flushes[0][0][-1][1] if flushes else 1)
    everything = [record(s, [], 0) for s in streams]
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory.create(f"{folder}/run", "")
        write_index(directory, described(streams, batch))
        for k, (shares, records) in enumerate(flushes):
            flush(directory, records, 10 * k, 10 * k + 9, shares)
            write_index(directory, described(streams, batch), limit=limit)
            everything += records
        assert len(list(directory.parts.iterdir())) <= max(limit, 1)
        assert_holds(directory.path, joined(everything))
        assert_holds(merge(directory.path, f"{folder}/plain.h5"), joined(everything))


def test_h5py_in_another_process_and_folder_reads_a_moved_run(tmp_path: Path) -> None:
    directory = make(tmp_path)
    expected = joined(display(directory, 0) + display(directory, 1))
    index(directory)
    moved = tmp_path / "elsewhere" / "moved"
    moved.parent.mkdir()
    directory.path.rename(moved)
    code = (
        "import h5py, sys; f = h5py.File(sys.argv[1]); d = f['layers/V1/A']; "
        "print(repr(float(d[()].astype('f8').sum())), d.shape, [x.label for x in d.dims], d.dims[0][0][()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, os.path.relpath(moved / "run.h5", "/")],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    total = float(expected["layers/V1/A"][1].astype("f8").sum())
    labels = ["time", "batch", "y", "x", "feature"]
    assert done.stdout.strip() == f"{total!r} (2, 5, 4, 3, 40) {labels} [10 20]"


@pytest.mark.skipif(shutil.which("h5dump") is None, reason="h5dump is not installed")
def test_h5dump_reads_the_values(tmp_path: Path) -> None:
    directory = make(tmp_path)
    display(directory, 0)
    index(directory)
    done = subprocess.run(
        ["h5dump", "-d", "/probes/energy/step", str(directory.run_file)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "(0): 1, 2, 3, 4, 5, 6, 7, 8, 9, 10" in done.stdout


def test_xarray_opens_everything_with_named_dimensions_and_coordinates(tmp_path: Path) -> None:
    directory = make(tmp_path)
    expected = joined(display(directory, 0) + display(directory, 1))
    index(directory, status="done")
    for path in (directory.run_file, merge(directory.path, tmp_path / "plain.h5")):
        with xarray.open_datatree(path, engine="h5netcdf") as tree:
            for place, (_, values) in expected.items():
                np.testing.assert_array_equal(tree[place].values, values)
            code, potential, energy = tree["layers/V1/A"], tree["layers/V1/V"], tree["probes/energy/total"]
            assert code.dims == ("time", "batch", "y", "x", "feature")
            assert list(code.coords["batch"]) == list(range(B))
            np.testing.assert_array_equal(code.coords["time"], [10, 20])
            # V has other features than A and was recorded at other steps: it gets coordinates of its own
            assert potential.dims == ("time_V", "batch", "y", "x", "feature_V")
            np.testing.assert_array_equal(potential.coords["time_V"], [10])
            assert energy.dims == ("step", "batch")
            assert float(energy.sel(step=7, batch=2)) == expected[ENERGY.path][1][6, 2]
            assert potential.attrs["units"] == "mV"
            assert energy.attrs["description"] == "energy per slice"
            np.testing.assert_array_equal(tree["connections/D/weights"].coords["time"], [0, 10, 20])
            assert tree.attrs["status"] == "done"
            assert tree.attrs["steps_reached"] == 20
            assert json.loads(tree.attrs["params"]) == {"a": 1}


def test_streams_recorded_at_the_same_steps_share_their_time(tmp_path: Path) -> None:
    directory = make(tmp_path)
    other = Stream("probes/energy/sparsity", (B,), ("batch",), "float64", True)
    flush(directory, [record(ENERGY, [1, 2], 0), record(other, [1, 2], 0)], 0, 5)
    index(directory, [ENERGY, other])
    with h5py.File(directory.run_file) as file:
        assert sorted(file["probes/energy"]) == ["sparsity", "step", "total"]


def test_codes_are_compressed_by_time_and_slice_and_small_arrays_only_get_checksums(tmp_path: Path) -> None:
    directory = make(tmp_path)
    records = display(directory, 0)
    code = next(r for r in records if r.stream is CODE)
    assert (code.values == 0).mean() > 0.8
    with h5py.File(directory.parts / Segment(0, 10, 3, 5).name) as file:
        values = {place: file[place]["values"] for place in (CODE.path, POTENTIAL.path, ENERGY.path)}
        layouts = {
            p: (v.chunks, v.compression, v.compression_opts, v.shuffle, v.fletcher32)
            for p, v in values.items()
        }
        assert layouts == {
            CODE.path: ((1, 1, 4, 3, 40), "gzip", 1, False, False),
            POTENTIAL.path: ((1, 1, 4, 3, 100), "gzip", 4, True, False),
            ENERGY.path: ((10, 2), "gzip", 0, False, False),
        }
        assert WEIGHTS.path not in file  # rank 0 alone writes what has no batch axis
        assert values[CODE.path].id.get_storage_size() < code.values[:, 3:].nbytes / 2


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Record(ENERGY, np.array([1]), np.zeros((1, 4))), r"float64 \[1, 4\], expected float64 \[1, 5\]"),
        (Record(ENERGY, np.array([1]), np.zeros((1, 5), "float32")), "found float32"),
        (Record(ENERGY, np.array([2, 2]), np.zeros((2, 5))), "ascending"),
        (Record(ENERGY, np.array([99]), np.zeros((1, 5))), "outside the segment's steps 0 to 10"),
    ],
)
def test_a_record_that_does_not_fit_its_stream_is_refused(
    tmp_path: Path, broken: Record, message: str
) -> None:
    directory = make(tmp_path)
    with pytest.raises(StorageError, match=message):
        write_segment(directory, [broken], 0, 0, 10, 0, B)
    assert not any(directory.parts.iterdir())


def test_a_flush_that_some_rank_has_not_finished_is_left_out(tmp_path: Path) -> None:
    directory = make(tmp_path)
    records = display(directory, 0)
    display(directory, 1)
    (directory.parts / Segment(11, 20, 2, 3).name).unlink()
    index(directory)
    assert_holds(directory.path, joined(records))


def test_a_missing_segment_amid_others_is_an_error(tmp_path: Path) -> None:
    directory = make(tmp_path)
    for k in range(3):
        display(directory, k)
    (directory.parts / Segment(11, 20, 2, 3).name).unlink()
    with pytest.raises(StorageError, match="segment of steps 11 to 20 is missing"):
        index(directory)
    for lo, hi in ((0, 2), (3, 5)):
        (directory.parts / Segment(11, 20, lo, hi).name).unlink()
    with pytest.raises(StorageError, match="one ends at step 10, the next starts at step 21"):
        index(directory)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("params", ['{"run": {"start_from": "other"}}', "{", "[]"])
def test_a_run_that_may_have_started_from_another_lacks_no_steps_before_its_first(
    tmp_path: Path, params: str
) -> None:
    directory = make(tmp_path)
    records = [r for k in (1, 2) for r in display(directory, k)]
    directory.resolved.write_text(params)
    index(directory)
    repair(directory)
    assert_holds(directory.path, joined(records))
    with results.open(directory.path) as run:
        assert run.gaps == []


def test_a_lost_segment_of_a_rank_leaves_a_gap_that_merging_never_closes(tmp_path: Path) -> None:
    directory = make(tmp_path)
    records = [display(directory, k) for k in range(8)]
    index(directory)
    (directory.parts / Segment(31, 40, 2, 3).name).unlink()
    repair(directory)
    kept = [r for k in (0, 1, 2, 4, 5, 6, 7) for r in records[k]]
    assert_holds(directory.path, joined(kept))
    index(directory, limit=1)
    merged = {(s.first, s.last) for s in all_segments(directory) if s.merged}
    assert merged == {(0, 30), (41, 80)}
    assert_holds(directory.path, joined(kept))
    assert_holds(merge(directory.path, tmp_path / "merged.h5"), joined(kept))
    with results.open(directory.path) as run:
        assert run.gaps == [(31, 40)]


@pytest.mark.long
def test_a_kill_at_any_point_of_a_repair_loses_nothing_more(tmp_path: Path) -> None:
    def damaged(directory: RunDirectory) -> list[list[Record]]:
        records = four_displays(directory)
        for lo, hi in UNEVEN:
            (directory.parts / Segment(11, 20, lo, hi).name).unlink()
        return records

    for directory, records in killed_everywhere(tmp_path, damaged, repair, 4):
        directory.clean()
        repair(directory)
        assert_holds(directory.path, joined(records[0] + records[2] + records[3]))
        assert {state.state for state in file_states(directory)} == {"whole", "lost"}


def test_ranks_that_recorded_different_steps_are_an_error(tmp_path: Path) -> None:
    directory = make(tmp_path)
    for rank, steps in enumerate(([1, 2], [1, 3], [1, 2])):
        lo, hi = UNEVEN[rank]
        mine = Record(ENERGY, np.array(steps), np.zeros((2, hi - lo)))
        write_segment(directory, [mine], rank, 0, 10, lo, hi)
    with pytest.raises(StorageError, match="different steps"):
        index(directory)


def test_resuming_drops_what_was_recorded_after_the_checkpoint(tmp_path: Path) -> None:
    directory = make(tmp_path)
    records = four_displays(directory)
    with pytest.raises(StorageError, match="extends beyond step 15"):
        drop_after(directory, 15)
    index(directory, until=20)
    assert_holds(directory.path, joined(records[0] + records[1]))
    drop_after(directory, 20)
    assert_holds(directory.path, joined(records[0] + records[1]))
    again = display(directory, 2, [(0, 1), (1, 5)])
    index(directory)
    assert_holds(directory.path, joined(records[0] + records[1] + again))


def test_large_items_are_split_into_chunks_and_still_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("petabatch.storage.segment._CHUNK_LIMIT", 1000)
    directory = make(tmp_path)
    everything = [r for k in range(3) for r in display(directory, k)]
    index(directory, limit=1)
    assert_holds(directory.path, joined(everything))
    with h5py.File(directory.parts / Segment(0, 30).name) as file:
        assert file[POTENTIAL.path]["values"].chunks == (1, 1, 1, 2, 100)


@pytest.mark.long
def test_a_kill_at_any_point_of_dropping_leaves_a_readable_run(tmp_path: Path) -> None:
    def rewind(directory: RunDirectory) -> None:
        index(directory, until=20)
        drop_after(directory, 20)

    for directory, records in killed_everywhere(tmp_path, four_displays, rewind, 6):
        with results.open(directory.path) as run:
            kept = run.steps_reached // 10
        assert_holds(directory.path, joined([r for flushed in records[:kept] for r in flushed]))
        directory.clean()
        rewind(directory)
        assert_holds(directory.path, joined(records[0] + records[1]))


@pytest.mark.parametrize("initial", [False, True])
def test_resuming_from_step_0_records_it_again(tmp_path: Path, initial: bool) -> None:
    directory = make(tmp_path)
    if initial:  # a segment of step 0 alone
        flush(directory, [record(WEIGHTS, [0], 0)], 0, 0)
        flush(directory, [record(CODE, [10], 0)], 1, 10)
    else:
        display(directory, 0)
    index(directory)
    index(directory, until=0)
    drop_after(directory, 0)
    assert not any(directory.parts.iterdir())
    again = display(directory, 0)
    index(directory)
    assert_holds(directory.path, joined(again))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fan", [3, 32])  # fewer and more than the segments between checkpoints, 20
def test_segments_stay_few_and_never_cross_a_checkpoint(
    fan: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "_FAN", fan)
    directory = make(tmp_path)
    everything: list[Record] = []
    for k in range(60):
        everything += display(directory, k, [(0, B)])
        index(directory, limit=20)
        if k % 20 == 19:
            save_checkpoint(directory, 10 * k + 10, {"a": np.zeros(1)}, (), {}, lo=0, hi=B, batch=B)
        segments = [Segment.parse(p.name) for p in directory.parts.iterdir()]
        assert len(segments) <= 20
    assert_holds(directory.path, joined(everything))
    steps = sorted((s.first, s.last) for s in segments if s)
    for checkpoint in (400, 600):  # the two kept
        assert not any(first <= checkpoint < last for first, last in steps)
    index(directory, until=400)
    drop_after(directory, 400)
    assert_holds(directory.path, joined(everything[: 4 * 40]))


def test_a_flush_merges_a_few_segments_and_never_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, merged = make(tmp_path), [0]
    real = compact._merge_rows

    def counted(directory: RunDirectory, rows: Any, *rest: Any) -> None:
        merged[-1] += sum(row.flushes for row in rows)
        real(directory, rows, *rest)

    monkeypatch.setattr(compact, "_merge_rows", counted)
    monkeypatch.setattr(compact, "_FAN", 16)
    for k in range(90):
        merged.append(0)
        display(directory, k, [(0, B)])
        index(directory, limit=40)
        assert len(list(directory.parts.iterdir())) <= 40
    assert max(merged) == 16
    assert sum(merged) == 64  # each value once so far


@pytest.mark.parametrize("every", [5, 50, 75])
def test_compaction_copies_little_however_many_flushes_are_between_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """What is left over between two checkpoints, too little to be merged by itself, must not add up."""
    directory, rows, copied, flushes = make(tmp_path), list[Row](), list[int](), 6000

    def merge_rows(directory: RunDirectory, few: list[Row], *rest: Any) -> None:
        copied.append(sum(row.flushes for row in few))
        merged = Segment(few[0].first, few[-1].last)
        at = rows.index(few[0])
        rows[at : at + len(few)] = [Row(merged.first, merged.last, (merged,), (Summary(copied[-1], {}),))]

    monkeypatch.setattr(compact, "_merge_rows", merge_rows)
    monkeypatch.setattr(compact, "find_rows", lambda *_: (list(rows), []))
    monkeypatch.setattr(compact, "checkpoint_steps", lambda _: saved[-2:])
    saved: list[int] = []
    for k in range(flushes):
        rows.append(Row(k, k, (Segment(k, k, 0, B),), (Summary(1, {}),)))
        if k % every == every - 1:
            saved.append(k)
        if len(rows) > compact.LIMIT:
            compact.compact(directory, STREAMS, B)
            assert len(rows) <= compact.LIMIT
    assert sum(copied) <= 3 * flushes
    assert len(copied) <= flushes / 31


# -- kills, full disks, missing files


def test_the_removal_of_old_segments_does_not_put_the_next_index_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or there would be more to remove at the next one, which would put off the one after it even longer."""
    directory, now = make(tmp_path), 0.0
    for k in range(20):
        display(directory, k, [(0, B)])

    def taking(seconds: float, work: Callable[..., None]) -> Callable[..., None]:
        def slow(*arguments: object) -> None:
            nonlocal now
            now += seconds
            work(*arguments)

        return slow

    monkeypatch.setattr(run_index, "compact", taking(100, run_index.compact))
    monkeypatch.setattr(run_index, "_remove", taking(200, run_index._remove))
    monkeypatch.setattr(run_index, "lay_out", taking(3, run_index.lay_out))
    monkeypatch.setattr(run_index, "time", SimpleNamespace(monotonic=lambda: now))
    assert write_index(directory, described(STREAMS), limit=4) == 3
    assert now == 303
    assert len(all_segments(directory)) <= 4


@pytest.mark.long
def test_a_kill_at_any_point_of_merging_leaves_a_readable_run(tmp_path: Path) -> None:
    def flushed(directory: RunDirectory) -> tuple[list[Record], list[Record]]:
        old = display(directory, 0) + display(directory, 1)
        index(directory)
        return old, old + display(directory, 2)

    def merging(directory: RunDirectory) -> None:
        index(directory, limit=4)

    # two files renamed and nine removed at least
    for directory, (old, new) in killed_everywhere(tmp_path, flushed, merging, 10):
        with results.open(directory.path) as run:
            reached = run.steps_reached
        assert_holds(directory.path, joined(new if reached == 30 else old))
        directory.clean()
        assert not list(directory.path.rglob(".*.tmp"))
        last = new + display(directory, 3)
        merging(directory)
        assert_holds(directory.path, joined(last))
        assert len(list(directory.parts.iterdir())) <= 4


@pytest.mark.long
def test_a_full_disk_at_any_write_is_an_error_that_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = make(tmp_path)
    old = display(directory, 0) + display(directory, 1)
    index(directory)
    before = sorted(p.name for p in directory.path.rglob("*"))
    real = os.pwrite
    for work in (lambda: display(directory, 2), lambda: index(directory, limit=3)):
        number, failed = 0, True
        while failed:
            count = iter(range(10**6))

            def full(*arguments: object, count: Iterator[int] = count, number: int = number) -> int:
                if next(count) >= number:
                    raise OSError(28, "No space left on device")
                return real(*arguments)  # type: ignore[arg-type]

            with monkeypatch.context() as patch:
                patch.setattr(os, "pwrite", full)
                message = ""
                try:
                    work()
                except StorageError as error:
                    message = str(error)
            failed = bool(message)
            wanted = (r"No space left on device", r"at least [\d,]+ bytes needed", r"[\d,]+ bytes free")
            assert not failed or all(re.search(part, message) for part in wanted)
            number += 1 + number // 8
            assert not list(directory.path.rglob(".*.tmp"))
            if failed:
                left = sorted(p.name for p in directory.path.rglob("*") if "000021" not in p.name)
                assert set(before) <= set(left)
                assert_holds(directory.path, joined(old))
        assert number > 5
    with results.open(directory.path) as run:
        assert run.steps_reached == 30


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[None]:
    """Mount a file system of the given size, or skip the test where that is not allowed."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount command")
def test_a_really_full_disk_ends_in_an_error_not_a_crash(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "600k"):
        directory = make(tmp_path / "disk")
        everything: list[Record] = []
        written: list[Record] = []

        def fill() -> None:
            for k in range(99):
                records = display(directory, k)
                written.extend(records)
                index(directory, limit=30)
                everything.extend(records)

        with pytest.raises(StorageError, match="No space left on device") as error:
            fill()
        assert everything
        assert "bytes free" in str(error.value)
        assert not list(directory.path.rglob(".*.tmp"))
        assert_holds(directory.path, joined(everything))
        with pytest.raises(StorageError, match="No space left"):
            merge(directory.path, tmp_path / "disk" / "plain.h5")
        assert_holds(merge(directory.path, tmp_path / "plain.h5"), joined(written))


def test_a_folder_that_has_gone_is_named(tmp_path: Path) -> None:
    directory = make(tmp_path)
    shutil.rmtree(directory.parts)
    with pytest.raises(StorageError, match=r"parts/.*No such file"):
        display(directory, 0)


def test_a_missing_segment_is_an_error_not_fill_values(tmp_path: Path) -> None:
    directory = make(tmp_path)
    display(directory, 0)
    index(directory)
    segment = directory.parts / Segment(0, 10, 2, 3).name
    with results.open(directory.path) as run:
        code = run.layer("V1")
        segment.unlink()
        for read in (lambda: code[0, 0], lambda: code[...], lambda: run.codes("V1"), run.to_xarray):
            with pytest.raises(StorageError, match=segment.name):
                read()
        assert len(run.weights("D")[...]) == 2  # rank 0's segment is still there
    with h5py.File(directory.run_file) as file:  # other tools see NaN
        assert np.isnan(file[CODE.path][0, 2]).all()
        assert not np.isnan(file[CODE.path][0, 1]).any()
    with pytest.raises(StorageError, match=f"{segment.name}: this file is missing"):
        merge(directory.path, tmp_path / "plain.h5")


def test_a_reader_keeps_what_it_opened_while_the_run_continues(tmp_path: Path) -> None:
    directory = make(tmp_path)
    first = joined(display(directory, 0))
    index(directory)
    with results.open(directory.path) as early:
        display(directory, 1)
        index(directory)
        np.testing.assert_array_equal(early.layer("V1")[...], first[CODE.path][1])
        with results.open(directory.run_file) as late:
            assert len(late.layer("V1")) == 2


def test_merging_takes_no_more_memory_for_a_longer_run(tmp_path: Path) -> None:
    wide = Stream("layers/V1/V", (2, 1000), ("batch", "feature"), "float32", True)
    directory = RunDirectory.create(tmp_path / "run", "")
    for k in range(4):
        steps = np.arange(1000 * k, 1000 * k + 1000)
        write_segment(
            directory,
            [Record(wide, steps, np.ones((1000, 2, 1000), "float32"))],
            0,
            steps[0],
            steps[-1],
            0,
            2,
        )
    tracemalloc.start()
    try:
        write_index(directory, described([wide], 2), limit=1)
        merge(directory.path, tmp_path / "plain.h5")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "plain.h5").stat().st_size > 32e6 * 0.1
    assert peak < 12e6  # a few blocks of 2 MiB; the run holds 32 MB


# -- reading back


def test_results_know_layers_weights_probes_and_codes(tmp_path: Path) -> None:
    directory = make(tmp_path)
    expected = joined(display(directory, 0) + display(directory, 1))
    index(directory, status="stopped")
    with results.open(directory.path) as run:
        assert (run.status, run.steps_reached, run.batch, run.params) == ("stopped", 20, B, {"a": 1})
        assert run.attributes["seed"] == 3
        assert run.layer("V1", "V").units == "mV"
        assert run.probe("energy")["total"].dims == ("step", "batch")
        np.testing.assert_array_equal(run["connections/D/weights"].steps, [0, 10, 20])
        np.testing.assert_array_equal(np.asarray(run.weights("D")), expected[WEIGHTS.path][1])
        code = run.codes("V1", time=0, slice=4)
        assert code.shape == (12, 40)
        np.testing.assert_array_equal(code.toarray(), expected[CODE.path][1][0, 4].reshape(12, 40))
        assert code.nnz == np.count_nonzero(expected[CODE.path][1][0, 4])
        for bad in (
            lambda: run.codes("V1", time=2),
            lambda: run.codes("V1", slice=5),
            lambda: run.layer("V1")[2],
        ):
            with pytest.raises(IndexError):
                bad()


def test_names_that_were_not_recorded_get_a_suggestion(tmp_path: Path) -> None:
    directory = make(tmp_path)
    display(directory, 0)
    index(directory)
    with results.open(directory.path) as run:
        for ask, hint in (
            (lambda: run.layer("V2"), "did you mean V1"),
            (lambda: run.layer("V1", "a"), "expected: A, V"),
            (lambda: run.probe("enrgy"), "did you mean energy"),
            (lambda: run.weights("dict"), "no connection named dict"),
            (lambda: run["layer/V1/A"].steps, "did you mean layers/V1/A"),
        ):
            with pytest.raises(results.UnknownName, match=hint):
                ask()
            with pytest.raises(KeyError):
                ask()


def test_the_blas_of_other_packages_is_none_of_the_run() -> None:
    import scipy.linalg  # noqa: F401  # which brings one along where it was installed as a wheel

    assert len(provenance.blas_libraries()) == 1


def test_provenance_says_where_a_run_comes_from(tmp_path: Path) -> None:
    found = provenance.collect(
        params_text="x = 1",
        params={"x": 1},
        seed=7,
        ranks=2,
        hosts=["a", "b"],
        command=["petabatch", "run", "a b"],
    )
    assert found["command"] == "petabatch run 'a b'"
    assert found["libraries"]["numpy"] == np.__version__  # type: ignore[index]
    assert found["blas"]
    assert provenance.git_hash(tmp_path) is None
    directory = make(tmp_path)
    write_index(directory, Description((), found, B, "running"))
    with results.open(directory.path) as run:
        attributes = run.attributes
    assert attributes["hosts"] == ["a", "b"]
    assert attributes["params_given"] == "x = 1"
    assert {"petabatch_version", "started", "updated", "seed", "ranks", "devices"} <= set(attributes)
    assert "resumed" not in attributes


def test_git_hash_is_the_commit_marked_when_changed(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    assert provenance.git_hash(tmp_path) is None
    (tmp_path / "a.py").write_text("1")
    git("add", "a.py")
    git("commit", "-qm", "m")
    commit = git("rev-parse", "HEAD")
    assert provenance.git_hash(tmp_path) == commit
    (tmp_path / "a.py").write_text("2")
    assert provenance.git_hash(tmp_path) == f"{commit}+"
    (tmp_path / "venv").mkdir()
    assert provenance.git_hash(tmp_path / "venv") is None  # installed inside a checkout, but not part of it
