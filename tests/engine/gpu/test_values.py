"""Slices that differ on an emulated GPU: values per slice and over time, sweeps, early stopping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.evaluation import Evaluation
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.probes import Optimality
from petabatch.spec.network import Evaluate, Network, Until
from petabatch.spec.over_time import OverTime
from petabatch.spec.schedule import Every
from petabatch.spec.sweep import Sweep
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import assert_agree, assert_near, network, on_gpu, simulate, window
from support.networks import GivenImages, images
from support.sparse_coding import network as with_code

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
KERNELS = ["display", "step", "array"]
SLICES = {
    "layers.V1.threshold": (0.2, 0.2, 0.5, 0.3, 0.3),
    "layers.V1.tau": (20.0, 20.0, 20.0, 40.0, 10.0),
    "connections.image_to_error.strength": (1.0, 1.0, 0.8, 1.0, 0.7),
    "run.dt": (1.0, 1.0, 1.0, 1.0, 0.5),
}


def with_slices(**run: Any) -> Network:
    wanted = network(mode="shared", **run)
    (image,) = (name for name, one in wanted.connections.items() if one.pre == "image")
    values = {key.replace("image_to_error", image): each for key, each in SLICES.items()}
    return wanted.model_copy(update={"slices": values})


@pytest.mark.parametrize("kernel", KERNELS)
def test_slices_have_their_values(kernel: str) -> None:
    engine = assert_agree(with_slices(), EmulatedGpu(), kernel=kernel)
    assert [lane.lanes for lane in engine.lanes] == [slice(0, 2), slice(2, 3), slice(3, 4), slice(4, 5)]
    assert len(engine.dispatch.groups) == 1


def test_kernels_of_slices_that_differ_are_compiled_once_and_launched_once_a_step() -> None:
    class Counting(EmulatedGpu):
        compiled = launched = 0

        def compile(self, code: str) -> Any:
            made = super().compile(code)
            self.compiled += "decays" in code

            def get(name: str) -> Any:
                kernel = made(name)

                class Counted:
                    max_dynamic_shared_size_bytes = 0

                    def __call__(inner, *arguments: Any, **keys: Any) -> None:
                        self.launched += 1
                        kernel.max_dynamic_shared_size_bytes = inner.max_dynamic_shared_size_bytes
                        kernel(*arguments, **keys)

                return Counted()

            return get

    counted = []
    for wanted in (network(learn=False, device="gpu"), with_slices(learn=False, device="gpu")):
        device = Counting()
        simulate(wanted, device)
        counted.append((device.compiled, device.launched))
    assert counted[0] == counted[1]


def test_slices_keep_their_values_where_windows_take_turns() -> None:
    wanted = on_gpu(with_slices())
    parts, found = simulate(wanted, window(2, wanted))
    assert [group.lanes for group in parts.dispatch.groups] == [slice(0, 1), slice(1, 3), slice(3, 5)]
    assert_near(found, simulate(with_slices())[1], 1e-4)


@pytest.mark.parametrize("code", ["fista", "heavy_ball", "ista"])
def test_rules_of_units_read_the_values_of_their_slice(code: str) -> None:
    wanted = with_code(code, learn=False)
    values = tuple(np.linspace(0.1, 0.3, wanted.run.batch).tolist())
    assert_agree(wanted.model_copy(update={"slices": {"layers.V1.threshold": values}}), EmulatedGpu())


@pytest.mark.parametrize("kernel", ["display", "array"])
def test_a_sweep_is_that_of_the_cpu(kernel: str) -> None:
    wanted = network(mode="shared").model_copy(
        update={"sweep": Sweep(values={"layers.V1.threshold": (0.2, 0.4, 0.6)})}
    )
    engine = assert_agree(wanted, EmulatedGpu(), kernel=kernel)
    assert [lane.lanes for lane in engine.lanes] == [slice(0, 5), slice(5, 10), slice(10, 15)]


@pytest.mark.parametrize("kernel", ["display", "array"])
def test_values_change_over_time(kernel: str) -> None:
    course = OverTime(at=(1, 9, 15), values=(0.5, 0.2, 0.4), by="step", interpolate="linear")
    wanted = network().model_copy(update={"over_time": {"layers.V1.threshold": course}})
    assert_agree(wanted, EmulatedGpu(), kernel=kernel)


def stopping(**keys: Any) -> Network:
    wanted = network(learn=False, until=Until(gap=0.3, every=2), **keys)
    (drive,) = (name for name, one in wanted.connections.items() if one.post == "V1")
    gap = Optimality(
        image="image", reconstruction="recon", code="V1", drive=drive, coefficient=0.4, every=Every(1)
    )
    return wanted.model_copy(
        update={
            "probes": {**wanted.probes, "gap": gap},
            "run": wanted.run.model_copy(update={"display": 40, "displays": 2}),
        }
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kernel", KERNELS)
def test_slices_rest_as_on_the_cpu(kernel: str) -> None:
    wanted = stopping()
    engine = assert_agree(wanted, EmulatedGpu(), 2e-4, kernel=kernel)
    steps = engine.state.arrays["until/steps"]
    assert len(np.unique(steps)) > 1
    assert steps.min() < 40


def test_held_out_images_are_evaluated() -> None:
    wanted = network()
    evaluate = Evaluate(source=GivenImages(data=images(5, shape=(8, 8, 3))[::-1]), every=Every(1, "displays"))
    found = {}
    for device in (None, EmulatedGpu()):
        given = wanted.model_copy(update={"evaluate": evaluate})
        given = given if device is None else on_gpu(given)
        engine = Engine(
            schedule(build(given), None if device is None else device.limits), Serial(), 1, device
        )
        engine.start()
        evaluation = Evaluation(engine)
        rows: dict[str, list[np.ndarray]] = {}
        for step in drive(engine):
            if evaluation.due(step):
                evaluation.at(step)
            if step % engine.plan.flush == 0 or step == engine.plan.length:
                for record in engine.recorder.take(step):
                    rows.setdefault(record.stream.path, []).append(record.values)
                engine.flushed()
        found[device is None] = {path: np.concatenate(each) for path, each in rows.items()}
    assert any("evaluate" in path for path in found[True])
    assert_near(found[False], found[True], 1e-4)
