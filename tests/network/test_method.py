"""The method: which stepper advances a network, and the reason that `check` prints."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Identity
from petabatch.layers import LCA, BaseTimeScale, Linear
from petabatch.network.build import build
from petabatch.network.method import choose
from petabatch.probes import Energy
from petabatch.spec.capabilities import Capabilities, capabilities_of
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer
from petabatch.spec.schedule import Every
from support.networks import images, lca_network

DATA = images(2, 1, (32, 32, 3))
LARGE: dict[str, Any] = {"features": 64, "patch": (8, 8), "display": 400}


def with_code(**keys: Any) -> Network:
    base = lca_network(DATA, **LARGE)
    code = base.layers["V1"].model_copy(update=keys)
    return base.model_copy(update={"layers": {**base.layers, "V1": code}})


def with_readout() -> Network:
    base = lca_network(DATA, **LARGE)
    readout = Linear(shape=base.layers["V1"].shape)
    return base.model_copy(
        update={
            "layers": {**base.layers, "readout": readout},
            "connections": {**base.connections, "read": Identity(pre="V1", post="readout")},
        }
    )


@pytest.mark.parametrize(
    ("network", "stepper", "text"),
    [
        (lca_network(DATA, **LARGE), "program", "lazily evaluated: V1"),
        (lca_network(DATA, **{**LARGE, "display": 8}), "program", "shown too briefly"),
        (lca_network(images(2), display=400), "program", "layers this small"),
        (lca_network(DATA, kernel="dense", **LARGE), "program", 'run.kernel is "dense"'),
        (lca_network(DATA, mode="non_shared", **LARGE), "program", "lazily evaluated: V1"),
        (lca_network(DATA, mode="non_shared", kernel="dense", **LARGE), "program", 'run.kernel is "dense"'),
        (lca_network(images(2), mode="non_shared", display=400), "program", "layers this small"),
        (lca_network(DATA, kernel="array", **LARGE), "layers", 'run.kernel is "array"'),
        (
            lca_network(DATA, precision="float64", **LARGE),
            "program",
            "V1 are computed, because run.precision is",
        ),
        (with_code(reset=Every(1, "displays")), "program", "all layers have compiled steps"),
        (with_code(every=Every(2)), "program", "does not update in every step"),
        (with_code(vertices=((0.0, 0.0),)), "program", "its transfer function has vertices"),
        (with_readout(), "program", "error, V1, recon, readout"),
    ],
)
def test_the_stepper_and_its_reason(network: Network, stepper: str, text: str) -> None:
    method = choose(build(network))
    assert method.stepper == stepper
    assert text in str(method)
    assert set(method.layers) == {name for name, layer in network.layers.items() if not layer.static}


def test_check_names_layers_that_are_interpreted_and_the_price() -> None:
    base = lca_network(DATA, **LARGE)
    doubled = Doubled(**{**dict(base.layers["V1"]), "type": "doubled_lca"})
    own = str(choose(build(base.model_copy(update={"layers": {**base.layers, "V1": doubled}}))))
    assert own.startswith("compiled program: error, V1, recon, because most layers have compiled steps")
    assert "V1 is interpreted step by step, because layers of type doubled_lca have no compiled rule" in own
    alone = Network(run=Run(steps=2), layers={"alone": Doubled(shape=(4, 4, 1))})
    method = choose(build(alone))
    assert method.slow
    assert "alone is interpreted step by step" in str(method)
    array = alone.model_copy(update={"run": Run(steps=2, device="gpu")})
    assert str(choose(build(array))).endswith("expect several times the time of compiled steps")
    assert "slower" not in str(choose(build(lca_network(DATA, kernel="array", **LARGE))))


@pytest.mark.parametrize("base", [lca_network(DATA, **LARGE), with_readout()], ids=["loop", "program"])
def test_check_names_time_scales_that_are_adapted_in_the_interpreter(base: Network) -> None:
    scale = BaseTimeScale(energy="energy", minimum=0.5, maximum=0.9, factor=0.2, growth=0.1)
    V1 = base.layers["V1"].model_copy(update={"time_scale": scale})
    firm = Energy(error="error", code="V1", coefficient=0.4, cost="firm", corner=0.5)
    for energy, named in ((base.probes["energy"], False), (firm, True)):
        probes = {**base.probes, "energy": energy}
        network = base.model_copy(update={"layers": {**base.layers, "V1": V1}, "probes": probes})
        text = "the time scale of V1 is adapted in the interpreter, because of energy: the cost firm"
        assert (text in str(choose(build(network)))) == named


class Doubled(LCA):
    """An LCA with another update, which answers for nothing itself."""

    type: Literal["doubled_lca"] = "doubled_lca"  # type: ignore[assignment]

    def update(self, ctx: Any, state: Any, drive: Any, previous: Any, activity: Any) -> None:
        """Double the drive."""
        super().update(ctx, state, [2 * drive[0]], previous, activity)


class Renamed(LCA):
    """An LCA that says it is one."""

    type: Literal["renamed_lca"] = "renamed_lca"  # type: ignore[assignment]
    capabilities = Capabilities(graph_safe=True)

    def compiled_rule(self) -> CompiledRule:
        """Return the LCA's."""
        return super().compiled_rule()


def test_a_subclass_does_not_inherit_the_compiled_rule_of_an_update_that_it_overrides() -> None:
    def network(code: type[Layer], kernel: str) -> Network:
        base = lca_network(images(2), kernel=kernel, display=10, displays=1, learn=False)
        keys = {**dict(base.layers["V1"]), "type": code.model_fields["type"].default}
        return base.model_copy(update={"layers": {**base.layers, "V1": code(**keys)}})

    assert choose(build(network(Doubled, "auto"))).program.interpreted == {
        "V1": "layers of type doubled_lca have no compiled rule"
    }
    assert not choose(build(network(Renamed, "auto"))).program.interpreted
    found, expected = (in_memory.run(network(Doubled, kernel), [10]) for kernel in ("auto", "array"))
    np.testing.assert_allclose(
        found.states["layers/V1/V"], expected.states["layers/V1/V"], rtol=1e-4, atol=1e-5
    )
    assert not capabilities_of(Doubled).graph_safe
