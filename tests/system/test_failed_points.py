"""Points of a sweep that are not finite: they fail alone, in waves of any size, on ranks and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

from petabatch import in_memory, plotting, results, simulation
from petabatch.assembly import assembled, initialise
from petabatch.errors import InputError, NonFiniteError
from petabatch.parallel.comm import Serial
from petabatch.plotting.kinds import reason_against
from petabatch.report.information import describe
from petabatch.results import Results
from petabatch.storage.checkpoint import load_checkpoint
from petabatch.storage.wave import SavedWave, load, waves_of
from petabatch.waves import checkpoints
from petabatch.waves.checkpoints import WaveCheckpoints
from support.commands import Command, alone, set_all

STRENGTHS = "sweep.connections.recon_to_error.strength=[1.0, -80.0, 0.5]"
SETTINGS = ("connections.dictionary.learn.every='never'", "run.displays=3", "run.display=400", STRENGTHS)


STRENGTH = "sweep.connections.recon_to_error.strength"
LONG = (
    *("connections.dictionary.learn.every='never'", "run.displays=9", "run.display=20", "checkpoint.keep=19"),
    f"{STRENGTH}=[1.0, -4.0, 0.5]",
)
"""A run in which the numbers of a point grow for some displays before they are no longer finite."""
SHARED = ("connections.dictionary.mode='shared'",)
SELDOM = ("output.layers.V1.every='2 displays'",)
"""Potentials are brought up to date at the end of some displays alone."""
MOODY = """
from typing import Literal

import numpy as np
from petabatch.layers import LCA
from petabatch.spec.parts import Probe, Source


class Moody(Source):
    type: Literal["moody"] = "moody"
    last: float = 99.0
    sound: float = 99.0

    def open(self, shape, batch, seed):
        def read(number, item):
            if item >= self.last:
                raise OSError("the camera is off")
            made = np.random.default_rng([number, item]).normal(size=shape).astype(np.float32)
            return made if item < self.sound else made * np.nan

        return read


class Touchy(Probe):
    type: Literal["touchy"] = "touchy"
    limit: float = 99.0

    def layers(self):
        return ("V1",)

    def quantities(self):
        return {"largest": "of the code"}

    def measure(self, read, xp):
        if read.step > self.limit:
            raise ValueError("beyond the limit")
        return {"largest": read("V1", "A").max(axis=(1, 2, 3))}


class Picky(LCA):
    type: Literal["picky"] = "picky"

    def update(self, ctx, state, drive, previous, activity):
        if self.threshold == 0.3 and ctx.step > 5:
            raise ValueError("0.3 is too much")
        super().update(ctx, state, drive, previous, activity)


class Bounded(LCA):
    type: Literal["bounded"] = "bounded"

    def update(self, ctx, state, drive, previous, activity):
        super().update(ctx, state, drive, previous, activity)
        if activity.max() > 20.0:
            raise ValueError("too much")
"""


def recorded(run: Results) -> dict[str, np.ndarray]:
    """Return all that a run recorded, and what its slices differ in."""
    with run:
        return {name: run[name][...] for name in run} | run.coordinates


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Compare what two runs recorded, to the bit."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].tobytes() == values.tobytes(), name


@pytest.fixture
def in_waves(small: Path) -> dict[str, np.ndarray]:
    """What the same points record that are computed one by one."""
    return recorded(results.open(alone(small, "waves", *SETTINGS, "sweep.wave=1")))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ranks", [0, pytest.param(2, marks=pytest.mark.mpi)])
def test_they_record_what_they_do_in_waves(
    small: Path, petabatch: Command, in_waves: dict[str, np.ndarray], ranks: int
) -> None:
    out = small.parent / "batch"
    done = petabatch("run", small, "--out", out, "-q", *set_all(*SETTINGS), ranks=ranks)
    assert done.returncode == 4, done.stderr
    assert done.stderr.count(": 1 point failed\n") == 1
    assert "rank 0" not in done.stderr
    assert "--retry-failed` makes them again" in done.stderr
    again = petabatch("resume", out)
    assert "all points are finished" in again.stderr
    assert "point 1 failed at step 400" in (out / "log.txt").read_text()
    with results.open(out) as run:
        assert (run.status, run.failed, run.steps_reached) == ("done", 1, 1200)
    assert_same(recorded(results.open(out)), in_waves)
    page = petabatch("info", out).stdout
    assert "2 of 3 points finished, 1 failed\n" in page
    assert "strength -80: step 400: " in page
    with simulation.resume(out, mpi=False, quiet=True, retry_failed=True) as run:
        assert run.failed == 1
    assert_same(recorded(results.open(out)), in_waves)


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let a checkpoint be made whenever slices meet, and a signal come after that of `step`."""
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "_PAUSE", 0.0)
    save = WaveCheckpoints.save

    def saved(waves: WaveCheckpoints, wave: SavedWave) -> None:
        save(waves, wave)
        if wave.step >= step:
            raise KeyboardInterrupt

    monkeypatch.setattr(WaveCheckpoints, "save", saved)


def test_checkpoints_have_them_and_resumed_runs_leave_them_alone(
    small: Path, in_waves: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = small.parent / "batch"
    with monkeypatch.context() as patched:
        stop_at(patched, 800)
        with pytest.raises(KeyboardInterrupt):
            alone(small, "batch", *SETTINGS, "checkpoint.every='display'")
    (file,) = waves_of(out)
    saved = load(file)
    assert saved.step == 800
    assert {number: step for number, (_, step) in saved.failures.items()} == {3: 400, 4: 400, 5: 400}
    assert saved.arrays["layers/image/A"][3:6].any()
    assert all(np.isfinite(array).all() for array in saved.arrays.values() if array.dtype.kind == "f")
    assert_same(recorded(simulation.resume(out, mpi=False, quiet=True)), in_waves)


def test_a_checkpoint_before_they_are_found_has_their_numbers(
    small: Path, in_waves: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, settings = small.parent / "batch", (*SETTINGS, "checkpoint.every='100 steps'")
    with monkeypatch.context() as patched:
        stop_at(patched, 300)
        with pytest.raises(KeyboardInterrupt):
            alone(small, "batch", *settings)
    saved = load(waves_of(out)[0])
    assert (saved.step, saved.failures) == (300, {})
    assert not np.isfinite(saved.arrays["layers/V1/V"][3:6]).all()
    assert_same(recorded(simulation.resume(out, mpi=False, quiet=True)), in_waves)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "how",
    [
        ("run.kernel='lazy'", *SELDOM),
        ("run.kernel='dense'",),
        ("run.kernel='array'",),
        ("run.kernel='dense'", *SHARED, "connections.dictionary.learn.every='display'"),
        ("run.kernel='lazy'", *SHARED, "connections.dictionary.learn.every='2 displays'", *SELDOM),
        ("run.kernel='lazy'", "connections.recon_to_error.delay_steps=3", f"{STRENGTH}=[1.0, -40.0, 0.5]"),
        ("sweep.wave=3", "checkpoint.every=20"),
    ],
)
def test_their_slices_keep_the_state_before_the_display_in_which_they_fail(
    small: Path, how: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare with the checkpoint after the last display at whose end a slice was finite."""
    saved: list[SavedWave] = []
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "_PAUSE", 0.0)
    monkeypatch.setattr(WaveCheckpoints, "save", lambda waves, wave: saved.append(deepcopy(wave)))
    out = alone(small, "swept", *LONG, "checkpoint.every=20", *how)
    states = {wave.step: wave.arrays for wave in saved}
    failed = {number: step for number, (_, step) in saved[-1].failures.items()}
    head = out / "checkpoints" / "step_000000180.h5"
    assert head.exists() == ("sweep.wave=3" not in how)
    if head.exists():
        states[180], meta = load_checkpoint(head, 0, 9)
        assert {number: step for number, _, step in meta["failed"]} == failed
    assert failed.keys() == {3, 4, 5}
    last = max(states)
    assert min(failed.values()) > 20
    assert max(failed.values()) <= last
    for number, step in failed.items():
        expected, found = states[step - 20], states[last]
        assert np.abs(expected["layers/V1/V"][number]).max() > 0
        for key, array in expected.items():
            if len(array) == 9:
                mine, theirs = found[key][number], array[number]
                if key.endswith("/A"):
                    theirs = np.broadcast_to(theirs[(step - 20) % len(theirs)], theirs.shape)
                if key.startswith("lazy/"):  # of the kernel, not of the network
                    theirs = np.zeros_like(theirs)
                assert mine.tobytes() == theirs.tobytes(), (number, key)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("strength", "display", "stop"),
    [
        ("[1.0, -4.0, 0.5]", 20, -18),  # large, but finite
        ("[1.0, -4.0, 0.5]", 20, -20),  # at the end of a display; the sum of squares of V is not finite
        ("[1.0, -80.0, 0.5]", 400, -100),  # not finite already
    ],
)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(("run.kernel='dense'",), marks=pytest.mark.long),
        ("run.kernel='lazy'",),
        pytest.param(("sweep.wave=3",), marks=pytest.mark.long),
    ],
)
def test_resumed_they_end_with_the_same_state(
    small: Path, strength: str, display: int, stop: int, how: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "_PAUSE", 0.0)
    saved: list[SavedWave] = []
    save = WaveCheckpoints.save

    def noted(waves: WaveCheckpoints, wave: SavedWave) -> None:
        saved.append(deepcopy(wave))
        save(waves, wave)
        if wave.step == at:
            raise KeyboardInterrupt

    def last() -> tuple[dict[str, np.ndarray], list[int]]:
        return dict(saved[-1].arrays), [step for _, step in saved[-1].failures.values()]

    monkeypatch.setattr(WaveCheckpoints, "save", noted)
    displays = 9 if display == 20 else 3
    every = "'2 steps'" if display == 20 else "'100 steps'"
    settings = (
        *LONG[:1], f"run.displays={displays}", f"run.display={display}", f"{STRENGTH}={strength}",
        f"checkpoint.every={every}", *how,
    )  # fmt: skip
    at = -1
    alone(small, "whole", *settings)
    expected, failed = last()
    at = min(failed) + stop
    with pytest.raises(KeyboardInterrupt):
        alone(small, "stopped", *settings)
    at = -1
    saved.clear()
    simulation.resume(small.parent / "stopped", mpi=False, quiet=True)
    found, again = last()
    assert again == failed
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        assert found[key].tobytes() == array.tobytes(), key


def raising(small: Path, name: str, *settings: str) -> Path:
    """Run the small network with parts that raise errors."""
    (small.parent / "moody.py").write_text(MOODY)
    return alone(small, name, *SETTINGS[:1], "plugins=['moody.py']", *settings)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_images_and_probes_that_raise_fail_alone(
    small: Path, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (
        "layers.image.source={type='moody'}",
        "probes.touchy={type='touchy', every=5}",
        f"run.kernel='{kernel}'",
    )
    swept = ("sweep.combine='zip'", "sweep.layers.image.source.last=[99.0, 3.0, 0.0, 99.0]",
             "sweep.probes.touchy.limit=[99.0, 99.0, 99.0, 40.0]")  # fmt: skip
    whole = recorded(results.open(raising(small, "whole", *settings)))
    out = raising(small, "swept", *settings, *swept)
    with results.open(out) as run:
        assert run.failed == 3
        assert run.coordinates["failed"][::3].tolist() == [-1, 31, 0, 45]
        why = run.attributes["points"]["why"]
        assert [("the camera is off" in why["1"]), ("the camera" in why["2"]), ("limit" in why["3"])] == [
            True
        ] * 3
        series = run["probes/energy/total"]
        for point, step in ((1, 31), (2, 0), (3, 45)):
            mine = series[...][:, 3 * point : 3 * point + 3]
            assert np.isnan(mine[series.steps >= step]).all()
            assert np.array_equal(
                mine[series.steps < step], whole["probes/energy/total"][series.steps < step]
            )
        assert series[...][:, :3].tobytes() == whole["probes/energy/total"].tobytes()
    waves = recorded(results.open(raising(small, "waves", *settings, *swept, "sweep.wave=4")))
    assert_same(recorded(results.open(out)), waves)
    with monkeypatch.context() as patched:
        stop_at(patched, 20)
        with pytest.raises(KeyboardInterrupt):
            raising(small, "resumed", *settings, *swept)
    again = simulation.resume(small.parent / "resumed", mpi=False, quiet=True)
    assert_same(recorded(again), waves)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ranks", [0, pytest.param(2, marks=pytest.mark.mpi)])
def test_they_fail_alone_on_held_out_images(small: Path, petabatch: Command, ranks: int) -> None:
    held = "evaluate={source={type='noise'}, every='display', displays=%s}"
    swept = ("run.displays=4", f"{STRENGTH}=[1.0, -4.0, 0.5]")
    settings = (*LONG[:1], "run.display=20", *swept, held % 9)
    out = small.parent / "out"
    done = petabatch("run", small, "--out", out, "-q", *set_all(*settings), ranks=ranks)
    assert done.returncode == 4, done.stderr
    with results.open(out) as run:
        assert run.coordinates["failed"][::3].tolist() == [-1, 20, -1]
        assert run.attributes["points"]["why"]["1"] == "evaluate: layer error is no longer finite"
        assert run["probes/evaluate/energy_total"].steps.tolist() == [20, 40, 60, 80]
        assert np.isnan(run["probes/evaluate/energy_total"][...][:, 3:6]).all()
    found = recorded(results.open(out))
    assert_same(found, recorded(results.open(alone(small, "waves", *settings, "sweep.wave=3"))))
    with results.open(alone(small, "sound", *settings[:-1], held % 2)) as run:
        assert run.failed == 0
        sound = run["probes/energy/total"][...]
    others = [0, 1, 2, 6, 7, 8]
    assert found["probes/energy/total"][:, others].tobytes() == sound[:, others].tobytes()


def test_no_figure_is_drawn_of_points_that_have_all_failed(small: Path) -> None:
    settings = ("layers.image.source={type='moody'}", "probes.touchy={type='touchy', every=5}")
    for last, failed in ((40.0, 2), (99.0, 1)):
        out = raising(small, f"failed_{failed}", *settings, f"sweep.probes.touchy.limit=[20.0, {last}]")
        with results.open(out) as run:
            assert run.failed == failed
            if failed == 1:
                assert plotting.sweep(run).axes
                return
            with pytest.raises(InputError, match="since all 2 points failed"):
                plotting.sweep(run)
            assert "points failed; `petabatch info" in reason_against("sweep", run)


def test_info_says_how_many_more_have_failed(small: Path) -> None:
    first = ", ".join(f"{-number}.0" for number in range(12))
    swept = f"sweep.layers.image.source.last=[99.0, {first}]"
    out = raising(small, "out", "layers.image.source={type='moody'}", swept)
    page = describe(out)
    assert page.count(": step 0: ") == 10
    assert " 2 more; the coordinate `failed` has the steps of all\n" in page


def test_first_images_that_are_not_finite_fail_alone(small: Path) -> None:
    settings = ("layers.image.source={type='moody'}", "sweep.layers.image.source.sound=[99.0, 0.0, 1.0]")
    out = raising(small, "swept", *settings)
    with results.open(out) as run:
        assert run.coordinates["failed"][::3].tolist() == [-1, 0, 20]
        assert run.attributes["points"]["why"]["1"] == "layer image is not finite"
    waves = recorded(results.open(raising(small, "waves", *settings, "sweep.wave=2")))
    assert_same(recorded(results.open(out)), waves)
    settings = (*settings[:1], "sweep.layers.image.source.sound=[0.0, -1.0]")
    assert results.open(raising(small, "none", *settings)).failed == 2


@pytest.mark.parametrize("ranks", [0, pytest.param(2, marks=pytest.mark.mpi)])
def test_points_that_have_no_first_image_fail_also_all_of_them(
    small: Path, petabatch: Command, ranks: int
) -> None:
    (small.parent / "moody.py").write_text(MOODY)
    for last, steps in (("[0.0, -1.0]", [0] * 6), ("[0.0, 99.0]", [0, 0, 0, -1, -1, -1])):
        settings = (*SETTINGS[:1], "plugins=['moody.py']", "layers.image.source={type='moody'}")
        swept = f"sweep.layers.image.source.last={last}"
        out = small.parent / f"out{sum(steps)}"
        done = petabatch("run", small, "--out", out, "-q", *set_all(*settings, swept), ranks=ranks)
        assert done.returncode == 4, done.stderr
        assert "point 0 failed at step 0: " in done.stderr
        assert "the camera is off" in done.stderr
        assert results.open(out).coordinates["failed"].tolist() == steps


def test_images_that_are_not_there_are_refused_before_anything_is_written(small: Path) -> None:
    settings = (*SETTINGS[:1], "layers.image.source.file='nothing.npy'", STRENGTHS)
    with pytest.raises(InputError, match=r"nothing\.npy"):
        alone(small, "out", *settings)
    assert not (small.parent / "out").exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("layer", "swept", "bad", "good"),
    [  # each point has a layer of its own, or all have one, whose update has all of them
        ("picky", "layers.V1.threshold=[0.4, 0.3, 0.5]", "0.3", "0.6"),
        ("bounded", "connections.image_to_error.strength=[1.0, 40.0, 0.5]", "40.0", "1.1"),
    ],
)
def test_an_update_that_raises_fails_its_point_alone_as_in_waves(
    small: Path, layer: str, swept: str, bad: str, good: str
) -> None:
    settings = (f"layers.V1.type='{layer}'", f"sweep.{swept}")
    out = raising(small, "out", *settings)
    with results.open(out) as run:
        failed = run.coordinates["failed"][::3].tolist()
        assert "too much" in run.attributes["points"]["why"]["1"]
    assert (failed[0], failed[2]) == (-1, -1)
    assert failed[1] > 0
    found = recorded(results.open(out))
    assert_same(found, recorded(results.open(raising(small, "waves", *settings, "sweep.wave=2"))))
    sound = recorded(results.open(raising(small, "sound", *settings[:1], settings[1].replace(bad, good))))
    others = [0, 1, 2, 6, 7, 8]
    for name in ("layers/V1/A", "probes/energy/total"):
        assert found[name][:, others].tobytes() == sound[name][:, others].tobytes()


COUNTED = """
[run]
batch = 1
steps = 60
display = 20

[layers.p]
type = "poisson"
shape = [1, 1, 50]
rate = 50.0

[probes.firing]
type = "strict"
layer = "p"
every = 10

[output.layers]
p = { variables = ["spikes"] }
"""
STRICT = """
from typing import Literal

from petabatch.probes import SpikeStatistics


class Strict(SpikeStatistics):
    type: Literal["strict"] = "strict"
    until: float = 99.0
    most: float = 9e9

    @property
    def slicewise(self):
        return True

    def measure(self, read, xp):
        if read.step > self.until or (read.own("spikes") > self.most).any():
            raise ValueError("too late, or too many")
        return super().measure(read, xp)
"""


@pytest.mark.parametrize(
    ("swept", "sound", "failing", "last"),
    [  # each slice has a probe of its own, or all have the same, which may measure them together
        ("probes.firing.until", "[99.0, 98.0, 97.0]", ("[99.0, 25.0, 97.0]", 9e9), 30),
        ("layers.p.rate", "[0.1, 0.8, 0.1]", ("[0.1, 0.8, 0.1]", 150.0), 10),
    ],
)
def test_no_event_is_recorded_twice_where_a_probe_raises(
    tmp_path: Path, swept: str, sound: str, failing: tuple[str, float], last: int
) -> None:
    file = tmp_path / "net.toml"
    file.write_text('plugins = ["strict.py"]\n' + COUNTED)
    (tmp_path / "strict.py").write_text(STRICT)
    events = []
    for name, values, most in (("sound", sound, 9e9), ("one", *failing)):
        out = alone(file, name, f"sweep.{swept}={values}", f"probes.firing.most={most}")
        with results.open(out) as run:
            assert run.failed == (name == "one")
            found = [run.spikes("p", slice=number) for number in range(3)]
            events.append([np.stack([one.steps, one.units], axis=1) for one in found])
    for number, (whole, mine) in enumerate(zip(*events, strict=True)):
        assert len(whole)
        end = last if number == 1 else 60
        assert np.array_equal(mine, whole[whole[:, 0] <= end]), number


def test_slices_that_start_from_another_run_have_it_as_their_last_finite_state(small: Path) -> None:
    first = alone(small, "first", *SETTINGS[:1], "run.displays=2", "run.display=20")
    more = ("run.displays=4", "run.display=20", "run.batch_change='reset'", f"run.start_from={first}")
    loaded = simulation.read(small, [*SETTINGS[:1], *more, f"{STRENGTH}=[1.0, 0.5]"])
    loaded, assembly = assembled(loaded, Serial(), 1)
    engine = assembly.planned(tolerant=True).engine()
    initialise(engine, loaded)
    kept = engine.state.kept()
    assert kept.pop("last_finite/step").tolist() == [40] * 6
    assert "last_finite/layers/image/A" in kept
    for key, array in kept.items():
        assert array.tobytes() == engine.state.arrays[key.removeprefix("last_finite/")].tobytes(), key


def test_a_run_that_starts_from_theirs_is_told(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = alone(small, "first", *SETTINGS)
    with caplog.at_level("WARNING", "petabatch"):
        alone(small, "second", *SETTINGS[:1], "run.displays=4", *SETTINGS[2:], f"run.start_from={first}")
    assert "slices 3, 4, 5 had failed there, and begin from their last finite state" in caplog.text


def test_without_a_sweep_they_end_the_run(small: Path, petabatch: Command) -> None:
    settings = (*SETTINGS[:3], "connections.recon_to_error.strength=-80.0")
    done = petabatch("run", small, "--out", small.parent / "one", "-q", *set_all(*settings))
    assert done.returncode == 1
    assert "is no longer finite at step 400" in done.stderr


def test_in_memory_they_end_the_run_with_their_number(small: Path) -> None:
    with pytest.raises(NonFiniteError, match="of slice 3 is no longer finite") as ended:
        in_memory.run(simulation.read(small, SETTINGS))
    assert "note:     this is point 1\n    hint:     petabatch.sweep yields" in str(ended.value)


def test_points_start_each_from_a_run_or_from_those_of_a_sweep(small: Path) -> None:
    """With the bits of their own runs, and with spikes and records of the steps since."""
    more = (*SETTINGS[:1], "run.display=20")
    swept = f"{STRENGTH}=[1.0, 0.5]"
    first = alone(small, "first", *more, "run.displays=2")
    each = recorded(
        results.open(alone(small, "each", *more, "run.displays=4", swept, f"run.start_from={first}"))
    )
    own = recorded(
        results.open(alone(small, "own", *more, "run.displays=4", "connections.recon_to_error.strength=0.5",
                           f"run.start_from={first}"))
    )  # fmt: skip
    for name in ("layers/V1/A", "probes/energy/total"):
        assert each[name][:, 3:].tobytes() == own[name].tobytes()
    half = alone(small, "half", *more, "run.displays=2", swept)
    for wave in ((), ("sweep.wave=1",)):
        name = f"on{len(wave)}"
        found = recorded(
            results.open(alone(small, name, *more, "run.displays=4", swept, *wave, f"run.start_from={half}"))
        )
        whole = recorded(results.open(alone(small, f"whole{len(wave)}", *more, "run.displays=4", swept)))
        for path in ("layers/V1/A", "probes/energy/total"):
            assert whole[path][-len(found[path]) :].tobytes() == found[path].tobytes()
