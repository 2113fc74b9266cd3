"""Use from Python: a plain script, the public names, results of runs, progress and logging."""

from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import petabatch
from petabatch.errors import StoppedEarly, TableError
from petabatch.results import Results
from petabatch.session import RunSession
from support.commands import contents

SCRIPT = """
import petabatch

network = petabatch.Network(
    run={"steps": 4, "batch": 2},
    layers={
        "image": {"type": "input", "shape": [4, 4, 1], "source": {"type": "array", "data": DATA}},
        "sum": {"type": "linear", "shape": [4, 4, 1]},
    },
    connections={"c": {"type": "identity", "pre": "image", "post": "sum"}},
    output={"layers": {"sum": {"every": 2}}},
)
run = petabatch.run(network, "out")
print(run)
"""


def test_a_plain_script_needs_no_other_import_and_reports_progress(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("DATA", "__import__('numpy').ones((2, 4, 4, 1))"))
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"<petabatch run {tmp_path}/out/run.h5: done, step 4 of 4, batch 2>")
    assert "layers/sum/A (time: 2, batch: 2, y: 4, x: 4, feature: 1) float32" in done.stdout
    assert "started in" in done.stderr
    assert "step 4 of 4" in done.stderr
    assert "rank 0 of 1" not in done.stderr  # a detail for log.txt
    assert "rank 0 of 1" in (tmp_path / "out" / "log.txt").read_text()


def test_the_package_lists_its_names_and_suggests_them() -> None:
    assert {"Network", "Run", "encode", "in_memory", "layers", "load", "open", "run"} <= set(dir(petabatch))
    for name in dir(petabatch):
        assert getattr(petabatch, name) is not None
    with pytest.raises(AttributeError, match=r"no attribute 'Netwrok': did you mean Network\?"):
        petabatch.Netwrok  # noqa: B018


def test_run_and_resume_return_the_results(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = str(small.parent / "out")
    with monkeypatch.context() as patch:
        patch.setattr(RunSession, "_out_of_time", lambda _: True)
        with pytest.raises(StoppedEarly, match="stopped at step 10 of 60"):
            petabatch.run(str(small), out, quiet=True)
    with petabatch.resume(out, quiet=True) as run:
        assert isinstance(run, Results)
        assert run["layers/V1/A"].at(display=6).shape == (3, 6, 6, 8)
    with petabatch.run(small, out, quiet=True, force=True) as run:
        assert run.status == "done"


def test_a_run_in_another_thread_leaves_signals_to_the_program(small: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(petabatch.run, small, small.parent / "other", quiet=True).result().close()
    petabatch.run(small, small.parent / "main", quiet=True).close()
    assert contents(small.parent / "other" / "run.h5") == contents(small.parent / "main" / "run.h5")


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.WARNING])
def test_a_program_that_logs_gets_the_levels_that_it_wants(
    small: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    """A handler of its own takes everything, as that of `logging.basicConfig` does."""
    found: set[int] = set()
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: found.add(record.levelno))
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    with caplog.at_level(level):
        petabatch.run(petabatch.load(small, ["run.displays=1"]), small.parent / "out").close()
    expected = {logging.DEBUG: {10, 20}, logging.INFO: {20}, logging.WARNING: set()}
    assert found == expected[level]
    assert "done: " in (small.parent / "out" / "log.txt").read_text()


def test_a_penalty_that_no_layer_minimises_is_told_from_python_too(
    small: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = petabatch.load(small, ["run.displays=1", "probes.energy.coefficient=0.5"])
    with caplog.at_level(logging.INFO):
        petabatch.run(network, small.parent / "out").close()
    assert (
        "probes.energy: its penalty is not the one that V1 minimises: l1 with coefficient 0.5" in caplog.text
    )


def test_logging_is_left_as_it_was(small: Path) -> None:
    log = logging.getLogger("petabatch")
    before = log.handlers, log.level, log.propagate, log.filters
    petabatch.run(petabatch.load(small, ["run.displays=1"]), small.parent / "out").close()
    assert (log.handlers, log.level, log.propagate, log.filters) == before


def test_networks_and_tables_print_what_they_are(small: Path) -> None:
    assert repr(petabatch.load(small)) == (
        f"<network {small}: batch 3, 60 steps; layers image, error, V1, recon; "
        "connections image_to_error, recon_to_error, dictionary, drive; probes energy>"
    )


def test_tables_of_a_table_keep_the_context_of_their_file(small: Path) -> None:
    """Tables inside of others are validated with the folder of their file, not built as in Python."""
    source = petabatch.load(small).network.layers["image"].source
    assert source.file == str(small.parent / "images.npy")


def test_errors_of_tables_are_value_errors_in_our_words() -> None:
    with pytest.raises(ValueError, match="LCA: treshold: there is no such key") as raised:
        petabatch.layers.LCA(shape=(4, 4, 8), treshold=0.3)
    assert isinstance(raised.value, TableError)
    assert "did you mean threshold?" in str(raised.value)
    assert "pydantic" not in str(raised.value)
    assert raised.value.__suppress_context__
    assert np.shape(raised.value.problems) == (1,)
