"""Every reader shows damaged files or refuses them; the short form of `tests/support/fuzz_inputs.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from petabatch.sources import ImageArray
from support.fuzz_inputs import KINDS, trial


@pytest.mark.filterwarnings("ignore")  # of pillow, about damaged metadata
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_shown_or_refused_by_its_name(kind: str, tmp_path: Path) -> None:
    outcomes = {trial(kind, number, tmp_path) for number in range(15)}
    assert outcomes <= {"shown", "refused"}
    assert "refused" in outcomes


@pytest.mark.parametrize(("kind", "number"), [
    ("hdf5", 14067),  # a name that is not UTF-8 among those that are listed
    ("hdf5", 20363),  # a chunk without bytes, of which HDF5 2.0 reads the checksum
    ("mat", 23419),  # what crashes scipy's reader
    ("mat73", 700648),  # a type that numpy does not have
])  # fmt: skip
def test_what_campaigns_found_stays_mended(kind: str, number: int, tmp_path: Path) -> None:
    assert trial(kind, number, tmp_path) == "refused"


def test_the_fuzzer_finds_a_reader_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageArray, "gallery", lambda self: 1 / 0)
    assert trial("npy", 1, tmp_path).startswith("ZeroDivisionError")
