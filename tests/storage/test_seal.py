"""Seals: what proves that a file of a run is as it was written."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest

from petabatch.errors import DamagedError
from petabatch.storage import seal
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.description import Description
from petabatch.storage.directory import RunDirectory
from petabatch.storage.index import write_index
from petabatch.storage.verify import file_states
from support.processes import killed_at

RUN, OTHER = "0123456789abcdef", "fedcba9876543210"


def sealed(root: Path, run_id: str = RUN, name: str = "x.h5") -> Path:
    with new_hdf5(root / name, run_id=run_id) as (file, _):
        file["values"] = np.arange(40)
    return root / name


def whole(root: Path, name: str) -> bool:
    try:
        seal.verify(root, name)
    except DamagedError:
        return False
    return True


def test_no_changed_byte_of_a_sealed_file_is_missed(tmp_path: Path) -> None:
    path = sealed(tmp_path)
    seal.verify(tmp_path, path.name)
    content = path.read_bytes()
    for place in range(len(content)):
        broken = bytearray(content)
        broken[place] ^= 1 << place % 8
        path.write_bytes(broken)
        assert not whole(tmp_path, path.name)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        assert not whole(tmp_path, path.name)


def test_hdf5_reads_a_sealed_file_as_any_other_and_its_checksum_is_known_without_reading_it(
    tmp_path: Path,
) -> None:
    path = sealed(tmp_path)
    with h5py.File(path) as file:
        assert file["values"][...].tolist() == list(range(40))
    crc, size = seal.checksum(path)
    assert seal.stated_checksum(path) == (crc, size)
    assert size == path.stat().st_size
    plain = tmp_path / "plain.h5"
    with new_hdf5(plain) as (file, _):
        file["values"] = np.arange(40)
    assert seal.stated_checksum(plain) == seal.checksum(plain)
    with pytest.raises(DamagedError, match="it has no seal at its end"):
        seal.verify(tmp_path, "plain.h5")


def test_numpy_reads_a_sealed_array_as_any_other(tmp_path: Path) -> None:
    array = np.random.default_rng(1).normal(size=(5, 7))
    directory = RunDirectory.create(tmp_path / "run", "", arrays={"0123456789abcdef": array})
    path = directory.data / "0123456789abcdef.npy"
    seal.verify(directory.path, "data/0123456789abcdef.npy")
    for mode in (None, "r"):
        assert np.array_equal(np.load(path, mmap_mode=mode), array)


@pytest.mark.parametrize(("run_id", "passes"), [(RUN, True), (OTHER, False)])
def test_a_sealed_file_of_another_run_is_damaged(tmp_path: Path, run_id: str, passes: bool) -> None:
    sealed(tmp_path)
    seal.verify(tmp_path, "x.h5")  # nothing tells which run this is
    (tmp_path / "params.json").write_text(seal.sealed_json({}, run_id, "params.json"))
    for contents in (True, False):
        if passes:
            seal.verify(tmp_path, "x.h5", contents)
        else:
            with pytest.raises(DamagedError, match="it belongs to another run"):
                seal.verify(tmp_path, "x.h5", contents)


def test_params_are_read_once_to_know_of_which_run_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may list a hundred thousand points."""
    sealed(tmp_path)
    path, read = tmp_path / "params.json", list[Path]()
    path.write_text(seal.sealed_json({}, RUN, path.name))
    verify_json = seal._verify_json
    monkeypatch.setattr(seal, "_verify_json", lambda one: (read.append(one), verify_json(one))[1])
    for _ in range(3):
        seal.verify(tmp_path, "x.h5")
    assert read == [path]
    path.unlink()
    path.write_text(seal.sealed_json({"a": 1}, OTHER, path.name))
    with pytest.raises(DamagedError, match="it belongs to another run"):
        seal.verify(tmp_path, "x.h5")


def test_json_is_sealed_by_a_key(tmp_path: Path) -> None:
    table = {"batch": 3, "rates": [0.1, 1e-300], "name": "\u00e9"}
    path = tmp_path / "run.json"
    path.write_text(seal.sealed_json(table, RUN, path.name))
    seal.verify(tmp_path, "run.json")
    assert seal.read_json(path) == table
    text = path.read_text()
    path.write_text(json.dumps(json.loads(text)))  # laid out in another way
    seal.verify(tmp_path, "run.json")
    for broken in (text.replace("3", "4", 1), text.replace(RUN, OTHER), text[:-5], "[]", '{"batch": 3}', ""):
        path.write_text(broken)
        assert not whole(tmp_path, "run.json")


def test_what_is_no_file_is_damaged_and_never_read(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="this file is missing"):
        seal.verify(tmp_path, "nothing.h5")
    os.mkfifo(tmp_path / "pipe.h5")
    with pytest.raises(DamagedError, match="it is a pipe, not a file"):
        seal.verify(tmp_path, "pipe.h5")


def test_a_kill_before_the_first_index_has_its_name_damages_nothing_that_cannot_be_rebuilt(
    tmp_path: Path,
) -> None:
    killed, number = True, 0
    while killed:
        directory = RunDirectory.create(tmp_path / f"{number}", "title = 'x'")
        described = Description((), {"params_given": "title = 'x'"}, 1, "running")
        killed = killed_at(number, partial(write_index, directory, described))
        states = {state.name: state.state for state in file_states(directory)}
        assert "damaged" not in states.values(), number
        number += 1
    assert states["run.h5"] == "whole"
    assert number > 4


def test_files_of_a_run_cannot_take_the_place_of_others(tmp_path: Path) -> None:
    for name in ("inputs.json", "run.json"):
        (tmp_path / name).write_text(seal.sealed_json({"of": name}, RUN, name))
        seal.verify(tmp_path, name)
    (tmp_path / "inputs.json").replace(tmp_path / "run.json")
    with pytest.raises(DamagedError, match=r"its content is that of inputs\.json"):
        seal.verify(tmp_path, "run.json")
