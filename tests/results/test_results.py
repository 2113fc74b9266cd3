"""Reading of results: names, times in displays and steps, slices, representations, and mistakes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

import petabatch
from petabatch.errors import (
    ArgumentError,
    FormatError,
    NotRecorded,
    PetabatchError,
    ResourceError,
    StorageError,
    UnknownName,
)
from petabatch.results import Results
from petabatch.storage.directory import RunDirectory
from petabatch.storage.merge import merge
from petabatch.storage.verify import repair
from support.commands import alone


@pytest.fixture
def run(small: Path) -> Iterator[Results]:
    """Six displays of ten steps, batch 3; `recon` is recorded every second display."""
    with petabatch.open(alone(small, "out")) as found:
        yield found


def test_a_run_is_indexed_and_iterated_by_the_names_of_its_arrays(run: Results) -> None:
    np.testing.assert_array_equal(run["layers/V1/A"][...], run.layer("V1")[...])
    assert list(run) == run.names()
    assert "layers/V1/A" in run
    assert "layers/V2/A" not in run


def test_values_are_found_by_display_or_step_and_slice(run: Results) -> None:
    code = run["layers/V1/A"]
    everything = code[...]
    np.testing.assert_array_equal(code.at(display=4, slice=2), everything[3, 2])
    np.testing.assert_array_equal(code.at(step=40, slice=-1), everything[3, 2])
    np.testing.assert_array_equal(code.at(display=-1), everything[5])
    np.testing.assert_array_equal(code.at(slice=-3), everything[:, 0])
    np.testing.assert_array_equal(code.at(display=np.int64(1)), everything[0])
    np.testing.assert_array_equal(code.at(), everything)
    np.testing.assert_array_equal(code.displays, [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(run["probes/energy/total"].displays[:3], [0.5, 1, 1.5])
    np.testing.assert_array_equal(run.weights("dictionary").at(display=0), run.weights("dictionary")[0])


def test_codes_take_the_same_times_and_slices(run: Results) -> None:
    code = run["layers/V1/A"]
    for sparse in (
        run.codes("V1", slice=-1, display=2),
        run.codes("V1", slice=2, step=20),
        run.codes("V1", time=-5, slice=2),
    ):
        np.testing.assert_array_equal(sparse.toarray(), code.at(display=2, slice=2).reshape(36, 8))


def test_a_value_is_traced_to_its_image_by_display_or_any_step_of_it(run: Results) -> None:
    item, crop = run["inputs/image/item"], run["inputs/image/crop"]
    path = run.params["layers"]["image"]["source"]["file"]
    for b in range(3):
        number, corner = int(item.at(display=4, slice=b)), tuple(crop.at(display=4, slice=b))
        assert run.shown("image", display=4, slice=b) == (path, number, number, 0, corner)
        assert run.shown("image", step=35, slice=b) == run.shown("image", step=40, slice=b)
        assert run.shown("image", step=35, slice=b) == run.shown("image", display=4, slice=b)
    assert run.shown("image", display=-1, slice=-1) == run.shown("image", step=60, slice=2)
    assert run.files("image") == [path]


def test_the_files_of_a_run_are_in_its_merged_and_repaired_files(small: Path) -> None:
    out = alone(small, "out")
    with petabatch.open(out) as run:
        expected = run.shown("image", display=3, slice=1)
    with petabatch.open(merge(out, small.parent / "one.h5")) as merged:
        assert merged.shown("image", display=3, slice=1) == expected
    (out / "run.h5").unlink()
    assert repair(RunDirectory.open(out)) == [("rebuilt", "run.h5")]
    with petabatch.open(out) as run:
        assert run.shown("image", display=3, slice=1) == expected


def test_runs_and_arrays_print_what_they_are(run: Results) -> None:
    lines = repr(run).splitlines()
    assert lines[0].startswith("<petabatch run ")
    assert lines[0].endswith("out/run.h5: done, display 6 of 6, batch 3>")
    assert "  layers/V1/A (time: 6, batch: 3, y: 6, x: 6, feature: 8) float32" in lines
    run.close()
    assert repr(run).endswith("out/run.h5: closed>")


def test_mistakes_are_answered(run: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    code, recon, weights = run["layers/V1/A"], run["layers/recon/A"], run.weights("dictionary")
    for ask, kind, *words in (
        (lambda: run["V1"], UnknownName, "V1 was not recorded", "did you mean layers/V1/A?"),
        (lambda: run["layers/V1/B"], UnknownName, "expected: connections/dictionary/weights",
         "did you mean layers/V1/"),
        (lambda: run.layer("V2"), UnknownName, "no layer named V2", "expected: V1, recon"),
        (lambda: recon.at(display=3), NotRecorded, "found:    display 3 (step 30)", "displays 2, 4, 6",
         "the nearest is display 2"),
        (lambda: code.at(display=7), NotRecorded, "expected: displays 1, 2, 3, 4, 5, 6", "display 6"),
        (lambda: code.at(step=15), NotRecorded, "found:    step 15"),
        (lambda: code.at(display=-7), NotRecorded, "found:    display -7"),
        (lambda: code.at(display=2, step=20), ArgumentError, "the time is given twice"),
        (lambda: code.at(display="2"), ArgumentError, "found:    '2'", "expected: a whole number"),
        (lambda: code.at(display=True), ArgumentError, "expected: a whole number"),
        (lambda: code.at(slice=3), NotRecorded, "found:    slice 3", "expected: 0 to 2, or -3 to -1"),
        (lambda: run.codes("V1", slice=-4), NotRecorded, "found:    slice -4"),
        (lambda: weights.at(slice=0), NotRecorded, "has no slices"),
        (lambda: code[6], NotRecorded, "time 6 of 6 records", ".at(display=6)"),
        (lambda: code[::-1], NotRecorded, "expected: numpy's basic indexing", "series[...][key]"),
        (lambda: code[0, 3], NotRecorded, "found:    (0, 3)"),
        (lambda: code["A"], NotRecorded, "found:    'A'"),
        (lambda: run.shown("V1", step=1), UnknownName, "no input layer named V1", "expected: image"),
        (lambda: run.shown("image"), ArgumentError, "expected: `display` or `step`"),
        (lambda: run.shown("image", step=61), NotRecorded, "found:    step 61", "steps 1 to 60"),
        (lambda: run.shown("image", step=0), NotRecorded, "found:    step 0"),
        (lambda: run.shown("image", step=1, slice=3), NotRecorded, "found:    slice 3"),
        (lambda: petabatch.open("nowhere"), StorageError, "there is no such run directory or file"),
        (lambda: petabatch.open(f"{run.path.parent}t"), StorageError, "did you mean", f"{run.path.parent}?"),
        (lambda: run.probe("energy")["totel"], UnknownName, "probe energy does not measure totel",
         "did you mean total?"),
    ):  # fmt: skip
        with pytest.raises(kind) as raised:
            ask()
        assert isinstance(raised.value, PetabatchError)
        for part in words:
            assert part in str(raised.value), str(raised.value)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "scipy.sparse", None)
        with pytest.raises(ResourceError, match="pip install scipy"):
            run.codes("V1")
    with pytest.raises(TypeError, match="positional"):
        run.codes("V1", 2, 1)  # a record, or a display?
    run.close()
    for read in (lambda: code[0], lambda: run["layers/V1/A"], lambda: run.status, lambda: run.layer("V1")):
        with pytest.raises(StorageError, match="the run is closed"):
            read()


def test_files_of_others_and_of_other_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such run directory or file"):
        petabatch.open(tmp_path / "nothing.h5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.attrs["petabatch_format"], file.attrs["kind"] = 99, "run"
    with pytest.raises(FormatError, match="found:    format 99"):
        petabatch.open(tmp_path / "other.h5")


def test_reading_never_imports_the_simulator() -> None:
    code = (
        "import sys, petabatch.results; "
        "others = ('numba', 'xarray', 'scipy', 'zarr'); "
        "print([m for m in sys.modules if m.startswith('petabatch') or m in others])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    allowed = {
        "petabatch",
        "petabatch.arguments",
        "petabatch.clock",
        "petabatch.errors",
        "petabatch.logs",
        "petabatch.pixels",
        "petabatch.regular_files",
        "petabatch.results",
        "petabatch.results.events",
        "petabatch.results.names",
        "petabatch.results.notebook",
        "petabatch.results.run_file",
        "petabatch.results.series",
        "petabatch.results.sparse_code",
        "petabatch.results.spikes",
        "petabatch.results.synapses",
        "petabatch.results.traced",
        "petabatch.results.use",
        "petabatch.sizes",
        "petabatch.storage",
        "petabatch.storage.atomic",
        "petabatch.storage.containment",
        "petabatch.storage.damaged",
        "petabatch.storage.file_object",
        "petabatch.storage.files",
        "petabatch.storage.format",
        "petabatch.storage.gaps",
        "petabatch.storage.seal",
        "petabatch.synonyms",
        "petabatch.threads",
        "petabatch.version",
        "petabatch.weight_mode",
    }
    assert set(eval(done.stdout)) <= allowed
