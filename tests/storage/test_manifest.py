"""The manifest: which files it calls damaged, and which it does not."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from petabatch.errors import DamagedError
from petabatch.storage import manifest
from petabatch.storage.directory import RunDirectory
from petabatch.storage.index import write_index
from petabatch.storage.manifest import MANIFEST, Entry
from petabatch.storage.verify import file_states
from support.processes import killed_at


def add(root: Path, name: str, content: bytes) -> None:
    (root / name).write_bytes(content)
    manifest.append(root, [Entry.of(root / name, name)])


def test_a_file_is_whole_or_damaged_or_unnamed(tmp_path: Path) -> None:
    add(tmp_path, "a", b"one two")
    assert (tmp_path / MANIFEST).read_text() == "691d6cde crc32 cd07892f 7 a\n"
    assert manifest.verify(tmp_path, "a")
    (tmp_path / "b").touch()
    assert not manifest.verify(tmp_path, "b")
    (tmp_path / "a").write_bytes(b"one twp")
    with pytest.raises(DamagedError, match="its bytes have changed"):
        manifest.verify(tmp_path, "a")
    assert manifest.read(tmp_path).check(tmp_path, "a", contents=False)
    (tmp_path / "a").write_bytes(b"one")
    with pytest.raises(DamagedError, match="it has 3 bytes, expected 7"):
        manifest.read(tmp_path).check(tmp_path, "a", contents=False)
    (tmp_path / "a").unlink()
    with pytest.raises(DamagedError, match="cannot be read: No such file"):
        manifest.verify(tmp_path, "a")


def test_a_manifest_cut_anywhere_calls_no_whole_file_damaged(tmp_path: Path) -> None:
    for name in ("a", "b"):
        add(tmp_path, name, name.encode() * 100)
    whole = (tmp_path / MANIFEST).read_bytes()
    for length in range(len(whole)):
        (tmp_path / MANIFEST).write_bytes(whole[:length])
        named = [manifest.verify(tmp_path, name) for name in ("a", "b")]
        assert named == [length >= whole.index(b"\n") + 1, False]
        assert not manifest.read(tmp_path).bad_lines
        add(tmp_path, "c", b"c" * 100)
        assert manifest.verify(tmp_path, "c")
        assert not manifest.read(tmp_path).bad_lines


def test_a_damaged_line_is_counted_and_its_file_has_none(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        add(tmp_path, name, b"x")
    lines = (tmp_path / MANIFEST).read_bytes().splitlines(keepends=True)
    for broken in (
        b"crc33 8cdc1683 1 b\n",
        b"crc32 8cdc168 1 b\n",
        b"crc32 8cdc1683 x b\n",
        b"\xff\x00\n",
        b"crc32 00000000 0 /dev/zero\n",
        b"crc32 00000000 0 ../b\n",
        b"crc32 00000000 0 data/../../b\n",
        b"crc32 00000000 0 data/..\n",
        b"crc32 00000000 0 elsewhere/b\n",
        b"crc32 00000000 0 .\n",
        b"crc32 00000000 0 a\0b\n",
        b"crc32 00000000 " + b"1" * 5000 + b" b\n",
        b"\n",
    ):
        (tmp_path / MANIFEST).write_bytes(b"".join([lines[0], broken, lines[2]]))
        found = manifest.read(tmp_path)
        assert found.bad_lines == (2,)
        assert sorted(found.entries) == ["a", "c"]


def test_no_flipped_bit_of_a_line_is_missed(tmp_path: Path) -> None:
    for name in ("a", "parts/steps_0-1.h5"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        add(tmp_path, name, b"x")
    whole = (tmp_path / MANIFEST).read_bytes()
    first = whole.index(b"\n")
    for place in range(len(whole)):
        for bit in range(8):
            broken = bytearray(whole)
            broken[place] ^= 1 << bit
            (tmp_path / MANIFEST).write_bytes(broken)
            found = manifest.read(tmp_path)
            assert len(found.entries) < 2
            if place == first:  # two lines have become one
                assert found.bad_lines == (1,)
            elif place < len(whole) - 1:  # the last line is ignored if it has lost its end
                assert found.bad_lines


def test_lines_of_earlier_versions_name_only_what_a_run_has(tmp_path: Path) -> None:
    lines = [
        b"crc32 8cdc1683 1 parts/steps_000000000011-000000000020_slices_000000-000003.h5",
        b"crc32 8cdc1683 1 parts/steps_000000000001-000000000020.h5",
        b"crc32 8cdc1683 1 checkpoints/step_000000020.h5",
        b"crc32 8cdc1683 1 data/0123456789abcdef.npy",
        b"crc32 8cdc1683 1 run.h5",
    ]
    (tmp_path / MANIFEST).write_bytes(b"\n".join(lines) + b"\n")
    assert len(manifest.read(tmp_path).entries) == 5
    for line in (lines[0].replace(b"steps", b"rteps"), lines[2].replace(b"step", b"stdp"), lines[3] + b"."):
        (tmp_path / MANIFEST).write_bytes(line + b"\n")
        assert manifest.read(tmp_path).bad_lines == (1,)


def test_a_kill_while_a_file_is_replaced_or_forgotten_never_makes_it_look_damaged(tmp_path: Path) -> None:
    number, killed = 0, True
    while killed:
        root = tmp_path / str(number)
        root.mkdir()
        for content in (b"first", b"second"):
            add(root, "index", content)
        add(root, "old", b"x")

        def replace(root: Path = root) -> None:
            (root / "new").write_bytes(b"third!")
            manifest.rename(root / "new", root / "index")
            manifest.forget(root, {"old"})
            (root / "old").unlink()

        killed = killed_at(number, replace)
        assert manifest.verify(root, "index")
        if (root / "old").exists():
            manifest.verify(root, "old")
        number += 1
    assert number > 3
    assert len((root / MANIFEST).read_text().splitlines()) == 2  # the last two of the index


def test_a_file_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, "index", b"first")
    real, times = manifest.checksum, []

    def replacing(path: Path) -> tuple[int, int]:
        found = real(path)
        times.append(path)
        if len(times) == 1:  # two flushes later its line is gone
            monkeypatch.setattr(manifest, "checksum", real)
            for content in (b"2", b"3", b"4"):
                (tmp_path / "new").write_bytes(content)
                manifest.append(tmp_path, [Entry.of(tmp_path / "new", "index")])
                (tmp_path / "new").replace(tmp_path / "index")
        return found

    before = manifest.read(tmp_path)
    monkeypatch.setattr(manifest, "checksum", replacing)
    assert manifest.verify(tmp_path, "index")
    with pytest.raises(DamagedError):
        before.check(tmp_path, "index")


def test_what_is_no_file_is_damaged_and_never_read(tmp_path: Path) -> None:
    add(tmp_path, "a", b"")
    (tmp_path / "a").unlink()
    os.mkfifo(tmp_path / "a")
    with pytest.raises(DamagedError, match="this is not a file"):
        manifest.verify(tmp_path, "a")


def test_a_kill_before_the_first_index_has_its_name_damages_nothing(tmp_path: Path) -> None:
    killed, number = True, 0
    while killed:
        directory = RunDirectory.create(tmp_path / f"{number}", "title = 'x'")
        killed = killed_at(number, partial(write_index, directory, (), {"params": "{}"}, 1))
        states = {state.name: state.state for state in file_states(directory)}
        assert "damaged" not in states.values(), number
        number += 1
    assert states["run.h5"] == "whole"
    assert number > 4
