"""The program of a step, as derived from a graph: its operations in order, and why there may be none."""

from __future__ import annotations

from typing import Any

import pytest

from petabatch.connections import Identity
from petabatch.layers import LCA, GaussianNoise, Linear, Rectified
from petabatch.network.build import build
from petabatch.network.operations import Program
from petabatch.network.program import find_program
from petabatch.probes import L0, L1, Energy
from petabatch.spec.compiled import NotSuitable, Term
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Layer
from petabatch.spec.schedule import Every
from support.networks import images, lca_network
from support.sparse_coding import SCALES


def loop(
    layers: dict[str, Layer] | None = None, connections: dict[str, Connection] | None = None, **run: Any
) -> Network:
    one = lca_network(images(1), learn=False, **run)
    return one.model_copy(
        update={
            "layers": {**one.layers, **(layers or {})},
            "connections": {**one.connections, **(connections or {})},
        }
    )


def program(one: Network) -> Program:
    return find_program(build(one))


def test_a_sparse_coding_loop_reads_as_its_equations() -> None:
    assert str(program(loop())) == "\n".join(
        [
            "error = linear(image + -recon[-1])",
            "<error[-0] in (2, 2) (2, 2) zero> = error with (2, 2) rows, (2, 2) columns around, border zero",
            "<drive> = project <error[-0] in (2, 2) (2, 2) zero> by dictionary: "
            "48 positions, 12 patches 6 x 6 x 3",
            "V1 = leaky(<drive>)",
            "<dictionary> = synthesize V1 by dictionary: 48 positions, 12 patches 6 x 6 x 3",
            "recon = linear(<dictionary>)",
        ]
    )


def test_readers_are_made_in_the_last_steps_alone() -> None:
    shape = (12, 16, 3)
    readers = {"first": Rectified(shape=shape), "second": Linear(shape=shape, every=Every(3))}
    joined = {
        "to_first": Identity(pre="recon", post="first"),
        "to_second": Identity(pre="first", post="second", delay=2),
    }
    made = program(loop(readers, joined)).operations
    windows = {operation.out: operation.when.window for operation in made}
    assert windows["layers/second/A"] == 3  # what it made up to two steps ago
    assert windows["layers/first/A"] == 5
    assert windows["layers/recon/A"] == windows["layers/V1/A"] == 0
    watched = find_program(build(loop(readers, joined)), ["first"])
    assert [one.when.window for one in watched.operations if one.out == "layers/first/A"] == [0]


def test_what_a_time_scale_follows_is_no_reader() -> None:
    code = LCA(shape=(6, 8, 12), time_scale=SCALES["base"])
    one = loop({"V1": code})
    made = program(one).operations
    assert str(made[0]) == "V1.time_scale = time scale after 0.5 squares of error + 0.4 sizes of V1"
    assert all(operation.when.window == 0 for operation in made)


def test_a_reset_starts_state_anew_before_the_update() -> None:
    code = LCA(shape=(6, 8, 12), reset=Every(1, "displays"), initial=0.25)
    lines = str(program(loop({"V1": code}))).splitlines()
    assert lines.index("V1.V = 0.25  where t = 1 mod 20") == lines.index("V1 = leaky(<drive>)") - 1


@pytest.mark.parametrize(
    ("name", "layer", "reason"),
    [
        (
            "noise",
            GaussianNoise(shape=(6, 8, 12)),
            "layers of type gaussian_noise have no compiled rule",
        ),
        (
            "V1",
            LCA(shape=(6, 8, 12), vertices=((0.0, 0.0), (1.0, 1.0))),
            "its transfer function has vertices",
        ),
    ],
)
def test_what_has_no_operation_is_interpreted_and_named(name: str, layer: Layer, reason: str) -> None:
    made = program(loop({name: layer}))
    assert made.interpreted == {name: reason}
    assert f"{name} = interpreted, {reason}" in str(made).splitlines()


def test_probes_that_are_sums_of_norms_say_so() -> None:
    layers = loop().layers
    assert L0(layer="V1").norms(layers) == {
        "active": (Term("V1", "count"),),
        "fraction": (Term("V1", "count", 1 / 576),),
    }
    hard = Energy(error="error", code="V1", coefficient=0.1, cost="l0")
    assert hard.norms(layers)["total"] == (Term("error", "squares", 0.5), Term("V1", "count", 0.1))
    for probe in (L0(layer="V1", above=0.1), L1(layer="V1", mask="recon")):
        with pytest.raises(NotSuitable):
            probe.norms(layers)
