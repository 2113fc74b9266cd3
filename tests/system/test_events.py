"""Spikes recorded as events: the same in any mode, number of ranks and after any kill, for every reader."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import h5py
import numpy as np
import pytest

import petabatch
from petabatch import in_memory, plotting, simulation
from petabatch.engine import assembly
from petabatch.errors import NotRecorded, ParamsError, StoppedEarly
from petabatch.report.integrity import verify
from petabatch.session import RunSession
from petabatch.storage.merge import merge
from petabatch.storage.wave import SavedWave
from petabatch.waves import checkpoints
from support.gpu_emulation import COMPILER, NO_COMPILER
from support.gpu_runs import window
from support.mpirun import mpirun

PARAMS = """
[run]
steps = 240
display = 60
dt = 0.5
batch = 3

[layers.e]
type = "neurons"
shape = [2, 1, 15]
equations = "dv/dt = (12 - v + I) / 20 : unless refractory"
currents = ["I"]
spike = "v > 10"
reset = "v = 0"
refractory = 2.0
start = { v = { type = "uniform", high = 10.0, per_slice = true } }

[layers.p]
type = "poisson"
shape = [1, 1, 4]
rate = 2.5

[connections.ee]
type = "sparse"
pre = "e"
post = "e"
target = "v"
probability = 0.2
delays = { type = "uniform", low = 0.5, high = 40.0 }
init = { type = "constant", value = 0.5 }

[connections.pe]
type = "sparse"
pre = "p"
post = "e"
target = "v"
probability = 0.5
init = { type = "constant", value = 0.05 }

[probes.firing]
type = "spike_statistics"
layer = "e"
every = 70
least = 1

[output]
flush = "display"

[checkpoint]
every = "display"

[output.layers]
e = { every = 40, variables = ["spikes", "A", "v"] }
p = { variables = ["spikes"] }
"""
DENSE = ['output.layers.e.variables=["A"]', "output.layers.e.every=1", 'output.layers.p.variables=["A"]',
         "output.layers.p.every=1"]  # fmt: skip
COLUMNS = ("step", "time", "unit", "slice")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("events") / "net.toml"
    path.write_text(PARAMS)
    return path


@pytest.fixture(scope="module")
def whole(file: Path) -> Path:
    with simulation.run(file, file.parent / "whole", quiet=True) as run:
        assert run.status == "done"
    return file.parent / "whole"


def columns(file: Path, layer: str) -> dict[str, np.ndarray]:
    with h5py.File(file) as opened:
        return {name: opened[f"spikes/{layer}/{name}"][()] for name in COLUMNS}


def contents(folder: Path) -> dict[str, np.ndarray]:
    with h5py.File(folder / "run.h5") as opened:
        found: dict[str, np.ndarray] = {}
        opened.visititems(
            lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
        )
        return found


def assert_same(folder: Path, whole: Path) -> None:
    mine, others = contents(folder), contents(whole)
    assert mine.keys() == others.keys()
    for name, values in others.items():
        np.testing.assert_array_equal(mine[name], values, err_msg=name)


@pytest.mark.parametrize("layer", ["e", "p"])
def test_events_are_the_spikes_of_all_steps(layer: str, file: Path, whole: Path) -> None:
    dense = in_memory.run(simulation.read(file, DENSE)).recorded[f"layers/{layer}/A"]
    values = np.asarray(dense).reshape(*dense.shape[:2], -1)
    step, slice_, unit = np.nonzero(values)
    many = values[step, slice_, unit].astype(int)
    found = columns(whole / "run.h5", layer)
    np.testing.assert_array_equal(found["step"], np.repeat(step + 1, many))
    np.testing.assert_array_equal(found["slice"], np.repeat(slice_, many))
    np.testing.assert_array_equal(found["unit"], np.repeat(unit, many))
    np.testing.assert_array_equal(found["time"], found["step"] * 0.5)
    assert len(found["step"]) > 100
    assert (many > 1).any() == (layer == "p")
    with petabatch.open(whole) as run:
        if layer == "p":  # its activity is made of the events
            np.testing.assert_array_equal(run.layer("p")[...], dense)
            np.testing.assert_array_equal(run.layer("p")[7:90:3, -1, 0], np.asarray(dense)[7:90:3, -1, 0])
            np.testing.assert_array_equal(run.layer("p")[-1, ..., 2], np.asarray(dense)[-1, ..., 2])
            np.testing.assert_array_equal(run.layer("p").at(step=13, slice=1), np.asarray(dense)[12, 1])
            with pytest.raises(NotRecorded, match="cannot be read"):
                run.layer("p")["x"]
        spikes = run.spikes(layer, slice=1)
        np.testing.assert_array_equal(spikes.steps, found["step"][found["slice"] == 1])
        np.testing.assert_array_equal(spikes.units, found["unit"][found["slice"] == 1])
        assert (spikes.recorded, spikes.size) == (240, values.shape[2])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("override", ["run.kernel=array", "run.precision=float64", "run.threads=1"])
def test_every_kernel_records_the_same_columns(override: str, file: Path) -> None:
    run = in_memory.run(simulation.read(file, [override]))
    dense = in_memory.run(simulation.read(file, [*DENSE, override])).recorded["layers/p/A"]
    values = np.asarray(dense).reshape(*dense.shape[:2], -1).astype(int)
    step, slice_, unit = np.nonzero(values)
    np.testing.assert_array_equal(run.recorded["spikes/p/unit"], np.repeat(unit, values[step, slice_, unit]))
    assert run.steps["spikes/e/unit"].size == run.recorded["spikes/e/slice"].size


def test_the_probe_measures_rates_and_intervals_since_its_last_measurement(whole: Path) -> None:
    with petabatch.open(whole) as run:
        probe = run.probe("firing")
        assert probe["rate"].steps.tolist() == [70, 140, 210]
        for slice_ in range(3):
            spikes = run.spikes("e", slice=slice_)
            for row, end in enumerate(probe["rate"].steps):
                within = (spikes.steps > end - 70) & (spikes.steps <= end)
                rate = within.sum() / (30 * 70 * 0.5)
                spans, variations = [], []
                for unit in range(30):
                    steps = spikes.steps[spikes.units == unit]
                    mine = np.diff(steps)[(steps[1:] > end - 70) & (steps[1:] <= end)] * 0.5
                    spans += mine.tolist()
                    variations += [mine.std() / mine.mean()] if mine.size else []
                expected = [rate, np.mean(spans), np.mean(variations)]
                found = [probe[name][row, slice_] for name in ("rate", "isi", "cv")]
                np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_probes_count_without_records_and_in_any_mode(file: Path, whole: Path) -> None:
    with petabatch.open(whole) as run:
        expected = {name: series[...] for name, series in run.probe("firing").items()}
    for extra in ([], ["run.threads=1"]):
        output = ['output.layers.e.variables=["v"]', 'output.layers.p.variables=["A"]', *extra]
        found = in_memory.run(simulation.read(file, output))
        for name, values in expected.items():
            np.testing.assert_array_equal(found.probe("firing")[name][...], values)
        assert not any(name.startswith("spikes/") for name in found)


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
def test_events_and_statistics_on_a_gpu_are_those_of_the_cpu(
    file: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = simulation.read(file).network
    half = net.model_copy(update={"run": net.run.model_copy(update={"steps": 101})})
    gpu = window(2, net)  # of three slices
    monkeypatch.setattr(assembly, "choose", lambda run, comm: gpu if run.run.device == "gpu" else None)
    first = in_memory.run(half, device="gpu")
    second = in_memory.run(net, start=first.end)
    for layer, name in product(("e", "p"), COLUMNS[1:]):
        joined = [one.recorded[f"spikes/{layer}/{name}"] for one in (first, second)]
        np.testing.assert_array_equal(np.concatenate(joined), columns(whole / "run.h5", layer)[name])
    with petabatch.open(whole) as run:
        for name, series in run.probe("firing").items():
            joined = [one.probe("firing")[name][...] for one in (first, second)]
            np.testing.assert_array_equal(np.concatenate(joined), series[...])


def test_a_run_goes_on_in_memory_with_spikes_under_way(file: Path) -> None:
    net = simulation.read(file).network
    half = net.model_copy(update={"run": net.run.model_copy(update={"steps": 101})})
    both = in_memory.run(net)
    first = in_memory.run(half)
    second = in_memory.run(net, start=first.end)
    for name in ("unit", "slice", "time"):
        joined = np.concatenate([one.recorded[f"spikes/e/{name}"] for one in (first, second)])
        np.testing.assert_array_equal(joined, both.recorded[f"spikes/e/{name}"])
    assert (second.spikes("e").recorded, first.spikes("e").recorded) == (139, 101)
    assert second.layer("p").steps[0] == 102


def test_steps_that_are_undone_leave_no_events(file: Path) -> None:
    expected = in_memory.run(file).recorded["spikes/e/unit"]

    class Stop(Exception):
        pass

    with petabatch.Simulator(file, mpi=False) as sim:  # with spikes under way, too
        sim.run(33, quiet=True)
        engine = sim._live.engine
        meet, calls = engine.meet, []

        def failing(stop: int) -> None:
            if not calls:
                calls.append(stop)
                raise Stop
            meet(stop)

        engine.meet = failing  # type: ignore[method-assign]
        with pytest.raises(Stop):
            sim.run(50, quiet=True)
        sim.run(240, quiet=True)
        np.testing.assert_array_equal(sim.recorded["spikes/e/unit"], expected)


@pytest.fixture
def stopped(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with monkeypatch.context() as patched:
        patched.setattr(RunSession, "_out_of_time", lambda self: True)
        with pytest.raises(StoppedEarly):
            simulation.run(simulation.read(file, ["run.seed=1"]), tmp_path / "run", quiet=True)
    return tmp_path / "run"


def test_a_run_is_resumed_with_events_pending(stopped: Path, whole: Path) -> None:
    part = columns(stopped / "run.h5", "e")
    assert 0 < part["step"][-1] <= 60
    with h5py.File(next((stopped / "checkpoints").glob("step_*60.h5"))) as head:
        assert head["connections/ee/pending"][()].any()
        assert head["probes/firing/spikes"][()].all()
    petabatch.resume(stopped, quiet=True).close()
    assert_same(stopped, whole)


def test_events_are_merged_compacted_and_read_by_others(whole: Path, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    expected = columns(whole / "run.h5", "e")
    merged = merge(whole, tmp_path / "one.h5")
    for name, values in columns(merged, "e").items():
        np.testing.assert_array_equal(values, expected[name])
    tree = xarray.open_datatree(merged, engine="h5netcdf")
    data = tree["spikes/e"].to_dataset()
    assert data["unit"].dims == ("step",)
    mine = data.where(data["slice"] == 2, drop=True)
    np.testing.assert_array_equal(mine["time"], expected["time"][expected["slice"] == 2])
    np.testing.assert_array_equal(data.sel(step=slice(11, 20))["step"], [
        one for one in expected["step"] if 11 <= one <= 20
    ])  # fmt: skip
    tree.close()
    with petabatch.open(merged) as run:
        assert len(run.spikes("e")) == (expected["slice"] == 0).sum()
        for draw in (plotting.raster, plotting.correlation):
            draw(run, layers=["p"])


@pytest.mark.long
def test_many_flushes_are_compacted_without_a_change(file: Path, whole: Path, tmp_path: Path) -> None:
    overrides = ["output.flush=1", "checkpoint.every=100"]
    simulation.run(simulation.read(file, overrides), tmp_path / "run", quiet=True).close()
    assert len(list((tmp_path / "run" / "parts").iterdir())) < 130
    assert_same(tmp_path / "run", whole)


def test_a_lost_segment_leaves_a_gap(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    (segment,) = (folder / "parts").glob("steps_*61-*120_*.h5")
    segment.write_bytes(segment.read_bytes()[:1000])
    for checkpoint in (folder / "checkpoints").iterdir():
        checkpoint.unlink()
    verify(folder, True)
    expected, found = columns(whole / "run.h5", "e"), columns(folder / "run.h5", "e")
    kept = (expected["step"] <= 60) | (expected["step"] > 120)
    np.testing.assert_array_equal(found["unit"], expected["unit"][kept])
    with petabatch.open(folder) as run:
        assert run.gaps == [(61, 120)]
        assert run.spikes("p").recorded == 180
        assert run.layer("p").steps.tolist() == [*range(1, 61), *range(121, 241)]


@pytest.mark.parametrize("rates", [[2.5, 1.0, 2.5], [0.0, 1.0, 2.5]])
@pytest.mark.parametrize("wave", [1, 2, 3])
def test_points_record_the_events_of_their_own_runs(
    wave: int, rates: list[float], file: Path, whole: Path, tmp_path: Path
) -> None:
    """Points of the same values and without spikes, too."""
    swept = simulation.read(file, [f"sweep.layers.p.rate={rates}", f"sweep.wave={wave}"])
    with simulation.run(swept, tmp_path / "run", quiet=True) as run, petabatch.open(whole) as own:
        assert run["spikes/e/unit"].steps.tolist() == sorted(run["spikes/e/unit"].steps.tolist())
        for layer, slice_ in product(("e", "p"), range(3)):
            for name in ("steps", "units", "times"):
                found = getattr(run.spikes(layer, slice=6 + slice_), name)
                np.testing.assert_array_equal(found, getattr(own.spikes(layer, slice=slice_), name))
        assert (len(run.spikes("p", slice=1)) == 0) == (rates[0] == 0)
        np.testing.assert_array_equal(run["probes/firing/rate"][:, 6:], own["probes/firing/rate"][...])


def test_points_that_start_from_a_run_have_its_rates(file: Path, whole: Path, tmp_path: Path) -> None:
    """They record one step fewer than there are from that of the checkpoint on."""
    settings = [f"run.start_from={whole}", "run.steps=250"]
    swept = simulation.read(file, [*settings, "sweep.layers.p.rate=[2.5, 1.0]"])
    with (
        simulation.run(swept, tmp_path / "swept", quiet=True) as run,
        simulation.run(simulation.read(file, settings), tmp_path / "own", quiet=True) as own,
    ):
        assert own.spikes("e").recorded == run.spikes("e").recorded == 10
        assert own.spikes("e").rates.any()
        np.testing.assert_array_equal(run.spikes("e").rates, own.spikes("e").rates)


def test_a_wave_that_was_killed_goes_on_with_its_events(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = simulation.read(file, ["sweep.layers.p.rate=[2.5, 1.0]", "sweep.wave=2"])
    simulation.run(swept, tmp_path / "whole", quiet=True).close()
    save = checkpoints.WaveCheckpoints.save

    def kill(self: checkpoints.WaveCheckpoints, saved: SavedWave) -> None:
        save(self, saved)
        if saved.step >= 180:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "_EVERY", 0.0)
        patched.setattr(checkpoints, "_PAUSE", 0.0)
        patched.setattr(checkpoints.WaveCheckpoints, "save", kill)
        with pytest.raises(KeyboardInterrupt):
            simulation.run(swept, tmp_path / "killed", quiet=True)
    simulation.resume(tmp_path / "killed", quiet=True).close()
    for layer in ("e", "p"):
        expected, found = (columns(tmp_path / name / "run.h5", layer) for name in ("whole", "killed"))
        for name in COLUMNS:
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_pool_records_the_same_events(threads: int, file: Path, tmp_path: Path) -> None:
    settings = ["run.batch=7"]
    simulation.run(simulation.read(file, settings), tmp_path / "whole", quiet=True).close()
    pooled = simulation.read(file, [*settings, "run.pool=true"])
    simulation.run(pooled, tmp_path / "pool", threads=threads, quiet=True).close()
    for layer in ("e", "p"):
        expected, found = (columns(tmp_path / name / "run.h5", layer) for name in ("whole", "pool"))
        for name in COLUMNS:
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (['output.layers.p.variables=["spike"]'], "spikes"),
        (["probes.firing.layer=q"], r"probes\.firing.*no layer"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    overrides: list[str], message: str, file: Path, tmp_path: Path
) -> None:
    with pytest.raises(ParamsError, match=message):
        simulation.run(simulation.read(file, overrides), tmp_path / "run", quiet=True)


def test_a_probe_of_a_layer_without_spikes_is_refused() -> None:
    with pytest.raises(ParamsError, match=r"this layer does not spike(.|\n)*found: +x, of type linear"):
        in_memory.run(
            petabatch.Network.model_validate(
                {
                    "run": {"steps": 2},
                    "layers": {"x": {"type": "linear", "shape": [1, 1, 2]}},
                    "probes": {"p": {"type": "spike_statistics", "layer": "x", "every": 1}},
                }
            )
        )


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_record_the_same_events(ranks: int, file: Path, whole: Path, tmp_path: Path) -> None:
    done = mpirun(ranks, "-m", "petabatch", "run", file, "--out", tmp_path / "run", "--mpi", "--quiet")
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "run", whole)


@pytest.mark.long
def test_ranks_that_are_killed_lose_no_events(file: Path, tmp_path: Path) -> None:
    """Runs on two and three ranks are killed again and again, and resumed on other numbers of them."""
    overrides = ["-s", "run.steps=6000", "-s", "run.stuck_after=1m"]
    simulation.run(simulation.read(file, overrides[1::2]), tmp_path / "whole", quiet=True).close()
    folder, first, kills = tmp_path / "run", ["run", str(file), "--out", str(tmp_path / "run"), *overrides], 0
    for attempt in range(40):
        started = (folder / "params.json").exists()
        what = ["resume", str(folder)] if started else first
        launcher = [str(Path(sys.executable).parent / "mpirun"), "-n", str(1 + attempt % 3)]
        command = [*launcher, sys.executable, "-m", "petabatch", *what, "--mpi", "--quiet"]
        process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        seen = _segments(folder)
        while process.poll() is None and _segments(folder) < seen + 12 and time.monotonic() < deadline:
            time.sleep(0.005)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        _, errors = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode < 0 or "Kill" in errors or kills, errors
        if (folder / "run.h5").exists():
            text, sound = verify(folder, False)
            assert sound, text
    assert kills >= 3
    assert_same(folder, tmp_path / "whole")


def _segments(folder: Path) -> int:
    try:
        return max((int(one.name[6:18]) for one in (folder / "parts").glob("steps_*.h5")), default=0) // 60
    except OSError:
        return 0
