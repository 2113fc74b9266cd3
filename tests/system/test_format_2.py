"""A run of an earlier version, whose manifest and files have no checksums of their own."""

from __future__ import annotations

import tarfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import petabatch
from petabatch.errors import DamagedError
from petabatch.report import integrity
from petabatch.storage.merge import merge
from support.commands import datasets
from support.damage import resume, segment

DATA = Path(__file__).parents[1] / "data" / "format_2.tar.xz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "format_2"


def flip_name(folder: Path, first: int) -> None:
    """Flip a bit in the name of the segment that starts at a step, in the manifest."""
    text = (folder / "manifest.txt").read_text()
    at = text.index(segment(folder, first).name)
    (folder / "manifest.txt").write_text(f"{text[:at]}{chr(ord(text[at]) ^ 1)}{text[at + 1 :]}")


def zero_energies(path: Path) -> None:
    """Set the energies of a segment to zero with their Fletcher-32, which is then 0 as well."""
    with h5py.File(path) as file:
        place = file["probes/energy/total/values"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[place.byte_offset : place.byte_offset + place.size] = bytes(place.size)
    path.write_bytes(data)


def test_it_opens_is_whole_and_is_resumed(old: Path, tmp_path: Path) -> None:
    text, whole = integrity.verify(old, repairing=False)
    assert (whole, "verified" in text, "not in" in text) == (True, False, False)
    before = datasets(merge(old, tmp_path / "before.h5"))
    with petabatch.open(old) as run:
        assert (run.status, run.steps_reached) == ("stopped", 40)
        assert run.probe("energy")["total"][...].tobytes() == before["probes/energy/total"].tobytes()
    resume(old)
    after = datasets(merge(old, tmp_path / "after.h5"))
    for name in ("layers/V1/A", "probes/energy/total", "connections/dictionary/weights"):
        assert np.array_equal(after[name][: len(before[name])], before[name])
        assert len(after[name]) > len(before[name])
    assert integrity.verify(old, repairing=False)[1]
    with petabatch.open(old) as run:
        assert len(run.attributes["run_id"]) == 16
        assert run.status == "done"


def test_a_segment_that_its_manifest_does_not_name_is_computed_again_or_refused(old: Path) -> None:
    flip_name(old, 31)
    zero_energies(segment(old, 31))
    text, whole = integrity.verify(old, repairing=False)
    assert not whole
    assert "manifest.txt: this file is damaged in line" in text
    assert "1 that cannot be verified" in text
    assert f"unproven           {segment(old, 31)}: this file cannot be verified" in text
    resume(old)  # from step 20
    with petabatch.open(old) as run:
        assert (run.probe("energy")["total"][...] > 0).all()
    early = segment(old, 11)
    flip_name(old, 11)
    for path in (old / "checkpoints").iterdir():
        if "_000000040" not in path.name:
            path.unlink()
    with pytest.raises(
        DamagedError, match=f"{early.name}: this file cannot be verified.*accepts it as it is"
    ):
        merge(old, old.parent / "merged.h5")


def test_what_cannot_be_verified_is_accepted_only_by_repair_which_says_so(old: Path) -> None:
    flip_name(old, 11)
    zero_energies(segment(old, 11))
    with pytest.raises(DamagedError, match="cannot be verified"):
        resume(old)
    text, whole = integrity.verify(old, repairing=True)
    assert whole
    assert f"accepted           parts/{segment(old, 11).name}" in text
    resume(old)


def test_a_lost_manifest_is_accepted_with_all_files(old: Path) -> None:
    (old / "manifest.txt").unlink()
    with pytest.raises(DamagedError, match=r"no line for params.json, inputs.jsonl, .*, run.json"):
        resume(old)
    text, whole = integrity.verify(old, repairing=True)
    assert whole
    assert text.count("accepted  ") == 12
    resume(old)
