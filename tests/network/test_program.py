"""The program of a step, as derived from a graph: its operations in order, and why there may be none."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest

from petabatch.connections import Identity, Transpose
from petabatch.layers import LCA, Input, Linear, Rectified
from petabatch.network.build import build
from petabatch.network.operations import Program
from petabatch.network.program import find_program
from petabatch.probes import L0, L1, Energy
from petabatch.spec.compiled import CompiledRule, NotSuitable, Term
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Layer
from petabatch.spec.schedule import Every
from support.networks import GivenImages, images, lca_network
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
        "to_second": Identity(pre="first", post="second", delay_steps=2),
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


class Doubled(Linear):
    """A layer with an update of its own, and no rule."""

    type: Literal["doubled"] = "doubled"  # type: ignore[assignment]

    def compiled_rule(self) -> CompiledRule:
        raise NotSuitable("it is doubled")


class Wire(Identity):
    """A connection without an operation, for it delivers in a way of its own."""

    type: Literal["wire"] = "wire"  # type: ignore[assignment]

    def deliver(self, kernels: Any, wiring: Any, activity: Any, border: Any, patches: Any) -> Any:
        return activity


class Same(Identity):
    """A connection that delivers as the type does that it derives from."""

    type: Literal["same"] = "same"  # type: ignore[assignment]


def test_a_connection_that_overrides_no_deliver_has_the_operation_of_its_base() -> None:
    layers = {"copied": Linear(shape=(12, 16, 3))}
    assert not program(loop(layers, {"same": Same(pre="recon", post="copied")})).interpreted
    assert Wire(pre="recon", post="copied").operation == "other"


def test_a_deliver_of_another_base_class_is_a_way_of_its_own() -> None:
    class Louder:
        def deliver(self, kernels: Any, wiring: Any, activity: Any, border: Any, patches: Any) -> Any:
            return 2 * activity

    class LouderWire(Louder, Identity):
        type: Literal["louder"] = "louder"  # type: ignore[assignment]

    class Named(LouderWire):
        type: Literal["named"] = "named"  # type: ignore[assignment]
        operation: ClassVar[Any] = "copy"  # type: ignore[assignment]

    assert LouderWire(pre="recon", post="copied").operation == "other"
    assert Named(pre="recon", post="copied").operation == "copy"


def test_a_connection_that_delivers_in_no_way_is_refused() -> None:
    with pytest.raises(TypeError, match="the connection Nothing has neither `deliver` nor `operation`"):

        class Nothing(Connection):
            type: Literal["nothing"] = "nothing"

            def wire(self, layers: Any, connections: Any, report: Any) -> Any:
                return None


def test_a_built_in_type_has_no_deliver_to_call() -> None:
    wire = Identity(pre="recon", post="copied")
    with pytest.raises(
        NotImplementedError, match=r"(?s)built-in types have an `operation`.*kernels\.project"
    ):
        wire.deliver(None, None, None, "zero", None)  # type: ignore[arg-type]


def test_what_has_no_operation_is_interpreted_and_named() -> None:
    shape = (12, 16, 3)
    layers = {"doubled": Doubled(shape=shape), "wired": Linear(shape=shape)}
    made = program(loop(layers, {"wire": Wire(pre="recon", post="wired")}))
    assert made.interpreted == {
        "doubled": "it is doubled",
        "wired": "connections.wire: a connection of type wire has no operation",
    }
    assert "doubled = interpreted, it is doubled" in str(made).splitlines()


def test_the_margin_of_an_image_is_cut_out_of_the_image_around_it() -> None:
    layers: dict[str, Layer] = {
        "image": Input(shape=(12, 16, 3), border="image", source=GivenImages(data=images(1))),
        "other": Linear(shape=(6, 8, 12)),
    }
    made = program(loop(layers, {"look": Transpose(pre="image", post="other", of="dictionary")}))
    assert (
        "<image[-0] in (2, 2) (2, 2) image> = rows 0 .. 16, columns 0 .. 20 of <image and its margin>  last 1"
    ) in str(made).splitlines()
    assert made.margins == {"image": (16, 20, 3)}


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
