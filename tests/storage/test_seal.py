"""Seals: what proves a file that the manifest does not name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from petabatch.errors import DamagedError
from petabatch.storage import seal
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.manifest import Entry

RUN, OTHER = "0123456789abcdef", "fedcba9876543210"


def sealed(root: Path, run_id: str = RUN, name: str = "x.h5") -> Path:
    with new_hdf5(root / name, run_id=run_id) as (file, _):
        file["values"] = np.arange(40)
    return root / name


def describe(root: Path, run_id: str | None) -> None:
    about = {} if run_id is None else {"run_id": run_id}
    (root / "run.json").write_text(json.dumps(seal.sealed_json({"provenance": about, "batch": 3}), indent=1))


def test_no_changed_byte_of_a_sealed_file_is_missed(tmp_path: Path) -> None:
    path = sealed(tmp_path)
    assert seal.verify(tmp_path, path.name)
    whole = path.read_bytes()
    for place in range(len(whole)):
        broken = bytearray(whole)
        broken[place] ^= 1 << place % 8
        path.write_bytes(broken)
        try:
            assert not seal.verify(tmp_path, path.name)
            assert place >= len(whole) - 47, "the seal was found, and the file passed"
        except DamagedError:
            pass
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert not seal.verify(tmp_path, path.name)


def test_hdf5_reads_a_sealed_file_as_any_other_and_its_checksum_is_known_without_reading_it(
    tmp_path: Path,
) -> None:
    path = sealed(tmp_path)
    with h5py.File(path) as file:
        assert file["values"][...].tolist() == list(range(40))
    crc, size = seal.checksum(path)
    assert Entry.of(path, "x.h5") == Entry(f"{crc:08x}", size, "x.h5")
    assert seal.stated_checksum(path) == (crc, size)
    assert size == path.stat().st_size
    plain = tmp_path / "plain.h5"
    with new_hdf5(plain) as (file, _):
        file["values"] = np.arange(40)
    assert seal.stated_checksum(plain) == seal.checksum(plain)
    assert not seal.verify(tmp_path, "plain.h5")


@pytest.mark.parametrize(("recorded", "passes"), [(RUN, True), (OTHER, False), (None, False)])
def test_a_sealed_file_of_another_run_is_damaged(tmp_path: Path, recorded: str | None, passes: bool) -> None:
    sealed(tmp_path)
    assert seal.verify(tmp_path, "x.h5")  # nothing tells which run this is
    describe(tmp_path, recorded)
    if passes:
        assert seal.verify(tmp_path, "x.h5")
        assert seal.verify(tmp_path, "x.h5", contents=False)
    else:
        for contents in (True, False):
            with pytest.raises(DamagedError, match="it belongs to another run"):
                seal.verify(tmp_path, "x.h5", contents)


def test_the_description_of_a_run_is_sealed_by_a_key(tmp_path: Path) -> None:
    describe(tmp_path, RUN)
    assert seal.verify(tmp_path, "run.json")
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace("3", "4", 1))
    with pytest.raises(DamagedError, match="its bytes have changed"):
        seal.verify(tmp_path, "run.json")
    (tmp_path / "run.json").write_text(text[:-5])
    with pytest.raises(DamagedError):
        seal.verify(tmp_path, "run.json")
    (tmp_path / "run.json").write_text(text)
    sealed(tmp_path, OTHER, "run.h5")
    with pytest.raises(DamagedError, match="it belongs to another run"):
        seal.verify(tmp_path, "run.json")
    (tmp_path / "run.json").write_text(json.dumps({"provenance": {}}))
    assert not seal.verify(tmp_path, "run.json")


def test_what_is_no_file_has_no_seal_and_is_never_read(tmp_path: Path) -> None:
    assert not seal.verify(tmp_path, "nothing.h5")
    os.mkfifo(tmp_path / "pipe.h5")
    assert not seal.verify(tmp_path, "pipe.h5")
