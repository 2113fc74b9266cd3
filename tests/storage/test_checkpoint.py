"""Checkpoints: exact, complete or not there, on any number of ranks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petabatch.errors import FormatError, StorageError
from petabatch.storage.checkpoint import checkpoint_steps, latest_checkpoint, load_checkpoint, save_checkpoint
from petabatch.storage.checkpoint_part import Part
from petabatch.storage.directory import RunDirectory
from petabatch.storage.index import drop_after
from support.processes import killed_at

B = 5
UNEVEN = ((0, 1), (1, 4), (4, 4), (4, 5))
BATCHED = {"layers/V1/V", "layers/V1/A"}


def state(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "layers/V1/V": rng.standard_normal((B, 3, 4)).astype("float32"),
        "layers/V1/A": rng.standard_normal((B, 6)),
        "connections/D/weights": rng.standard_normal((2, 7)).astype("float32"),
        "connections/D/updates": np.asarray(seed, np.int64),
    }


def save(
    directory: RunDirectory,
    step: int,
    arrays: Mapping[str, np.ndarray],
    shares: Sequence[tuple[int, int]] = UNEVEN,
    batched: set[str] = BATCHED,
    batch: int = B,
    keep: int = 2,
) -> None:
    """Save as the ranks would, one after the other, rank 0 last."""
    parts: dict[int, Part] = {}

    def gather(rank: int, part: Part) -> list[Part] | None:
        parts[rank] = part
        return None if rank else [parts[rank] for rank in sorted(parts)]

    for rank in reversed(range(len(shares))):
        lo, hi = shares[rank]
        mine = {name: array[lo:hi] if name in batched else array for name, array in arrays.items()}
        options = {"lo": lo, "hi": hi, "batch": batch, "rank": rank, "keep": keep}
        save_checkpoint(
            directory, step, mine, batched, {"step": step}, gather=partial(gather, rank), **options
        )


def assert_same_bits(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def make(tmp_path: Path, name: str = "run") -> RunDirectory:
    return RunDirectory.create(tmp_path / name, "")


def part_files(directory: RunDirectory, step: int) -> list[Path]:
    return sorted(directory.checkpoints.glob(f"step_{step:09d}_rank_*"))


@st.composite
def states(draw: st.DrawFn) -> tuple[int, dict[str, np.ndarray], set[str]]:
    """Arrays of random bits, NaNs with payloads among them."""
    batch = draw(st.integers(1, 6))
    arrays, batched = {}, set()
    for number in range(draw(st.integers(0, 4))):
        shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
        name = f"layers/L{number}/x"
        if draw(st.booleans()):
            batched.add(name)
            shape = (batch, *shape)
        dtype = np.dtype(draw(st.sampled_from(["float32", "float64", "int64", "uint8", "bool"])))
        size = int(np.prod(shape)) * dtype.itemsize
        bits = draw(st.binary(min_size=size, max_size=size))
        bits = bytes(b & 1 for b in bits) if dtype.kind == "b" else bits
        arrays[name] = np.frombuffer(bits, dtype).reshape(shape)
    return batch, arrays, batched


def cuts(batch: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    ends = st.lists(st.integers(0, batch), max_size=3).map(sorted)
    return ends.map(lambda ends: list(zip([0, *ends], [*ends, batch], strict=True)))


@settings(max_examples=40, deadline=None)
@given(states(), st.data())
def test_every_bit_comes_back_on_another_number_of_ranks(
    given_state: tuple[int, dict[str, np.ndarray], set[str]], data: st.DataObject
) -> None:
    batch, arrays, batched = given_state
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory.create(f"{folder}/run", "")
        save(directory, 7, arrays, data.draw(cuts(batch)), batched, batch)
        path = latest_checkpoint(directory)
        assert path is not None
        for lo, hi in data.draw(cuts(batch)):
            found, meta = load_checkpoint(path, lo, hi)
            expected = {n: a[lo:hi] if n in batched else a for n, a in arrays.items()}
            assert_same_bits(found, expected)
            assert all(array.flags.writeable for array in found.values())
            assert meta == {"step": 7}


def test_nan_payloads_and_signed_zeros_survive(tmp_path: Path) -> None:
    bits = np.array([0x7FC00001, 0x7F800001, 0xFFC12345, 0x80000000], np.uint32)
    arrays = {
        "layers/L/V": bits.view(np.float32)[None].repeat(2, 0),
        "connections/c/w": bits.view(np.float32),
    }
    directory = make(tmp_path)
    save(directory, 1, arrays, [(0, 1), (1, 2)], {"layers/L/V"}, 2)
    found, _ = load_checkpoint(directory.checkpoints / "step_000000001.h5", 0, 2)
    assert_same_bits(found, arrays)


def test_the_newest_ones_are_kept(tmp_path: Path) -> None:
    directory = make(tmp_path)
    assert latest_checkpoint(directory) is None
    for step in (10, 20, 30, 40):
        save(directory, step, state(step), keep=3)
    assert checkpoint_steps(directory) == [20, 30, 40]
    assert not part_files(directory, 10)
    save(directory, 50, state(50), keep=1)
    assert checkpoint_steps(directory) == [50]
    assert len(list(directory.checkpoints.iterdir())) == 1 + len(UNEVEN)


def test_saving_a_step_again_replaces_it_whatever_the_ranks(tmp_path: Path) -> None:
    directory = make(tmp_path)
    for arrays, shares in ((state(1), UNEVEN), (state(1), UNEVEN), (state(2), [(0, B)])):
        save(directory, 10, arrays, shares)
        found, _ = load_checkpoint(directory.checkpoints / "step_000000010.h5", 0, B)
        assert_same_bits(found, arrays)
        assert len(part_files(directory, 10)) == len(shares)


def test_a_checkpoint_that_not_all_ranks_finished_is_none(tmp_path: Path) -> None:
    directory = make(tmp_path)
    save(directory, 10, state(1))
    for rank in (1, 2):  # rank 0 was killed before it had all parts
        lo, hi = UNEVEN[rank]
        mine = {name: a[lo:hi] if name in BATCHED else a for name, a in state(2).items()}
        save_checkpoint(
            directory, 20, mine, BATCHED, {}, lo=lo, hi=hi, batch=B, rank=rank, gather=lambda part: None
        )
    latest = latest_checkpoint(directory)
    assert latest is not None
    assert latest.name == "step_000000010.h5"
    save(directory, 10, state(1))  # another rank may already be writing step 20
    assert len(part_files(directory, 20)) == 2
    save(directory, 30, state(3))
    assert checkpoint_steps(directory) == [10, 30]
    assert not part_files(directory, 20)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rank", [0, 1, 3, None])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_checkpoint_is_skipped_for_the_previous_one(
    tmp_path: Path, rank: int | None, damage: str
) -> None:
    directory = make(tmp_path)
    for step in (10, 20):
        save(directory, step, state(step))
    head = directory.checkpoints / "step_000000020.h5"
    victim = head if rank is None else part_files(directory, 20)[rank]
    if rank is None and damage == "flip":
        victim.write_bytes(b"not hdf5" + victim.read_bytes()[8:])
    else:
        work: dict[str, Callable[[Path], object]] = {
            "cut": lambda path: os.truncate(path, path.stat().st_size - 1),
            "flip": flip,
            "gone": Path.unlink,
        }
        work[damage](victim)
    with pytest.raises(StorageError, match=victim.name):
        load_checkpoint(head, 0, B)
    latest = latest_checkpoint(directory)
    assert latest is not None
    assert_same_bits(load_checkpoint(latest, 0, B)[0], state(10))
    save(directory, 30, state(30))
    # damage that keeps the size is detected on reading, not when old checkpoints are removed
    kept = 20 if damage == "flip" and rank is not None else 10
    assert checkpoint_steps(directory) == [kept, 30]


def test_parts_that_do_not_cover_the_batch_are_refused(tmp_path: Path) -> None:
    directory = make(tmp_path)
    with pytest.raises(StorageError, match="do not cover the batch once"):
        save(directory, 10, state(1), [(0, 2), (3, B)])
    assert latest_checkpoint(directory) is None


def test_misuse_is_an_error(tmp_path: Path) -> None:
    directory = make(tmp_path)
    with pytest.raises(StorageError, match="no array layers/V2/V"):
        save_checkpoint(directory, 1, state(1), {"layers/V2/V"}, {}, lo=0, hi=B, batch=B)
    with pytest.raises(StorageError, match="holds 5 slices, expected 2"):
        save_checkpoint(directory, 1, state(1), BATCHED, {}, lo=0, hi=2, batch=2)
    save(directory, 1, state(1))
    head = directory.checkpoints / "step_000000001.h5"
    with pytest.raises(StorageError, match="slices 0 to 5 were requested, but it holds a batch of 5"):
        load_checkpoint(head, 0, B + 1)
    with pytest.raises(FormatError, match="found:    format 3, kind checkpoint part"):
        load_checkpoint(part_files(directory, 1)[0], 0, 1)


@pytest.mark.parametrize("keep", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_kill_at_any_point_leaves_a_whole_checkpoint(tmp_path: Path, keep: int) -> None:
    number, killed, shares = 0, True, [(0, 2), (2, B)]
    while killed:
        directory = make(tmp_path, f"run{number}")
        for step in (10, 20):
            save(directory, step, state(step), shares, keep=keep)
        killed = killed_at(number, partial(save, directory, 30, state(30), shares, keep=keep))
        latest = latest_checkpoint(directory)
        assert latest is not None
        arrays, meta = load_checkpoint(latest, 0, B)
        assert meta["step"] in (20, 30)
        assert_same_bits(arrays, state(meta["step"]))  # type: ignore[call-overload]
        directory.clean()
        save(directory, 40, state(40), shares, keep=keep)
        assert len(list(directory.checkpoints.iterdir())) == len(checkpoint_steps(directory)) * 3
        number += 1
    assert number > 12


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make(tmp_path)
    save(directory, 10, state(10), [(0, B)])
    before = sorted(directory.checkpoints.iterdir())
    number, failed, real = 0, True, os.pwrite
    while failed:
        count = iter(range(10**6))

        def full(*arguments: object, count: object = count, number: int = number) -> int:
            if next(count) >= number:  # type: ignore[call-overload]
                raise OSError(28, "No space left on device")
            return real(*arguments)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            try:
                save(directory, 20, state(20), [(0, B)])
                failed = False
            except StorageError:
                latest = latest_checkpoint(directory)
                assert latest is not None
                assert_same_bits(load_checkpoint(latest, 0, B)[0], state(10))
                left = [p for p in directory.checkpoints.iterdir() if "_rank_" not in p.name]
                assert left == [p for p in before if "_rank_" not in p.name]
        number += 1
    assert number > 4
    assert checkpoint_steps(directory) == [10, 20]


def test_resuming_from_an_earlier_checkpoint_drops_the_later_ones(tmp_path: Path) -> None:
    directory = make(tmp_path)
    for step in (10, 20, 30):
        save(directory, step, state(step), keep=3)
    drop_after(directory, 10)
    assert checkpoint_steps(directory) == [10]
    assert len(list(directory.checkpoints.iterdir())) == 1 + len(UNEVEN)


def test_other_tools_see_the_whole_state_in_the_head(tmp_path: Path) -> None:
    directory = make(tmp_path)
    save(directory, 10, state(10))
    moved = tmp_path / "moved"
    shutil.move(directory.path, moved)
    code = (
        "import h5py, sys; f = h5py.File(sys.argv[1]); bits = lambda x: f[x][()].tobytes().hex(); "
        "print(bits('layers/V1/V'), bits('connections/D/weights'), f.attrs['step'])"
    )
    path = os.path.relpath(moved / "checkpoints" / "step_000000010.h5", "/")
    done = subprocess.run(
        [sys.executable, "-c", code, path], cwd="/", capture_output=True, text=True, check=True
    )
    wanted = (state(10)[name].tobytes().hex() for name in ("layers/V1/V", "connections/D/weights"))
    assert done.stdout.split() == [*wanted, "10"]
    with h5py.File(part_files(RunDirectory.open(moved), 10)[0]) as file:
        assert file["layers/V1/V"].chunks is None  # contiguous, for the full speed of the disk
