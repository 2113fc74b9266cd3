"""Displays that begin at exact codes, `run.until.solver`: at the minimum, with the same bits anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory
from petabatch.connections import Conv, Identity, Sparse
from petabatch.engine.engine import Engine
from petabatch.errors import ParamsError
from petabatch.layers import FISTA, LCA, HeavyBall, Input, Linear
from petabatch.learning import Online
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.probes import Energy, Optimality
from petabatch.sources import ImageArray
from petabatch.spec.network import Evaluate, LayerOutput, Network, Output, Until
from petabatch.weights import Unchanged, Uniform, WeightArray
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.networks import collect
from support.pools import pooled

FEATURES, PENALTY, GAP = 40, 0.3, 1e-2
CODES: dict[str, Any] = {
    "lca": LCA(shape=(1, 1, FEATURES), threshold=PENALTY, signed=True, tau=5.0),
    "heavy_ball": HeavyBall(shape=(1, 1, FEATURES), threshold=PENALTY, signed=True, tau=5.0),
    "fista": FISTA(shape=(1, 1, FEATURES), threshold=PENALTY, signed=True),
}


def data(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 5, 4, 2)).astype(np.float32)


def atoms() -> np.ndarray:
    found = np.random.default_rng(1).standard_normal((FEATURES, 5, 4, 2))
    return found / np.linalg.norm(found.reshape(FEATURES, -1), axis=1)[:, None, None, None]


def network(
    batch: int = 3,
    code: str = "lca",
    solver: str = "homotopy",
    displays: int = 2,
    first: int = 0,
    run: dict[str, Any] | None = None,
    learn: Any = None,
    **others: Any,
) -> Network:
    """Return the network that codes `batch` images at a time, from `first` on."""
    given = {
        "batch": batch,
        "display": 2000,
        "displays": displays,
        "until": {"gap": GAP, "solver": solver},
        **(run or {}),
    }
    certificate = Optimality(
        image="image",
        reconstruction="recon",
        code="V1",
        drive="drive",
        coefficient=PENALTY,
        signed=True,
        every="display",
    )
    made: dict[str, Any] = {
        "probes": {
            "optimality": certificate,
            "energy": Energy(error="error", code="V1", coefficient=PENALTY, every="display"),
        },
        "output": Output(layers={"V1": LayerOutput(every="display", variables=("A",))}),
        **others,
    }
    shown = ImageArray(data=data(batch * displays + first)[first:])
    return petabatch.sparse_coding(
        Input(shape=(5, 4, 2), source=shown, every="display"),
        CODES[code],
        Conv(
            pre="V1", post="recon", patch=(5, 4), init=WeightArray(data=atoms()), normalize=Unchanged(),
            learn=learn,
        ),
        run=given,
        **made,
    )  # fmt: skip


def recorded(net: Network, threads: int = 1) -> dict[str, np.ndarray]:
    engine = Engine(schedule(build(net)), Serial(), threads)
    engine.start()
    return dict(collect(engine))


def energies(images: np.ndarray) -> np.ndarray:
    """Return the least energy of each image, to rounding."""
    flat, wide = images.reshape(len(images), -1).astype(float), atoms().reshape(FEATURES, -1)
    code = petabatch.lasso.Lasso(wide, PENALTY, gap=1e-12).solve(flat, 1).code
    return 0.5 * np.square(flat - code @ wide).sum(1) + PENALTY * np.abs(code).sum(1)


@pytest.mark.parametrize("kernel", ["auto", "array", "dense"])
@pytest.mark.parametrize("code", CODES)
def test_displays_take_one_step_to_the_minimum(code: str, kernel: str) -> None:
    found = recorded(network(code=code, run={"kernel": kernel}))
    np.testing.assert_array_equal(found["probes/until/steps"], 1)
    assert found["probes/until/gap"].max() <= GAP
    least = energies(data(6)).reshape(2, 3)
    np.testing.assert_allclose(found["probes/optimality/energy"], least, rtol=1e-6)
    np.testing.assert_allclose(found["probes/energy/total"], least, rtol=1e-6)
    steps = recorded(network(code=code, solver="steps"))
    np.testing.assert_allclose(steps["probes/energy/total"], least, rtol=GAP)
    assert steps["probes/until/steps"].min() > 20


def test_bits_depend_on_no_slice_thread_or_slot() -> None:
    whole = recorded(network(7), threads=2)
    for number in range(7):
        alone = recorded(network(1, displays=1, first=number))
        np.testing.assert_array_equal(alone["layers/V1/A"][0, 0], whole["layers/V1/A"][0, number])
    found, failures = pooled(network(7), 2, 3, seed=4)
    assert failures == [None] * 7
    for path, values in whole.items():
        assert found[path].tobytes() == values.tobytes(), path


def test_held_out_images_are_coded_to_the_gap_in_a_step() -> None:
    held = data(8, seed=9)
    evaluate = Evaluate(source=ImageArray(data=held), every="display", displays=4)
    found = in_memory.run(network(2, evaluate=evaluate)).recorded
    least = energies(held).reshape(4, 2).mean(axis=0)
    np.testing.assert_allclose(found["probes/evaluate/optimality_energy"], [least, least], rtol=1e-6)


def test_steps_go_on_where_the_gap_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    from petabatch.lasso import Lasso

    here = Lasso.here
    monkeypatch.setattr(Lasso, "here", lambda lasso, items: here(lasso, 0 * items))
    for code in CODES:
        found = recorded(network(code=code))
        assert found["probes/until/steps"].min() > 20
        assert found["probes/until/gap"].max() <= GAP


def test_codes_follow_a_dictionary_that_learns() -> None:
    net = network(8, displays=4, learn=Online(input="image", every="display"))
    found = recorded(net)
    np.testing.assert_array_equal(found["probes/until/steps"], 1)
    assert found["probes/until/gap"].max() <= 1e-4
    assert found["probes/energy/total"][-1].mean() < found["probes/energy/total"][0].mean()


def test_each_slice_has_its_own_penalty() -> None:
    values = (0.2, 0.3, 0.6)
    keys = ("layers.V1.threshold", "probes.optimality.coefficient", "probes.energy.coefficient")
    found = recorded(network(3, slices=dict.fromkeys(keys, values)))
    np.testing.assert_array_equal(found["probes/until/steps"], 1)
    assert found["probes/until/gap"].max() <= 1e-4
    active = np.count_nonzero(found["layers/V1/A"], axis=(0, 2, 3, 4))
    assert active[0] > active[1] > active[2]


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
@pytest.mark.parametrize("code", ["lca", "fista"])
def test_displays_on_an_emulated_gpu_begin_at_the_same_codes(code: str) -> None:
    net = network(code=code, run={"device": "gpu"})
    engine = Engine(schedule(build(net)), Serial(), 1, EmulatedGpu())
    engine.start()
    found = collect(engine)
    np.testing.assert_array_equal(found["probes/until/steps"], 1)
    np.testing.assert_allclose(found["probes/energy/total"], energies(data(6)).reshape(2, 3), rtol=1e-6)


def test_the_step_size_of_fista_does_not_shrink_from_display_to_display() -> None:
    engine = Engine(schedule(build(network(1, "fista", displays=30))), Serial(), 1)
    engine.start()
    collect(engine)
    assert engine.state.arrays["layers/V1/step"].min() >= CODES["fista"].step / 4


def refused(net: Network, *words: str) -> None:
    with pytest.raises(ParamsError) as error:
        build(net)
    text = str(error.value)
    assert "run.until.solver" in text
    for word in words:
        assert word in text


def test_other_codes_are_refused() -> None:
    net = network()
    other = {**net.layers, "V1": CODES["lca"].model_copy(update={"transfer": "hard"})}
    refused(net.model_copy(update={"layers": other}), "minimises another energy")
    other["V1"] = CODES["lca"].model_copy(update={"self_interact": False})  # adds |A|^2 / 2
    refused(net.model_copy(update={"layers": other}), "minimises another energy")
    wide = {
        **net.layers,
        **{name: Linear(shape=(10, 8, 2)) for name in ("error", "recon")},
        "image": net.layers["image"].model_copy(update={"shape": (10, 8, 2)}),
        "V1": CODES["lca"].model_copy(update={"shape": (2, 2, FEATURES)}),
    }
    refused(net.model_copy(update={"layers": wide}), "2 x 2 positions", "steps")
    wide["V1"] = CODES["lca"]
    refused(net.model_copy(update={"layers": wide}), "patches of 5 x 4", "10 x 8")
    own = net.connections["dictionary"].model_copy(update={"mode": "shared"})
    refused(net.model_copy(update={"connections": {**net.connections, "dictionary": own}}), '"extra_shared"')
    strong = net.connections["dictionary"].model_copy(update={"strength": 2.0})
    refused(net.model_copy(update={"connections": {**net.connections, "dictionary": strong}}), "strength = 2")
    varied = net.model_copy(update={"slices": {"connections.dictionary.strength": (1.0, 2.0, 1.0)}})
    refused(varied, "several values of connections.dictionary.strength")
    assert Until(gap=1e-2, every=7).interval == 7


def test_an_image_that_other_layers_make_is_refused() -> None:
    """Its activity, before the first step of a display, is that of the image before."""
    net = network()
    made = {**net.layers, "shown": net.layers["image"], "image": Linear(shape=(5, 4, 2))}
    seen = {**net.connections, "see": Identity(pre="shown", post="image")}
    one = net.model_copy(update={"layers": made, "connections": seen})
    refused(one, "image, of type linear, as the image", "transforms of its source")


def test_synapses_from_the_code_are_no_dictionary() -> None:
    net = network()
    synapses = Sparse(pre="V1", post="recon", probability=0.1, init=Uniform(low=0.0, high=0.0))
    in_memory.run(net.model_copy(update={"connections": {"first": synapses, **net.connections}}))
