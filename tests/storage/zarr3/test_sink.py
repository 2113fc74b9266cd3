"""The sink in Zarr, without a run: chunks, commits, kills at every change of the disk, full disks, damage."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import xarray
from storage.test_storage import small_disk

from petabatch import results
from petabatch.engine.recorder import Record
from petabatch.errors import DamagedError, StorageError
from petabatch.parallel.comm import Serial
from petabatch.report.integrity import verify
from petabatch.storage.description import Description, Status
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import OUTPUTS
from petabatch.storage.rows import all_segments, find_rows
from petabatch.storage.sink import Share
from petabatch.storage.zarr3.chunks import chunk_shape
from petabatch.storage.zarr3.sink import Chunks
from petabatch.variable import Stream
from support.processes import killed_at

B = 5
CODE = Stream("layers/V1/A", (B, 4, 3), ("batch", "y", "feature"), "float32", True, sparse=True)
ENERGY = Stream("probes/energy/total", (B,), ("batch",), "float64", True, units="mV")
WEIGHTS = Stream("connections/dictionary/weights", (3, 2), ("py", "px"), "float32", False)
TIME = Stream("spikes/exc/time", (), (), "float64", False, events=True)
UNIT = Stream("spikes/exc/unit", (), (), "int32", False, events=True)
STREAMS = (CODE, ENERGY, WEIGHTS, TIME, UNIT)
CHUNKS = {
    CODE.path: (3, 2, 4, 3),
    ENERGY.path: (8, B),
    WEIGHTS.path: (1, 3, 2),
    TIME.path: (7,),
    UNIT.path: (7,),
}
"""So small that flushes end inside of chunks, and chunks of codes have two slices."""


class Run(NamedTuple):
    directory: RunDirectory
    sink: Chunks

    @property
    def step(self) -> int:
        rows, _ = find_rows(self.directory, B)
        return rows[-1].last if rows else 0


def make(folder: Path) -> RunDirectory:
    return RunDirectory.create(folder / "run", "x = 1", folders=OUTPUTS["zarr"].folders)


def opened(directory: RunDirectory) -> Run:
    return Run(directory, Chunks(directory, Share(STREAMS, {}, B, 0, B, Serial()), CHUNKS))


def records(k: int) -> list[Record]:
    """What flush k of 10 steps records: as many energies as there is no whole number of in a chunk."""
    first, last = (10 * k + 1 if k else 0), 10 * k + 10
    steps = {CODE: [last], ENERGY: [*range(10 * k + 1, last + 1)], WEIGHTS: [0, last] if k == 0 else [last]}
    steps |= {TIME: [first + 1, first + 1, last][: k % 4], UNIT: [first + 1, first + 1, last][: k % 4]}
    found = []
    for stream, at in steps.items():
        if at:
            values = np.random.default_rng([k, len(found)]).normal(size=(len(at), *stream.shape)) * 100
            found.append(Record(stream, np.array(at, np.int64), values.astype(stream.dtype)))
    return found


def flush(run: Run, k: int, status: Status = "running") -> None:
    first, last = (10 * k + 1 if k else 0), 10 * k + 10
    run.sink.commit([run.sink.put(run.sink.shared(records(k)), first, last)])
    run.sink.index(described(status))


def described(status: Status = "running") -> Description:
    return Description(STREAMS, {"params": {}, "seed": 3}, B, status)


def assert_holds(directory: RunDirectory, flushes: int) -> None:
    """Assert that a reader sees the records of so many flushes, and no others."""
    with results.open(directory.path) as run:
        assert run.steps_reached == 10 * flushes
        for stream in STREAMS:
            parts = [one for k in range(flushes) for one in records(k) if one.stream == stream]
            expected = [one.values for one in parts] or [np.zeros((0, *stream.shape), stream.dtype)]
            np.testing.assert_array_equal(run[stream.path][...], np.concatenate(expected))
            steps = np.concatenate([np.zeros(0, np.int64), *(one.steps for one in parts)])
            np.testing.assert_array_equal(run[stream.path].steps, steps)


def whole(directory: RunDirectory) -> bool:
    return verify(directory.path, repairing=False)[1]


def test_chunks_are_of_all_slices_where_they_are_small_and_of_single_ones_where_they_are_large() -> None:
    def of(shape: tuple[int, ...], often: int) -> tuple[int, ...]:
        return chunk_shape(Stream("layers/V1/A", shape, (), "float32", True), often)

    assert of((16,), 4000) == (16000, 16)
    assert of((16, 32, 32, 128), 10) == (2, 1, 32, 32, 128)
    assert of((100, 64), 1000) == (1000, 4, 64)
    assert chunk_shape(WEIGHTS, 1) == (2**20 // 24, 3, 2)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_what_is_put_is_read_back_while_it_grows_and_after_it_is_resumed(tmp_path: Path, count: int) -> None:
    directory = make(tmp_path)
    for k in range(count):
        flush(opened(directory), k)
        assert_holds(directory, k + 1)
        assert whole(directory)
        tree = xarray.open_datatree(directory.run_file, engine="zarr")
        assert tree["layers/V1/A"].dims == ("time", "batch", "y", "feature")
        assert tree["probes/energy/total"].sel(step=10 * k + 3).shape == (B,)


def test_whenever_a_reader_opens_it_it_sees_one_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen, real = opened(make(tmp_path)), [], os.replace
    flush(run, 0)

    def looked_at(source: str, target: str) -> None:
        real(source, target)
        tree = xarray.open_datatree(run.directory.run_file, engine="zarr").load()
        assert tree["probes/energy"].sizes["step"] == tree.attrs["steps_reached"]
        with results.open(run.directory.path) as there:
            seen.append(there.steps_reached // 10)
        assert_holds(run.directory, seen[-1])

    monkeypatch.setattr(os, "replace", looked_at)
    flush(run, 1)
    assert seen.count(1) > 20
    assert seen[-1] == 2


def test_a_reader_goes_on_seeing_the_state_that_it_opened(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    flush(run, 0)
    flush(run, 1)
    tree = xarray.open_datatree(run.directory.run_file, engine="zarr")
    for k in range(2, 5):  # chunks that it has not read yet are replaced by longer ones
        flush(run, k)
    expected = np.concatenate([one.values for k in range(2) for one in records(k) if one.stream == ENERGY])
    np.testing.assert_array_equal(tree["probes/energy/total"].values, expected)


def test_arrays_opened_on_their_own_and_groups_agree_with_the_whole(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    for k in range(3):
        flush(run, k)
    zarr = pytest.importorskip("zarr")
    lone = zarr.open_array(run.directory.run_file / "layers/V1/A", mode="r")
    assert lone.metadata.dimension_names == ("time", "batch", "y", "feature")
    with results.open(run.directory.path) as there:
        np.testing.assert_array_equal(lone[...], there["layers/V1/A"][...])
    group = xarray.open_zarr(run.directory.run_file, group="probes/energy")
    assert group.total.attrs["units"] == "mV"
    assert group.step.values.tolist() == [*range(1, 31)]


def test_a_resumed_run_drops_later_commits_and_their_chunks(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    for k in range(6):
        flush(run, k)
    run.sink.index(described(), until=20)
    run.sink.drop_after(20)
    assert_holds(run.directory, 2)
    assert whole(run.directory)
    assert not (run.directory.run_file / "layers/V1/A/c/1").exists()
    for k in range(2, 6):
        flush(run, k)
    assert_holds(run.directory, 6)
    assert whole(run.directory)
    run.sink.index(described(), until=0)
    run.sink.drop_after(0)
    assert not list(run.directory.run_file.glob("*/*/*/c/*/*"))
    assert not all_segments(run.directory)


def test_a_kill_at_any_change_of_the_disk_loses_what_was_not_committed_and_nothing_else(
    tmp_path: Path,
) -> None:
    def go_on(directory: RunDirectory) -> int:
        """Resume a killed run, and return how many flushes were committed."""
        run = opened(directory)
        step = run.step
        run.sink.index(described(), until=step)
        run.sink.drop_after(step)
        for k in range(step // 10, 4):
            flush(run, k)
        return step // 10

    original = make(tmp_path)
    for k in range(2):
        flush(opened(original), k)
    committed = set()
    number, died = 0, True
    while died:
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        shutil.copytree(original.path, tmp_path / "cut")
        directory = RunDirectory.open(tmp_path / "cut")
        died = killed_at(number, lambda directory=directory: flush(opened(directory), 2))  # type: ignore[misc]
        assert whole(directory), verify(directory.path, repairing=False)[0]
        with results.open(directory.path) as there:
            seen = there.steps_reached // 10
        assert_holds(directory, seen)
        # a second kill, while it is resumed
        killed_at(number // 2, lambda directory=directory: go_on(directory) and None)  # type: ignore[misc]
        assert whole(directory), verify(directory.path, repairing=False)[0]
        done = go_on(directory)
        assert seen <= done
        committed.add(done)
        assert_holds(directory, 4)
        assert whole(directory)
        assert not list(directory.path.rglob(".*.tmp"))
        number += 1 + number // 6
    assert committed >= {2, 3}


def test_a_full_disk_at_any_file_is_an_error_that_leaves_what_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = make(tmp_path)
    for k in range(2):
        flush(opened(original), k)
    number, failed, real = 0, True, os.fsync
    while failed:
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        shutil.copytree(original.path, tmp_path / "cut")
        directory, left = RunDirectory.open(tmp_path / "cut"), number

        def full(descriptor: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(28, "No space left on device")
            real(descriptor)

        said = ""
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            try:
                flush(opened(directory), 2)
            except StorageError as error:
                said = str(error)
        failed = bool(said)
        assert not failed or ("No space left on device" in said and "bytes free" in said)
        assert not list(directory.path.rglob(".*.tmp"))
        assert whole(directory)
        with results.open(directory.path) as there:
            reached = there.steps_reached // 10
        assert reached == 2 if failed else reached == 3
        assert_holds(directory, reached)
        number += 1 + number // 6
    assert number > 10


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount command")
def test_a_really_full_disk_leaves_what_was_committed(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "700k"):
        run = opened(make(tmp_path / "disk"))
        k = 0

        def fill() -> None:
            nonlocal k
            while k < 999:
                flush(run, k)
                k += 1

        with pytest.raises(StorageError, match="No space left on device"):
            fill()
        assert k > 2
        assert whole(run.directory)
        with results.open(run.directory.path) as there:
            reached = there.steps_reached // 10
        assert reached in (k, k + 1)
        assert_holds(run.directory, reached)


def flipped(data: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << dice.randrange(8))]) + data[place + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        flipped,
        lambda data, dice: data[: dice.randrange(len(data))],
        lambda data, dice: data + b"\0",
        lambda data, dice: None,
    ],
    ids=["a bit flipped", "cut", "longer", "deleted"],
)
def test_every_damaged_file_is_found_and_named(
    tmp_path: Path, damage: Callable[[bytes, random.Random], bytes | None]
) -> None:
    run = opened(make(tmp_path))
    for k in range(5):
        flush(run, k)
    dice = random.Random(1)
    files = [path for path in run.directory.run_file.rglob("*") if path.is_file()]
    for path in (*files, *run.directory.parts.iterdir()):
        data = path.read_bytes()
        new = damage(data, dice)
        path.unlink() if new is None else path.write_bytes(new)
        text, sound = verify(run.directory.path, repairing=False)
        assert not sound, path
        assert str(path) in text
        path.write_bytes(data)
    assert whole(run.directory)


def test_a_chunk_of_another_place_or_time_is_found(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    for k in range(4):
        flush(run, k)
    before = {
        path: path.read_bytes() for path in run.directory.run_file.glob("*/*/*/c/**/*") if path.is_file()
    }
    for k in range(4, 6):
        flush(run, k)
    code = run.directory.run_file / "layers/V1/A/c"
    swapped = {code / "0/0/0/0": code / "0/1/0/0", code / "1/0/0/0": code / "0/0/0/0"}
    for one, other in swapped.items():
        data = one.read_bytes()
        one.write_bytes(other.read_bytes())
        assert not whole(run.directory)
        one.write_bytes(data)
    earlier = [path for path, data in before.items() if path.read_bytes() != data]
    assert earlier
    for path in earlier:
        data = path.read_bytes()
        path.write_bytes(before[path])
        assert not whole(run.directory), path
        path.write_bytes(data)
    assert whole(run.directory)


def test_a_reader_refuses_missing_and_damaged_chunks(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    for k in range(4):
        flush(run, k)
    path = run.directory.run_file / "layers/V1/A/c/0/1/0/0"
    data = path.read_bytes()
    for new in (None, flipped(data, random.Random(2)), data[:5]):
        path.unlink() if new is None else path.write_bytes(new)
        with results.open(run.directory.path) as there:
            assert there["layers/V1/A"][-1].shape == CODE.shape  # another chunk
            with pytest.raises(DamagedError, match="petabatch verify"):
                there["layers/V1/A"][0]
            with pytest.raises(DamagedError):
                there["layers/V1/A"].at(step=10, slice=3)
        path.write_bytes(data)


def test_damaged_metadata_is_rebuilt(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    for k in range(4):
        flush(run, k)
    for name in ("zarr.json", "layers/V1/A/zarr.json", "probes/energy/step/c/0", "layers/V1/zarr.json"):
        path = run.directory.run_file / name
        path.write_bytes(flipped(path.read_bytes(), random.Random(3)))
        text, sound = verify(run.directory.path, repairing=True)
        assert sound, text
        assert "rebuilt" in text
        assert_holds(run.directory, 4)


@pytest.mark.parametrize("up", ["..", "layers/../../.."])
def test_no_file_outside_of_a_store_is_removed_whatever_its_description_names(
    tmp_path: Path, up: str
) -> None:
    run = opened(make(tmp_path))
    flush(run, 0)
    other = tmp_path / "other"
    other.write_text("kept", "utf-8")
    for name in (str(other), f"{up}/../other"):
        described().save(run.directory, metadata={name: [0]})
        with pytest.raises(StorageError, match="names a file elsewhere"):
            flush(run, 1)
        assert not verify(run.directory.path, repairing=False)[1]
    assert other.read_text("utf-8") == "kept"


def test_a_store_without_its_index_says_so(tmp_path: Path) -> None:
    directory = make(tmp_path)
    with pytest.raises(DamagedError, match=r"run\.zarr/zarr\.json: this file is missing"):
        results.open(directory.path)


def test_damaged_values_are_not_given_up(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    for k in range(4):
        flush(run, k)
    (run.directory.run_file / "layers/V1/A/c/0/0/0/0").unlink()
    text, sound = verify(run.directory.path, repairing=True)
    assert not sound
    assert "restore the files from a copy" in text


def test_damaged_metadata_are_rebuilt_beside_damaged_values(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    for k in range(4):
        flush(run, k)
    (run.directory.run_file / "layers/V1/A/c/0/0/0/0").unlink()
    (run.directory.run_file / "zarr.json").write_bytes(b"{}")
    text, sound = verify(run.directory.path, repairing=True)
    assert not sound
    assert "rebuilt            run.zarr/zarr.json" in text
    assert "--repair" not in text
    with results.open(run.directory.path) as there:
        assert there["probes/energy/total"].shape == (40, B)


def test_metadata_that_cannot_be_rebuilt_are_not_said_to_be(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    for k in range(4):
        flush(run, k)
    path = run.directory.path / all_segments(run.directory)[1].path
    path.write_bytes(flipped(path.read_bytes(), random.Random(3)))
    (run.directory.run_file / "zarr.json").write_bytes(b"{}")
    for repairing in (False, True):
        text, sound = verify(run.directory.path, repairing)
        assert not sound
        assert "when the damaged segments are restored from a copy" in text
        assert "--repair" not in text


def test_a_store_that_was_removed_is_the_one_that_is_missing(tmp_path: Path) -> None:
    resolved = {"output": {"format": "zarr"}}
    directory = RunDirectory.create(tmp_path / "run", "", resolved=resolved, folders=OUTPUTS["zarr"].folders)
    flush(opened(directory), 0)
    shutil.rmtree(directory.run_file)
    with pytest.raises(DamagedError, match=r"run\.zarr/zarr\.json: this file is missing") as raised:
        results.open(directory.path)
    assert "run.h5" not in str(raised.value)
    assert "restore run.zarr/ from a copy" in str(raised.value)


def test_a_flush_that_lacks_chunks_of_a_rank_is_not_committed(tmp_path: Path) -> None:
    run = opened(make(tmp_path))
    flush(run, 0)
    part = run.sink.put(run.sink.shared(records(1)), 11, 20)
    del part.blocks[CODE.path][1]
    with pytest.raises(StorageError, match="does not cover the batch"):
        run.sink.commit([part])
    assert_holds(run.directory, 1)


def test_many_commits_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from petabatch.storage import compact, index

    monkeypatch.setattr(compact, "_FAN", 3)
    real = compact.compact

    def few(directory: RunDirectory, streams: Sequence[Stream], batch: int, limit: float) -> None:
        real(directory, streams, batch, 4)

    monkeypatch.setattr(index, "compact", few)
    run = opened(make(tmp_path))
    for k in range(20):
        flush(run, k)
        assert len(all_segments(run.directory)) <= 6
    assert_holds(run.directory, 20)
    assert whole(run.directory)
    flush(opened(run.directory), 20)
    assert_holds(run.directory, 21)
    assert whole(run.directory)
    assert all(segment.suffix == ".json" for segment in all_segments(run.directory))
