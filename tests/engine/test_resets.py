"""What a reset makes layers forget: all that they remember, in any kernel, on a schedule or for a film."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Identity
from petabatch.engine.engine import Engine
from petabatch.errors import FormatError, ParamsError
from petabatch.layers import (
    FISTA,
    ISTA,
    LCA,
    ConductanceLIF,
    HeavyBall,
    Input,
    LeakyIntegrator,
    Linear,
    LogTimeScale,
    MomentumLCA,
    Retina,
)
from petabatch.network.advice import advice
from petabatch.network.build import build
from petabatch.network.checks import remembers
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.probes import Energy
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import NEVER, STEP, Layer
from petabatch.spec.schedule import Every
from petabatch.spec.weights import Initial
from support.films import Reels, film_network
from support.gpu_emulation import EmulatedGpu
from support.gpu_runs import simulate
from support.networks import GivenImages
from support.row_functions import Adaptive, ByRowAlone

SHAPE, DISPLAY = (2, 3, 4), 3
SHOWN = {"type": "movie", "reset": True}
ON: dict[str, dict[str, Any]] = {
    "array": {"kernel": "array"},
    "program": {"kernel": "auto"},
    "gpu": {"device": "gpu"},
}

FORGETTING: dict[str, Callable[..., Layer]] = {
    # Without self-interaction: the activity of the step before, which enters it, is not reset.
    "lca": lambda **c: LCA(**c, tau=5.0, threshold=0.1, initial=0.2, self_interact=False),
    "ista": lambda **c: ISTA(**c, tau=5.0, threshold=0.0, initial=0.2),
    "heavy_ball": lambda **c: HeavyBall(**c, tau=5.0, threshold=0.1, initial=0.2, self_interact=False),
    "momentum_lca": lambda **c: MomentumLCA(**c, tau=5.0, rate=0.3, self_interact=False),
    "fista": lambda **c: FISTA(**c, step=0.3, threshold=0.05),
    "leaky_integrator": lambda **c: LeakyIntegrator(**c, tau=5.0),
    "conductance_lif": lambda **c: ConductanceLIF(**c, tau=5.0, threshold=-69.9, noise=(0.5, 0.0, 0.0)),
    "scaled": lambda **c: LCA(
        **c,
        tau=5.0,
        threshold=0.1,
        self_interact=False,
        time_scale=LogTimeScale(energy="energy", minimum=0.5, maximum=1.5, threshold=3.0),
    ),
    "retina": lambda **c: Retina(**c, rate=200.0),
    "row function": lambda **c: Adaptive(**c, rise=0),
    "row function alone": lambda **c: ByRowAlone(**c, rise=0),
}


class Trace(Layer):
    """A plug-in that remembers by its activity alone."""

    type: Literal["test_trace"] = "test_trace"

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        for i in range(A.size):
            A[i] = A[i] / 2 + drive[0][i]


class Fixed(Initial):
    """One value everywhere."""

    type: Literal["test_fixed"] = "test_fixed"
    value: float

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.full(shape, self.value)


def network(kind: str, seed: int, films: bool, on: str, delay: int = 0) -> Network:
    """Return images -> the layer -> an echo; `seed` is that of the images before the reset at step 7.

    Slice 1 begins its second film at step 10.
    """
    lengths = (2, 3, 2, 2)
    reels = [
        np.random.default_rng(n).random((length, *SHAPE)).astype("f4") for n, length in enumerate(lengths)
    ]
    for first in (0, 1):
        reels[first][0] = np.random.default_rng(10 + seed + first).random(SHAPE)
    source: Any = Reels(data=reels, crop="center", order={"type": "movie", "reset": True})
    reset = NEVER
    if not films:
        shown = np.stack([np.concatenate([reels[0], reels[2]]), np.concatenate([reels[1][:2], reels[3]])])
        source, reset = GivenImages(data=shown), Every(2, "displays")
    layer = FORGETTING[kind](shape=SHAPE, reset=reset)
    return Network(
        run=Run(batch=2, display=DISPLAY, steps=12, **ON[on]),
        layers={"image": Input(shape=SHAPE, source=source), "layer": layer, "echo": Linear(shape=SHAPE)},
        connections={
            "see": Identity(pre="image", post="layer"),
            "late": Identity(pre="layer", post="echo", delay_steps=delay),
        },
        probes={"energy": Energy(error="image", code="layer", coefficient=1.0)} if kind == "scaled" else {},
        output=Output(
            layers={
                "layer": LayerOutput(every=STEP, variables=("A", *(v.name for v in layer.variables()))),
                "echo": LayerOutput(every=STEP),
            }
        ),
    )


def recorded(net: Network) -> dict[str, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the momentum
        if net.run.device == "cpu":
            return dict(in_memory.run(net).recorded)
        return {key: np.asarray(array) for key, array in simulate(net, EmulatedGpu())[1].items()}


def test_all_types_that_remember_are_tested() -> None:
    required = {
        "input": {"source": GivenImages(data=np.zeros(0))},
        "rescale": {"method": "range"},
        "spike_times": {"spikes": [[0.0, 0]]},
        "firm_cost": {"corner": 1.0},
        "max_unpool": {"window": (1, 1)},
    }
    kinds: dict[str, Any] = {
        name: kind for name, kind in Layer.choices().items() if kind.__module__.startswith("petabatch.")
    }
    del kinds["neurons"]  # which their spikes reset, and no schedule: tests/layers/test_neurons.py
    layers = {name: kind(shape=SHAPE, **required.get(name, {})) for name, kind in kinds.items()}
    remembering = {name: layer for name, layer in layers.items() if remembers(layer)}
    assert remembering.keys() == kinds.keys() & FORGETTING.keys()
    assert all(layer.variables() for layer in remembering.values())


@pytest.mark.sampled(21)
@pytest.mark.filterwarnings("ignore:a momentum_lca layer")
@pytest.mark.parametrize("films", [False, True], ids=["schedule", "films"])
@pytest.mark.parametrize(
    ("kind", "on"),
    [(kind, on) for kind in FORGETTING for on in ON if not (on == "gpu" and kind.startswith("row"))],
)
def test_nothing_from_before_a_reset_is_left(kind: str, on: str, films: bool) -> None:
    one, other = (recorded(network(kind, seed, films, on)) for seed in (0, 100))
    begins = {0: 6, 1: 9 if films else 6}
    for key in one:
        for number, begin in begins.items():
            np.testing.assert_array_equal(one[key][begin:, number], other[key][begin:, number], err_msg=key)
    assert any((one[key][5] != other[key][5]).any() for key in one)
    assert one["layers/layer/A"][6:].any()


@pytest.mark.parametrize("films", [False, True], ids=["schedule", "films"])
@pytest.mark.parametrize("on", ON)
def test_what_is_under_way_at_a_reset_is_still_delivered(on: str, films: bool) -> None:
    found = recorded(network("leaky_integrator", 0, films, on, delay=2))
    made, late = found["layers/layer/A"], found["layers/echo/A"]
    np.testing.assert_array_equal(late[2:], made[:-2])
    assert (made[4:6] > made[6]).any()


@pytest.mark.parametrize("kernel", ["array", "dense", "auto"])
def test_fista_in_its_loop_begins_a_film_from_the_code_zero_whatever_the_kernel(kernel: Any) -> None:
    def found(kernel: Any, order: Any = SHOWN, precision: Any = "float32") -> tuple[np.ndarray, np.ndarray]:
        net = film_network(order, kernel=kernel, precision=precision, learn=False)
        code = FISTA(shape=net.layers["V1"].shape, threshold=0.4, step=0.1)
        net = net.model_copy(update={"layers": {**net.layers, "V1": code}, "output": Output()})
        states = in_memory.run(net, [60, 61, 62, 120]).states
        return states["layers/V1/A"], states["layers/V1/A_before"]

    mine, exact, plain = found(kernel), found("array", precision="float64"), found("array", "movie")
    np.testing.assert_allclose(mine[0], exact[0], atol=2e-5)
    # the step from 0 is the first of slice 0 alone
    assert np.array_equal(mine[1][1, 0], np.zeros_like(mine[1][1, 0]))
    assert plain[1][1, 0].any()
    assert mine[1][1, 1].any()


def test_a_layer_that_declares_no_variables_is_told_what_a_reset_sets() -> None:
    net = network("leaky_integrator", 0, films=True, on="array")

    def with_layer(layer: Layer, films: bool = True) -> Network:
        image = net.layers["image"]
        if not films:
            image = Input(shape=SHAPE, source=GivenImages(data=np.zeros((2, 1, *SHAPE), "f4")))
        return net.model_copy(
            update={"layers": {**net.layers, "layer": layer, "image": image}, "output": Output()}
        )

    with pytest.raises(ParamsError, match="declares no variables") as refused:
        build(with_layer(Trace(shape=SHAPE, reset="display")))
    assert refused.value.problems[0].hint.startswith("declare a variable")
    with pytest.raises(ParamsError, match="its activity is a function of its input"):
        build(with_layer(Linear(shape=SHAPE, reset="display")))
    build(with_layer(LeakyIntegrator(shape=SHAPE, reset="display")))
    notes = [
        [note for note in advice(schedule(build(with_layer(layer, films)))) if "films" in note.text]
        for layer, films in (
            (Trace(shape=SHAPE), True),
            (Trace(shape=SHAPE), False),
            (Linear(shape=SHAPE), True),
        )
    ]
    assert [len(found) for found in notes] == [1, 0, 0]
    assert notes[0][0].text.startswith("layers.layer: ")


def test_a_leaky_integrator_starts_from_its_potential_and_can_be_reset_to_anothers() -> None:
    net = network("leaky_integrator", 0, films=False, on="program")
    start, other = {"V": Fixed(value=0.5)}, LCA(shape=SHAPE, initial=0.25, tau=1e9)
    layer = LeakyIntegrator(shape=SHAPE, tau=1e9, start=start, reset=Every(4), reset_to="other")
    layers = {**net.layers, "layer": layer, "other": other, "echo": Linear(shape=SHAPE)}
    only = {"late": net.connections["late"]}
    found = in_memory.run(net.model_copy(update={"layers": layers, "connections": only}), [0, 1, 5])
    np.testing.assert_allclose(found.states["layers/layer/A"][:, 0, 0, 0, 0], [0.5, 0.25, 0.25])


def test_a_checkpoint_of_before_a_layer_had_this_variable_is_refused_by_name() -> None:
    engine = Engine(schedule(build(network("leaky_integrator", 0, False, "array"))), Serial(), 1)
    engine.start()
    arrays = {key: array for key, array in engine.state.saved().items() if key != "layers/layer/V"}
    with pytest.raises(FormatError, match="layers/layer/V"):
        engine.resume(3, arrays)
