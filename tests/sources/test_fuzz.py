"""Every reader shows damaged files or refuses them; the short form of `tests/support/fuzz_inputs.py`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from petabatch.sources import ImageArray
from support.fuzz_inputs import KINDS, damaged_list, place, trial


def test_a_damaged_list_leads_only_to_what_its_fuzzer_made(tmp_path: Path) -> None:
    """It is shown too, and errors about files that it leads to are refusals."""
    paths = [damaged_list(KINDS["list"][3](), np.random.default_rng(number)) for number in range(3000)]
    lines = [line.strip() for path in paths for line in path.decode("latin-1").splitlines()]
    assert not any(line.startswith(("/", "~")) for line in lines)
    inner = place(tmp_path)
    assert max(line.count("..") for line in lines) < len(inner.relative_to(tmp_path).parts)
    (inner / "b.png").unlink()
    (inner / "b.png").mkdir()
    (inner.parent / "c.jpg").write_text("no picture")
    assert {trial("list", number, tmp_path) for number in range(60)} == {"refused", "shown"}
    shutil.rmtree(tmp_path / "below")
    assert {trial("list", number, tmp_path) for number in range(60)} == {"refused", "shown"}


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
