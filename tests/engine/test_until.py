"""Displays that end when a code is certified: what rests, what is recorded and learned, and the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from petabatch import results, simulation
from petabatch.connections import Conv, Identity, Pool, Sparse, Transpose
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.steppers.program.workspace import Workspace
from petabatch.errors import ParamsError
from petabatch.kernels.cpu.program.lazy.layout import COMPUTED
from petabatch.layers import LCA, HeavyBall, Input, KneeTimeScale, Linear, Rectified
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.slices import sliced
from petabatch.parallel.comm import Comm, Serial
from petabatch.probes import L1, Energy, Optimality
from petabatch.spec.network import LayerOutput, Network, Output, Parallel, Until
from petabatch.spec.schedule import DISPLAY as DISPLAY_PERIOD
from petabatch.spec.sweep import Sweep
from petabatch.weights import Gaussian, Uniform
from support.commands import Command, alone, contents, set_all
from support.networks import GivenImages, assert_same, collect, images, lca_network, simulate
from support.rank_threads import on_threads
from support.swept_units import STRENGTH, swept

Recorded = dict[str, np.ndarray]
GAP, DISPLAY = 0.12, 60
UNTIL = Until(gap=GAP, every=5)
SHAPE = (6, 8, 12)
CODES: dict[str, Any] = {
    "lca": LCA(shape=SHAPE, tau=5.0, threshold=0.4),
    "heavy_ball": HeavyBall(shape=SHAPE, tau=20.0, threshold=0.4, beta=0.7),
    "knee": LCA(
        shape=SHAPE,
        tau=5.0,
        threshold=0.4,
        time_scale=KneeTimeScale(energy="energy", minimum=0.5, maximum=1.0),
    ),
}

CERTIFICATE = """
[probes.optimality]
type = "optimality"
image = "image"
reconstruction = "recon"
code = "V1"
drive = "drive"
coefficient = 0.3
every = "display"
"""
"""Of `small.toml`."""


def network(
    slices: int = 3,
    code: str = "lca",
    until: Until | None = UNTIL,
    learn: bool = False,
    every: Any = "display",
    displays: int = 2,
    first: int = 0,
    display: int = DISPLAY,
    **keys: Any,
) -> Network:
    """Return the sparse-coding network of slices `first` and on, with its certificate and a delayed copy."""
    data = images(first + slices, 3)[first:]
    net = lca_network(data, display=display, displays=displays, learn=learn, until=until, **keys)
    certificate = Optimality(
        image="image", reconstruction="recon", code="V1", drive="drive", coefficient=0.4, every="never"
    )
    return net.model_copy(
        update={
            "layers": {**net.layers, "V1": CODES[code]},
            "probes": {
                "optimality": certificate.model_copy(update={"every": LayerOutput(every=every).every}),
                "energy": Energy(error="error", code="V1", coefficient=0.4),
            },
            "output": Output(
                layers={
                    "V1": LayerOutput(every=every, variables=("A", "V")),
                    "recon": LayerOutput(every=every),
                },
                connections=net.output.connections,
            ),
        }
    )


def delayed(net: Network) -> Network:
    """Return the network with a layer that sees the code of three steps before."""
    return net.model_copy(
        update={
            "layers": {**net.layers, "late": Linear(shape=SHAPE)},
            "connections": {**net.connections, "late": Identity(pre="V1", post="late", delay_steps=3)},
        }
    )


@pytest.mark.parametrize("code", ["lca", "heavy_ball", "knee"])
def test_a_slice_rests_from_the_first_look_that_meets_the_gap_to_the_end_of_its_display(code: str) -> None:
    _, free = simulate(delayed(network(code=code, until=None, every=1, displays=1)))
    _, found = simulate(delayed(network(code=code, every=1, displays=1)))
    gaps = free["probes/optimality/relative_gap"]
    for number in range(3):
        met = next(step for step in range(5, DISPLAY + 1, 5) if gaps[step - 1, number] <= GAP)
        assert met < DISPLAY
        assert found["probes/until/steps"][0, number] == met
        assert found["probes/until/gap"][0, number] == pytest.approx(gaps[met - 1, number], abs=1e-6)
        for path, values in free.items():
            if path.startswith("connections/"):
                continue
            expected = np.concatenate([values[:met], np.repeat(values[met - 1 : met], DISPLAY - met, axis=0)])
            np.testing.assert_array_equal(found[path][:, number], expected[:, number], err_msg=path)
    assert len(set(found["probes/until/steps"][0])) > 1


def test_a_display_that_does_not_meet_its_gap_has_all_its_steps() -> None:
    _, free = simulate(network(until=None, every=1))
    _, found = simulate(network(until=Until(gap=1e-9, every=7), every=1))
    for path, values in free.items():
        np.testing.assert_array_equal(found[path], values, err_msg=path)
    np.testing.assert_array_equal(found["probes/until/steps"], np.full((2, 3), DISPLAY))
    measured = found["probes/optimality/relative_gap"][DISPLAY - 1 :: DISPLAY]
    np.testing.assert_allclose(found["probes/until/gap"], measured, atol=1e-6)


def test_activity_of_earlier_steps_rests_too() -> None:
    engine, found = simulate(delayed(network(displays=1)))
    assert (found["probes/until/steps"] < DISPLAY).all()
    kept = engine.state.arrays["layers/V1/A"]
    assert kept.shape[1] == 4
    np.testing.assert_array_equal(kept, np.repeat(kept[:, :1], 4, axis=1))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kernel", ["auto", "array"])
@pytest.mark.parametrize(
    ("total", "delay", "longest"), [(3, 0, 3), (3, 0, 20), (3, 2, 1), (3, 2, 45), (50, 10, 40), (50, 10, 60)]
)
def test_spikes_in_transit_arrive_after_a_rest_as_through_a_delay(
    kernel: str, total: int, delay: int, longest: int
) -> None:
    net, units = network(every=1, kernel=kernel), np.arange(np.prod(SHAPE))
    # Beside a synapse of each unit one of weight 0 that is later.
    weights = np.append(np.ones(units.size), 0.0)
    delays = np.append(np.full(units.size, float(total - delay)), longest)
    synapses = Sparse(
        pre="V1", post="spikes", delay_steps=delay, matrix=(*(np.append(units, 0),) * 2, weights, delays)
    )
    update = {
        "layers": {**net.layers, "spikes": Linear(shape=SHAPE)},
        "connections": {**net.connections, "spikes": synapses},
        "output": Output(layers={name: LayerOutput(every=1) for name in ("V1", "spikes")}),
    }
    net = net.model_copy(update=update)
    engine, found = simulate(net)
    made = found["probes/until/steps"]
    assert made.min() < DISPLAY - 20
    sent, arrived = (np.asarray(found[f"layers/{name}/A"]) for name in ("V1", "spikes"))
    for display, number in np.ndindex(*made.shape):
        for step in range(display * DISPLAY, display * DISPLAY + int(made[display, number])):
            expected = sent[step - total, number] if step >= total else np.zeros(SHAPE)
            np.testing.assert_array_equal(arrived[step, number], expected)
    assert np.abs(arrived).max() > 0.5
    certificate = net.probes["optimality"].model_copy(update={"every": DISPLAY_PERIOD})
    unobserved = {"output": Output(), "probes": {"optimality": certificate}}  # a slice rests in one go
    quiet, _ = simulate(net.model_copy(update=unobserved))
    for key in ("connections/spikes/pending", "layers/spikes/A"):
        np.testing.assert_array_equal(quiet.state.arrays[key], engine.state.arrays[key])


@pytest.mark.parametrize("split", [Parallel(rows=2), Parallel(features=2)], ids=str)
def test_spikes_in_transit_while_ranks_that_share_a_slice_rest(split: Parallel) -> None:
    def pending(split: Parallel, ranks: int) -> np.ndarray:
        net = network(kernel="auto")
        delays, init = Uniform(low=1.0, high=40.0), Gaussian(std=0.2)
        late = Sparse(pre="V1", post="spikes", probability=0.2, delay_steps=2, delays=delays, init=init)
        update = {
            "layers": {**net.layers, "spikes": Linear(shape=SHAPE)},
            "connections": {**net.connections, "spikes": late},
            "parallel": split,
        }
        plan = schedule(build(net.model_copy(update=update)))

        def final(comm: Comm) -> np.ndarray:
            engine = Assembly(plan, comm, 1, None).engine()
            engine.start()
            for step in drive(engine):
                engine.recorder.take(step)
            assert (engine.state.arrays["until/steps"] < DISPLAY).all()
            return np.array(engine.state.arrays["connections/spikes/pending"])

        return on_threads(ranks, final)[0]

    ranks = split.rows * split.features
    np.testing.assert_allclose(pending(split, ranks), pending(Parallel(), 1), rtol=0, atol=4e-6)


def test_what_is_around_an_image_is_that_of_its_display_after_a_rest() -> None:
    wide, delay = images(1, 3, shape=(14, 18, 3)), 50  # steps, more than a display takes

    def seen(kernel: str) -> np.ndarray:
        net = network(1, displays=3, kernel=kernel)
        image = Input(shape=(12, 16, 3), border="image", source=GivenImages(data=wide))
        around = Conv(pre="image", post="around", patch=(3, 3), delay_steps=delay, init=Gaussian(std=0.3))
        update = {
            "layers": {**net.layers, "image": image, "around": Linear(shape=(12, 16, 2))},
            "connections": {**net.connections, "around": around},
            "output": Output(),  # so that a call makes a whole display
        }
        engine, found = simulate(net.model_copy(update=update))
        made = found["probes/until/steps"][:, 0]
        assert made[2] < delay < DISPLAY < delay + made[2] + made[1]  # it sees a step that was not made
        return np.asarray(engine.state.arrays["layers/around/A"])

    np.testing.assert_allclose(seen("auto"), seen("array"), atol=1e-5)


def test_learning_sees_the_finished_codes_at_the_end_of_the_display() -> None:
    made = simulate(network(1, displays=1))[1]["probes/until/steps"][0, 0]
    _, found = simulate(network(1, learn=True, displays=1))
    _, short = simulate(network(1, learn=True, displays=1, until=None, display=int(made)))
    np.testing.assert_array_equal(
        found["connections/dictionary/weights"], short["connections/dictionary/weights"]
    )
    assert not np.array_equal(*found["connections/dictionary/weights"])


class Counted(LCA):
    """Counts its updates."""

    type: Literal["test_counted"] = "test_counted"  # type: ignore[assignment]
    made: Any

    def update(self, now: Any, *arrays: Any) -> None:
        self.made.update((number, now.step) for number in now.slices)
        super().update(now, *arrays)


def test_a_slice_that_rests_makes_no_step() -> None:
    made: set[tuple[int, int]] = set()
    net = network(displays=2)
    counted = Counted(shape=SHAPE, tau=5.0, threshold=0.4, made=made)
    _, found = simulate(net.model_copy(update={"layers": {**net.layers, "V1": counted}}))
    for number in range(3):
        for display, steps in enumerate(found["probes/until/steps"][:, number]):
            mine = sorted(
                step for slice_, step in made if slice_ == number and (step - 1) // DISPLAY == display
            )
            assert mine == list(range(display * DISPLAY + 1, display * DISPLAY + 1 + int(steps)))


class Listed(GivenImages):
    """Lists what is read."""

    type: Literal["test_listed"] = "test_listed"  # type: ignore[assignment]
    read: Any

    def open(self, *keys: Any) -> Callable[[int, int], np.ndarray]:
        source = super().open(*keys)

        def read(number: int, item: int) -> np.ndarray:
            self.read.append((number, item))
            return np.asarray(source(number, item))

        return read


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_a_finished_slice_takes_its_next_image_at_once_unless_it_shares_what_is_learned(mode: str) -> None:
    read: list[tuple[int, int]] = []
    net = network(2, learn=True, mode=mode, displays=3)
    image = Input(shape=(12, 16, 3), source=Listed(data=images(2, 3), read=read))
    simulate(net.model_copy(update={"layers": {**net.layers, "image": image}}))
    apart, together = (
        [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)],
        [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)],
    )
    assert read == [(0, 0), (1, 0), *(apart if mode == "shared" else together)]


@pytest.mark.parametrize(("code", "learn"), [("lca", False), ("heavy_ball", True), ("knee", True)])
def test_threads_and_observation_change_no_bit(code: str, learn: bool) -> None:
    one, found = simulate(network(code=code, learn=learn), threads=1)
    three, again = simulate(network(code=code, learn=learn, every=1), threads=3)
    for key, array in one.state.saved().items():
        if not key.endswith("/late"):
            np.testing.assert_array_equal(three.state.arrays[key], array, err_msg=key)
    np.testing.assert_array_equal(again["probes/until/steps"], found["probes/until/steps"])
    np.testing.assert_array_equal(again["layers/V1/A"][DISPLAY - 1 :: DISPLAY], found["layers/V1/A"])


def test_a_batch_equals_single_runs() -> None:
    _, together = simulate(network())
    for number in range(3):
        _, alone = simulate(network(1, first=number))
        for path in ("layers/V1/A", "layers/V1/V", "probes/until/steps", "probes/until/gap"):
            np.testing.assert_array_equal(alone[path], together[path][:, number : number + 1], err_msg=path)


@pytest.mark.parametrize(("code", "stop"), [("lca", 7), ("lca", 59), ("heavy_ball", 33), ("knee", 95)])
@pytest.mark.parametrize("inside", [False, True])
def test_a_run_resumed_in_the_middle_of_a_display_equals_an_uninterrupted_one(
    code: str, stop: int, inside: bool
) -> None:
    net = network(code=code, learn=True) if inside else delayed(network(code=code, learn=True))
    whole, recorded = simulate(net)
    first = Engine(replace(schedule(build(net)), stops=(stop,)), Serial(), 1)
    first.start()
    for step in drive(first):
        if step == stop:
            break
    second = Engine(schedule(build(net)), Serial(), 2)
    second.resume(stop, {key: array.copy() for key, array in first.state.saved().items()})
    later = collect(second)
    for key, array in whole.state.saved().items():
        np.testing.assert_array_equal(second.state.arrays[key], array, err_msg=key)
    for path, values in later.items():
        np.testing.assert_array_equal(values, recorded[path][-len(values) :], err_msg=path)


@pytest.mark.mpi
def test_ranks_change_no_bit_and_the_run_file_tells_the_steps(small: Path, petabatch: Command) -> None:
    small.write_text(small.read_text() + CERTIFICATE)
    more = ("run.until={gap=0.5,every=2}", "run.display=30")
    alone(small, "one", *more, threads=2)
    two = petabatch("run", small, "--out", "two", "-q", "--threads", 1, *set_all(*more), ranks=2)
    assert two.returncode == 0, two.stderr
    assert contents(small.parent / "two" / "run.h5") == contents(small.parent / "one" / "run.h5")
    with results.open(small.parent / "one") as run:
        found = run.probe("until")
        assert found["steps"].steps.tolist() == [30, 60, 90, 120, 150, 180]
        gap, steps = found["gap"][...], found["steps"][...]
        np.testing.assert_allclose(gap, run.probe("optimality")["relative_gap"][...], atol=1e-6)
    early = steps < 30
    assert 0 < early.sum() < early.size
    assert (gap[early] <= 0.5).all()
    assert (steps % 2 == 0).all()


def test_a_run_may_go_on_with_displays_that_end_early_or_without(small: Path) -> None:
    small.write_text(small.read_text() + CERTIFICATE)

    def go(out: str, *more: str) -> Path:
        loaded = simulation.read(small, ("run.display=30", "checkpoint.every=45", *more))
        simulation.run(loaded, small.parent / out, mpi=False, quiet=True, threads=1)
        return small.parent / out

    until = "run.until={gap=0.5,every=2}"
    go("full", "run.displays=2")
    with results.open(go("ends", "run.displays=4", "run.start_from=full", until)) as run:
        assert run.probe("until")["steps"].steps.tolist() == [90, 120]
        assert (run.probe("until")["steps"][...] < 30).any()
    with results.open(go("on", "run.displays=5", "run.start_from=ends")) as run:
        assert "probes/until/steps" not in run.names()
        assert run.steps_reached == 150


def test_what_cannot_end_a_display_is_an_error() -> None:
    net = network(learn=True)
    learns: Any = net.connections["dictionary"]
    rule = learns.learn.model_copy(update={"every": LayerOutput(every=7).every})
    image = net.layers["image"].model_copy(update={"every": LayerOutput(every=20).every})
    wrong = net.model_copy(
        update={
            "probes": {"until": L1(layer="V1")},
            "layers": {**net.layers, "image": image},
            "connections": {**net.connections, "dictionary": learns.model_copy(update={"learn": rule})},
        }
    )
    assert problems(wrong) == {
        "run.until.probe",
        "probes.until",
        "layers.image.every",
        "connections.dictionary.learn.every",
    }


def test_the_certificate_is_the_only_one_or_the_one_that_is_named() -> None:
    net = network()
    two = net.model_copy(update={"probes": {**net.probes, "other": net.probes["optimality"]}})
    assert problems(two) == {"run.until.probe"}
    assert not problems(two, probe="other")
    assert problems(two, probe="energy") == {"run.until.probe"}
    assert problems(two, probe="othr") == {"run.until.probe"}


def problems(net: Network, **until: Any) -> set[str]:
    """Return the keys of everything that is wrong."""
    run = net.run.model_copy(update={"until": Until(gap=GAP, every=5, **until)})
    try:
        build(net.model_copy(update={"run": run}))
    except ParamsError as error:
        return {problem.key for problem in error.problems}
    return set()


def with_parts(net: Network, **parts: dict[str, Any]) -> Network:
    """Return the network with keys of some layers and connections changed."""
    tables = {
        table: {name: one.model_copy(update=parts.get(name, {})) for name, one in getattr(net, table).items()}
        for table in ("layers", "connections")
    }
    return net.model_copy(update=tables)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("keys", "parts", "inside"),
    [
        ({"kernel": "dense", "mode": "extra_non_shared"}, {}, True),
        ({"kernel": "lazy"}, {}, True),
        ({"code": "heavy_ball"}, {}, True),
        ({}, {"image_to_error": {"strength": 0.5}}, True),  # the code of half the image, judged by the whole
        ({}, {"drive": {"strength": 0.5}}, False),
        ({}, {"error": {"border": "mirror"}}, False),
        ({"kernel": "array"}, {}, False),
    ],
    ids=["dense", "lazy", "heavy_ball", "half image", "half drive", "border", "array"],
)
def test_a_slice_stops_where_the_probe_says_evaluated_inside_steps_or_between(
    keys: dict[str, Any], parts: dict[str, dict[str, Any]], inside: bool
) -> None:
    def run(until: Until | None) -> tuple[Engine, Recorded]:
        return simulate(with_parts(network(displays=1, every=1, until=until, **keys), **parts))

    free = run(None)[1]["probes/optimality/relative_gap"]
    gap = max(0.05, 1.05 * float(free[:-10].min(axis=0).max()))
    engine, found = run(Until(gap=gap, every=5))
    assert engine.lanes[0].stepper.looks_inside == inside
    for number, gaps in enumerate(free.T):
        met = next(step for step in range(5, DISPLAY + 1, 5) if gaps[step - 1] <= gap)
        assert met < DISPLAY
        assert found["probes/until/steps"][0, number] == met
        assert found["probes/until/gap"][0, number] == pytest.approx(gaps[met - 1], abs=1e-6)


@pytest.mark.parametrize("kernel", ["dense", "lazy", "array"])
def test_what_only_a_recording_reads_is_right_in_the_step_in_which_a_slice_stops(kernel: str) -> None:
    def observed(**keys: Any) -> Recorded:
        net = delayed(network(displays=1, kernel=kernel, **keys))
        layers = {**net.layers, "readout": Rectified(shape=(1, 1, SHAPE[2])), "copy": Linear(shape=SHAPE)}
        connections = {
            **net.connections,
            "pool": Pool(pre="V1", post="readout"),
            "copy": Identity(pre="late", post="copy", delay_steps=1),
        }
        output = Output(layers={name: LayerOutput(every=keys.get("every", "display")) for name in layers})
        changes = {"layers": layers, "connections": connections, "output": output}
        return simulate(net.model_copy(update=changes))[1]

    found, free = observed(), observed(until=None, every=1)
    made = found["probes/until/steps"][0].astype(int)
    assert (made < DISPLAY).all()
    for name in ("V1", "readout", "late", "copy", "recon", "error"):
        for number, steps in enumerate(made):
            rests, stood = found[f"layers/{name}/A"][0, number], free[f"layers/{name}/A"][steps - 1, number]
            np.testing.assert_array_equal(rests, stood, err_msg=name)


@pytest.mark.parametrize("kernel", ["dense", "lazy"])
def test_threads_that_share_one_slice_rest_at_the_same_steps(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(1, items=2, shape=(64, 64, 3))
    until = Until(gap=0.3, every=1)
    plain = lca_network(data, features=32, patch=(8, 8), display=30, displays=2, kernel=kernel, until=until)
    net = plain.model_copy(
        update={
            "layers": {**plain.layers, "V1": LCA(shape=(32, 32, 32), tau=5.0, threshold=0.4)},
            "probes": {"optimality": network().probes["optimality"]},
        }
    )
    shared: list[int] = []
    tables = Workspace.for_threads

    def spied(space: Workspace, count: int) -> list[np.ndarray]:
        shared.append(count)
        return tables(space, count)

    monkeypatch.setattr(Workspace, "for_threads", spied)
    one, found = simulate(net, threads=1)
    assert not shared
    three, again = simulate(net, threads=3)
    assert set(shared) == {3}
    assert len(set(found["probes/until/steps"].flat)) > 1
    assert (found["probes/until/steps"] < 30).all()
    assert_same(again, found)
    assert_same(three.state.saved(), one.state.saved())


def test_slices_of_one_call_stop_at_different_steps() -> None:
    shape = (6, 6, 3)
    net = lca_network(
        images(7, 2, shape), features=20, patch=shape[:2], stride=6, display=100, displays=2, learn=False,
        until=Until(gap=0.2, every=5),
    )  # fmt: skip
    engine, found = simulate(
        net.model_copy(update={"probes": {"optimality": network().probes["optimality"]}})
    )
    assert engine.plan.method.together >= 7
    assert engine.lanes[0].stepper.looks_inside
    assert len(np.unique(found["probes/until/steps"])) > 2
    alone = Engine(replace(engine.plan, method=replace(engine.plan.method, together=1)), Serial(), 1)
    alone.start()
    assert_same(collect(alone), found)
    assert_same(alone.state.saved(), engine.state.saved())


def test_steps_that_are_not_made_count_neither_in_shares_nor_stop_the_timing_of_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, found = simulate(network(1, kernel="lazy"))
    (stepper,), made = (lane.stepper for lane in engine.lanes), found["probes/until/steps"].sum()
    assert made < 2 * DISPLAY
    kept, units = stepper.slice.own["own/V1 kept"], np.prod(SHAPE)
    assert stepper.computed() == {"V1": pytest.approx(kept[COMPUTED] / (made * units))}
    before, timed = kept[COMPUTED], list[str]()

    def make(jobs: Any, *_: Any) -> dict[str, float]:
        for name, job in jobs:
            job()
            timed.append(name)
        return {}

    monkeypatch.setattr("petabatch.engine.steppers.program.stepper.time_program_step", make)
    stepper.time_parts([stepper])
    assert {"lazy update V1", "gap of V1"} <= set(timed)
    assert kept[COMPUTED] > before


@pytest.mark.parametrize("mode", ["extra_shared", "non_shared"])
def test_a_drive_that_owns_its_weights_is_evaluated_with_its_patches(mode: Any) -> None:
    net = network(until=Until(gap=1e-9, every=5), displays=1)
    conv: Any = net.connections["dictionary"]
    drive = conv.model_copy(
        update={"pre": "error", "post": "V1", "mode": mode, "init": Gaussian(), "learn": None}
    )
    recon = Transpose(pre="V1", post="recon", of="drive")
    connections = {**net.connections, "drive": drive, "dictionary": recon}
    net = net.model_copy(update={"connections": connections, "output": Output()})
    engine, found = simulate(net)
    assert engine.lanes[0].stepper.looks_inside
    assert (engine.state.arrays["layers/V1/A"] != 0).any()
    measured = found["probes/optimality/relative_gap"][-1]
    np.testing.assert_allclose(found["probes/until/gap"][-1], measured, atol=1e-6)


def test_a_time_scale_that_follows_what_no_step_sums_is_measured_between_steps() -> None:
    net = network(code="knee", displays=1)
    firm = Energy(error="error", code="V1", coefficient=0.4, cost="firm", corner=0.5)
    net = net.model_copy(update={"probes": {**net.probes, "energy": firm}})
    engine, found = simulate(net)
    assert not engine.lanes[0].stepper.looks_inside
    assert (found["probes/until/steps"] < DISPLAY).all()


def test_synapses_of_points_that_stop_at_different_steps_carry_what_they_do_alone() -> None:
    network = lca_network(
        images(1, items=3), displays=3, display=200, learn=False, until=Until(gap=0.1, every=5)
    )
    gap = Optimality(
        image="image", reconstruction="recon", code="V1", drive="drive", coefficient=0.4, every="display"
    )
    units = swept(shape=(1, 1, 10))
    batch = 9
    points = {
        STRENGTH: tuple(np.linspace(0.2, 0.9, batch)),
        "layers.V1.tau": tuple(np.linspace(5.0, 20.0, batch)),
    }
    network = network.model_copy(
        update={
            "layers": {**network.layers, **units.layers},
            "connections": {**network.connections, **units.connections},
            "probes": {"gap": gap},
            "sweep": Sweep(table=points),
        }
    )

    def final(network: Network) -> Recorded:
        engine = Engine(schedule(build(network)), Serial(), 1)
        engine.start()
        collect(engine)
        return dict(engine.state.arrays)

    together = final(network)
    assert len(set(together["until/steps"].tolist())) == batch
    for number in (0, 4, batch - 1):
        for key, array in final(sliced(network, number)).items():
            mine = together[key][number] if len(together[key]) == batch else together[key][0]
            assert mine.tobytes() == array[0].tobytes(), (number, key)
