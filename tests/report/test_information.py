"""The page about a run: `petabatch info`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

import petabatch
from petabatch import results, simulation
from petabatch.errors import RunDirectoryError, StoppedEarly, StorageError
from petabatch.layers import Poisson
from petabatch.probes import SpikeStatistics
from petabatch.report.command import info
from petabatch.report.information import describe
from petabatch.report.integrity import verify
from petabatch.report.watch import _fitted, watch
from petabatch.session import RunSession
from petabatch.spec.network import Network, Run
from petabatch.spec.sweep import Sweep
from petabatch.storage.claim import Claim
from petabatch.storage.merge import merge
from petabatch.storage.provenance import Spent
from support.commands import SMALL, alone
from support.sealing import reseal

USAGE = 'dictionary = { variables = ["usage"] }'


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, which no test changes."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "constant.toml").write_text(
        'title = "A run of constants"\n'
        "[run]\nbatch = 2\ndisplay = 10\ndisplays = 3\nseed = 7\n"
        '[layers.one]\ntype = "constant"\nshape = [2, 2, 3]\nvalue = 2.0\n'
        '[layers.code]\ntype = "lca"\nshape = [2, 2, 3]\nthreshold = 1.0\ntau = 10.0\n'
        '[connections.drive]\ntype = "identity"\npre = "one"\npost = "code"\n'
        '[probes.sum]\ntype = "statistics"\nlayer = "code"\nevery = "display"\n'
        "[output.layers]\ncode = {}\n"
        '[checkpoint]\nevery = "1 display"\n'
    )
    return alone(folder / "constant.toml", "run")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def lines(page: str) -> dict[str, str]:
    """Return the values of a page by their labels; of several with one label, all."""
    found: dict[str, str] = {}
    label = ""
    for line in page.splitlines():
        label = line[:19].strip() or label
        found[label] = f"{found.get(label, '')} {line[19:].strip()}".strip()
    return found


def test_the_page_tells_what_a_run_is_and_how_it_went(finished: Path) -> None:
    page = lines(describe(finished))
    assert page["title"] == "A run of constants"
    assert page["status"] == "done: step 30 of 30, display 3 of 3"
    assert page["batch"] == "2 slices, seed 7"
    assert page["checkpoints"] == "at steps 20, 30"
    assert page["petabatch"].startswith("0.1.0, commit ")
    assert len(page["petabatch"].removeprefix("0.1.0, commit ").rstrip("+")) == 40
    with results.open(finished) as found:
        about = found.attributes
    assert about["processor"] in page["device"]
    assert about["devices"][0] in page["device"]
    assert f"numpy {about['libraries']['numpy']}" in page["libraries"]
    assert "total" in page["sum"]
    assert "at step 30" in page["sum"]
    assert page["dead features"] == "code: none of 3 features"
    assert "done: " in page["log"]
    assert "checkpoints" in page["size on disk"]
    assert "damaged" not in page


def test_the_page_tells_what_the_time_went_into(finished: Path) -> None:
    page = lines(describe(finished))
    with results.open(finished) as found:
        about = found.attributes
    speed = 30 * 2 / (about["seconds"] - about["times"]["kernels"])
    assert page["mean speed"] == f"{speed:,.0f} slice·steps/s without loading kernels"
    shares = [float(part.removesuffix(" %").split()[-1]) for part in page["time"].split(", ")]
    assert sum(shares) == pytest.approx(100, abs=1)
    assert {"steps", "files", "kernels"} <= about["times"].keys()


def test_a_resumed_run_counts_the_time_before(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spent, "now", lambda spent, times: {"all": 2.0, "kernels": 0.5})
    with monkeypatch.context() as patched:
        patched.setattr(RunSession, "_out_of_time", lambda session: True)
        with pytest.raises(StoppedEarly):
            alone(small, "cut")
    assert lines(describe(small.parent / "cut"))["status"].startswith("stopped: step 10 of 60")
    simulation.resume(small.parent / "cut", mpi=False, quiet=True, threads=1)
    with results.open(small.parent / "cut") as found:
        assert (found.attributes["seconds"], found.attributes["times"]) == (4.0, {"kernels": 1.0})


def test_the_speed_of_a_rebuilt_run_belongs_to_the_steps_that_were_timed(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run.json` has the time up to the last index, too."""
    folder = small.parent / "killed"
    steps = iter(range(3))

    def kill(session: RunSession) -> bool:
        if next(steps) == 2:
            raise SystemExit
        return False

    with monkeypatch.context() as patched:
        patched.setattr(RunSession, "_out_of_time", kill)
        patched.setattr("petabatch.session.PAUSE", 0)
        with pytest.raises(SystemExit):
            alone(small, "killed")
    with results.open(folder) as found:
        assert found.attributes["timed_steps"] == found.steps_reached == 20
    (folder / "run.h5").write_bytes(b"damaged")
    assert verify(folder, repairing=True)[1]
    with results.open(folder) as found:
        about = found.attributes
        assert (about["timed_steps"], found.steps_reached) == (20, 20)
    page = lines(describe(folder))
    speed = 20 * 3 / (about["seconds"] - about["times"]["kernels"])
    assert page["mean speed"] == f"{speed:,.0f} slice·steps/s without loading kernels"
    simulation.resume(folder, mpi=False, quiet=True, threads=1)
    with results.open(folder) as found:
        assert found.attributes["timed_steps"] == 20 + (60 - 20)


def test_the_index_and_a_merged_file_have_the_same_page(finished: Path, tmp_path: Path) -> None:
    assert describe(finished / "run.h5") == describe(finished)
    one = lines(describe(merge(finished, tmp_path / "one.h5")))
    page = lines(describe(finished))
    assert one["run file"] == str(tmp_path / "one.h5")
    same = (
        "title",
        "status",
        "duration",
        "mean speed",
        "time",
        "device",
        "libraries",
        "sum",
        "dead features",
    )
    assert {name: one[name] for name in same} == {name: page[name] for name in same}
    with pytest.raises(RunDirectoryError, match="no such run directory"):
        describe(tmp_path / "nothing")


def test_files_that_a_run_removes_meanwhile_are_left_out(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Path.rglob
    gone = [run / "checkpoints" / "step_000000000.h5", run / "parts" / ".x.h5.tmp"]
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: [*listed(self, pattern), *gone])
    monkeypatch.setattr(Path, "is_file", lambda self: self in gone or os.path.isfile(self))
    assert lines(describe(run))["size on disk"]


@pytest.mark.parametrize("damage", ["params", "title", "status", "kind", "batch"])
def test_a_damaged_merged_file_is_an_error_that_names_it(finished: Path, tmp_path: Path, damage: str) -> None:
    """Its bytes have no checksums: it is no part of a run directory."""
    one = merge(finished, tmp_path / "one.h5")
    with h5py.File(one, "r+") as file:
        if damage == "batch":
            del file[damage]
        elif damage == "title":
            file.attrs["params"] = json.dumps({"run": {}})
        else:
            file.attrs[damage] = np.arange(3) if damage == "kind" else "{"
            if damage == "status":
                del file.attrs[damage]
    for read in (describe, lambda path: petabatch.open(path).params and describe(path)):
        with pytest.raises(StorageError, match=r"one\.h5: (this file cannot be read|not a run file)"):
            read(one)


def test_dead_features_are_counted(finished: Path, small: Path) -> None:
    (small.parent / "usage.toml").write_text(
        SMALL.replace("dictionary = {}", USAGE).replace('V1 = { variables = ["A", "V"] }', "")
    )
    out = alone(small.parent / "usage.toml", "out", "layers.V1.threshold=100.0")
    found = lines(describe(out))["dead features"]
    assert re.fullmatch(r"dictionary: 8 of 8 features: inactive in the last \d+ recorded updates", found)


def test_of_layers_that_spike_the_silent_units_are_counted(tmp_path: Path) -> None:
    source = {"type": "poisson", "shape": (1, 1, 40), "rate": 0.02}
    found = petabatch.run(
        petabatch.Network(
            run={"steps": 50, "batch": 2},
            layers={"a": source, "b": source, "still": {**source, "rate": 0.0}},
            output={
                "layers": {
                    "a": {"variables": ["spikes"]},
                    "b": {"every": 1},
                    "still": {"variables": ["spikes"]},
                }
            },
        ),
        tmp_path / "run",
    )
    silent = sum(
        not (found.spikes("a", slice=0).counts[n] or found.spikes("a", slice=1).counts[n]) for n in range(40)
    )
    assert 0 < silent < 40
    page = lines(describe(tmp_path / "run"))
    assert "dead features" not in page
    assert page["silent units"] == (
        f"a: {silent} of 40 units: without a spike in 50 recorded steps of all slices"
        " still: 40 of 40 units: without a spike in 50 recorded steps of all slices"
    )


def test_neurons_have_no_dead_features_whether_they_spike_at_the_end_or_not(tmp_path: Path) -> None:
    units = {"type": "neurons", "shape": (1, 1, 3), "equations": "dv/dt = I - v", "spike": "v > 1"}
    units["reset"] = "v = 0"
    network = petabatch.Network(
        run={"steps": 30, "dt": 0.1},
        layers={
            "n": {**units, "parameters": {"I": 1.5}},
            "silent": {**units, "parameters": {"I": 0.5}},
            "lif": {"type": "conductance_lif", "shape": (1, 1, 2)},
            "retina": {"type": "retina", "shape": (1, 1, 2)},
        },
        output={"layers": {name: {"every": 1} for name in ("n", "silent", "lif", "retina")}},
    )
    with petabatch.run(network, tmp_path / "run") as found:
        assert found["layers/n/A"][:].any()
        assert not found["layers/n/A"][-1].any()
        assert not found["layers/silent/A"][:].any()
    assert "dead features" not in lines(describe(tmp_path / "run"))


def test_an_interrupted_run_differs_from_one_that_is_running(run: Path) -> None:
    with h5py.File(run / "run.h5", "r+") as file:
        file.attrs["status"] = "running"
        file.attrs["steps_reached"] = 20
    reseal(run / "run.h5")
    assert lines(describe(run))["status"] == "interrupted: step 20 of 30, display 2 of 3"
    with Claim() as claim:
        claim.take(run)
        page = lines(describe(run))
    assert page["status"] == "running: step 20 of 30, display 2 of 3"
    assert page["duration"].endswith(" left")
    assert page["dates (UTC)"].endswith(" ago")


def test_missing_and_damaged_files_are_named(run: Path) -> None:
    part = next((run / "checkpoints").glob("step_000000030_rank_*"))
    part.write_bytes(part.read_bytes()[:100])
    head = run / "checkpoints" / "step_000000020.h5"
    changed = bytearray(head.read_bytes())
    changed[500] ^= 1
    head.write_bytes(changed)
    next((run / "parts").iterdir()).unlink()
    (run / "inputs.json").unlink()
    found = [line for line in describe(run).splitlines() if line.startswith("damaged")]
    told = describe(run)
    for name in (part.name, head.name, "inputs.json", "parts/steps_"):
        assert name in told[told.index("\ndamaged") :]
    assert len(found) == 4


def test_a_broken_index_leaves_the_rest_of_the_page(run: Path) -> None:
    (run / "run.h5").write_bytes(b"broken")
    page = lines(describe(run))
    assert "run.h5" in page["damaged"]
    assert page["checkpoints"] == "at steps 20, 30"


def test_a_lost_index_is_named_with_the_way_to_make_it_again(run: Path) -> None:
    (run / "run.h5").unlink()
    page = " ".join(describe(run).split())
    assert lines(describe(run))["checkpoints"] == "at steps 20, 30"
    assert "the index of what was recorded is missing" in page
    assert "`petabatch verify --repair" in page
    assert "nothing recorded" not in page


def test_a_run_killed_in_its_first_flush_has_recorded_nothing_and_is_not_damaged(run: Path) -> None:
    def later(name: str) -> bool:
        return name.startswith(("run.h5", "parts/", "checkpoints/")) and "steps_000000000001" not in name

    for path in (path for path in run.rglob("*.h5") if later(str(path.relative_to(run)))):
        path.unlink()
    (run / "run.json").unlink()
    page = lines(describe(run))
    assert page["status"] == "interrupted; nothing recorded yet"
    assert "damaged" not in page


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2026-11-22 19:08:20 stopped at step 3\n    hint:     petabatch resume x\n", "stopped at step 3"),
        (
            "2026-11-22 19:08:20 Traceback:\n  File x\nPartError: wrong\n    found:    3\n\n",
            "PartError: wrong",
        ),
    ],
)
def test_the_last_entry_of_the_log_is_shown_by_its_first_line(run: Path, written: str, shown: str) -> None:
    with (run / "log.txt").open("a") as file:
        file.write(written)
    assert lines(describe(run))["log"].endswith(shown)


def test_a_run_without_its_checkpoints_folder_is_damaged_and_can_be_replaced(run: Path, small: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RunDirectoryError, match="this run is damaged: it has no checkpoints/"):
        describe(run)
    simulation.run(simulation.read(small), run, force=True, mpi=False, quiet=True).close()
    assert "done" in describe(run)


def test_info_imports_neither_numba_nor_pydantic_nor_matplotlib(finished: Path) -> None:
    code = (
        "import sys\nfrom petabatch.main import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "print(sorted({'numba', 'pydantic', 'matplotlib', 'scipy', 'typer'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "info", str(finished)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "A run of constants" in done.stdout


def test_watching_ends_with_the_run(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Claim()
    claim.take(run)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            claim.release()

    monkeypatch.setattr("petabatch.report.watch.time", SimpleNamespace(sleep=pause))
    info(run, watch=True)
    assert len(pauses) == 3
    assert capsys.readouterr().out == describe(run) + "\n"
    assert watch(run) == describe(run)


def test_lines_of_a_watched_page_are_broken_and_its_end_is_left_out_on_a_small_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "5")
    shown = _fitted("\n".join(["x" * 30] * 8))
    assert shown.count("\n") == 4
    assert shown.count("x") == 19 + 11 + 19
    assert "..." in shown


def test_rates_of_points_are_in_hertz_where_the_unit_of_time_is_known(tmp_path: Path) -> None:
    network = Network(
        run=Run(steps=1000, dt=0.5, unit="ms"),
        layers={"fires": Poisson(shape=(1, 1, 100), rate=0.02)},
        probes={"firing": SpikeStatistics(layer="fires", every=1000)},
        sweep=Sweep(**{"layers.fires.rate": [0.02, 0.04]}),
    )
    petabatch.run(network, tmp_path / "run", quiet=True).close()
    head, *rows = describe(tmp_path / "run").partition("points             2\n")[2].splitlines()[:3]
    assert head.split()[-3:] == ["rate", "(Hz)", "CV"]
    rates = [float(row.split()[2]) for row in rows]
    np.testing.assert_allclose(rates, [20, 40], rtol=0.1)
    page = " ".join(petabatch.check(network).text.split())
    assert "1000 steps of 0.5 ms, 500 ms" in page
