"""Each property of a contract is found broken by a type that breaks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError
from itertools import count
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from petabatch.errors import ArgumentError, ContractError, PetabatchError
from petabatch.layers import LeakyIntegrator, Linear
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import Term
from petabatch.spec.parts import Connection, Layer, Probe, StepContext, Wiring
from petabatch.spec.schedule import Every, Schedule
from petabatch.spec.weights import Learning
from petabatch.testing import check_connection, check_layer, check_probe, check_rule
from petabatch.testing.contract import MEANING, Broken, near, same
from petabatch.variable import LAYER_DIMS, Array, Variable

_NUMBERS = count()


class Good(Layer):
    """V follows its input."""

    type: Literal["t_good"] = "t_good"

    def variables(self) -> Sequence[Variable]:
        return (Variable("V", self.shape, LAYER_DIMS),)

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        state["V"][...] += ctx.dt / 5 * (drive[0] - state["V"])
        activity[...] = state["V"]
        self.wrong(ctx, state, drive, activity)

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        pass


class Raising(Good):
    type: Literal["t_raising"] = "t_raising"  # type: ignore[assignment]

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        raise KeyError("W")


class Deaf(Good):
    type: Literal["t_deaf"] = "t_deaf"  # type: ignore[assignment]

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        state["V"][...] = activity[...] = ctx.step


class Counting(Good):
    type: Literal["t_counting"] = "t_counting"  # type: ignore[assignment]

    def prepare(self, state: Mapping[str, Array], activity: Array, dt: float) -> None:
        state["V"][...] = next(_NUMBERS)


class Mixing(Good):
    """Of the steps in which an engine does not look at a slice alone."""

    type: Literal["t_mixing"] = "t_mixing"  # type: ignore[assignment]

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        if ctx.step == 3:
            state["V"][...] += drive[0].mean(axis=0)


class Crowded(Good):
    type: Literal["t_crowded"] = "t_crowded"  # type: ignore[assignment]

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        if ctx.step == 3:
            state["V"][...] += len(ctx.slices)


class Remembering(Good):
    """Keeps its input elsewhere than in a variable."""

    type: Literal["t_remembering"] = "t_remembering"  # type: ignore[assignment]
    kept: ClassVar[dict[tuple[int, int], Array]] = {}

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        for place, number in enumerate(ctx.slices):
            before = self.kept.get((number, ctx.step - 1)) if ctx.step > 1 else None
            activity[place] += 0 if before is None else before
            self.kept[number, ctx.step] = drive[0][place].copy()


class OddRow(Good):
    type: Literal["t_odd_row"] = "t_odd_row"  # type: ignore[assignment]
    update = Good.update

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        for i in range(A.size):
            state.V[i] += p.dt / 5.1 * (drive[0][i] - state.V[i])
            A[i] = state.V[i]


class OddRule(LeakyIntegrator):
    type: Literal["t_odd_rule"] = "t_odd_rule"  # type: ignore[assignment]
    compiled_rule = LeakyIntegrator.compiled_rule

    def update(self, ctx: StepContext, *arrays: Any) -> None:
        LeakyIntegrator.update(self, ctx, *arrays)
        arrays[-1][...] *= 1.001


class Blurring(Good):
    type: Literal["t_blurring"] = "t_blurring"  # type: ignore[assignment]
    capabilities = Capabilities(local=True)

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        activity[...] += np.roll(activity, 1, axis=1)


class Competing(Good):
    type: Literal["t_competing"] = "t_competing"  # type: ignore[assignment]
    capabilities = Capabilities(splittable=True)

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        activity[...] -= activity.mean(axis=-1, keepdims=True)


class Timed(Good):
    type: Literal["t_timed"] = "t_timed"  # type: ignore[assignment]
    capabilities = Capabilities(graph_safe=True)

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        activity[...] *= ctx.step


class Humming(Good):
    type: Literal["t_humming"] = "t_humming"  # type: ignore[assignment]
    silent: ClassVar[Any] = True  # type: ignore[assignment]

    def wrong(self, ctx: StepContext, state: Any, drive: Any, activity: Array) -> None:
        activity[...] += 0.1


class Wavering(Good):
    type: Literal["t_wavering"] = "t_wavering"  # type: ignore[assignment]
    constant: ClassVar[Any] = 0.5  # type: ignore[assignment]


class Steeper(Good):
    type: Literal["t_steeper"] = "t_steeper"  # type: ignore[assignment]
    linear_gain: ClassVar[Any] = 2.0  # type: ignore[assignment]


LAYERS = {
    Raising: "runs",
    Deaf: "moves",
    Counting: "repeats",
    Mixing: "slices apart",
    Crowded: "batch",
    Remembering: "resume",
    OddRow: "row and arrays",
    OddRule: "compiled and arrays",
    Blurring: "local",
    Competing: "splittable",
    Timed: "graph_safe",
    Humming: "silent",
    Wavering: "constant",
    Steeper: "linear_gain",
}


class Passing(Connection):
    """The activity as it is."""

    type: Literal["t_passing"] = "t_passing"

    def wire(self, layers: Any, connections: Any, report: Any) -> Wiring:
        return Wiring()

    def deliver(self, kernels: Any, wiring: Wiring, activity: Array, border: Any, patches: Any) -> Array:
        return activity


class Doubling(Passing):
    type: Literal["t_doubling"] = "t_doubling"  # type: ignore[assignment]
    operation: ClassVar[Any] = "copy"  # type: ignore[assignment]

    def deliver(self, kernels: Any, wiring: Wiring, activity: Array, border: Any, patches: Any) -> Array:
        return 2 * activity


class Writing(Passing):
    type: Literal["t_writing"] = "t_writing"  # type: ignore[assignment]

    def deliver(self, kernels: Any, wiring: Wiring, activity: Array, border: Any, patches: Any) -> Array:
        activity *= 2
        return activity


class Fixed(Passing):
    type: Literal["t_fixed"] = "t_fixed"  # type: ignore[assignment]

    def deliver(self, kernels: Any, wiring: Wiring, activity: Array, border: Any, patches: Any) -> Array:
        return np.ones_like(activity)


class Forgetful(Passing):
    """Delivers what it was given before, and keeps it elsewhere than in the network."""

    type: Literal["t_forgetful"] = "t_forgetful"  # type: ignore[assignment]
    kept: ClassVar[list[float]] = [0.0]

    def deliver(self, kernels: Any, wiring: Wiring, activity: Array, border: Any, patches: Any) -> Array:
        before, self.kept[0] = self.kept[0], float(activity.mean())
        return activity + np.float32(before)


CONNECTIONS = {
    Doubling: "operation",
    Writing: "leaves the pre layer",
    Fixed: "moves",
    Forgetful: "slices apart",
}


class Reading(Probe):
    """The sum of squares of a code."""

    type: Literal["t_reading"] = "t_reading"
    every: Schedule = Every(3)

    def layers(self) -> Sequence[str]:
        return ("code",)

    def quantities(self) -> Mapping[str, str]:
        return {"power": "sum of squares"}

    def measure(self, read: Any, xp: Any) -> Mapping[str, Array]:
        return {"power": (read("code", "V") ** 2).sum(axis=(1, 2, 3))}


class Disturbing(Reading):
    type: Literal["t_disturbing"] = "t_disturbing"  # type: ignore[assignment]

    def measure(self, read: Any, xp: Any) -> Mapping[str, Array]:
        found = Reading.measure(self, read, xp)
        read("code", "V")[...] *= 1.01
        return found


class Averaging(Reading):
    type: Literal["t_averaging"] = "t_averaging"  # type: ignore[assignment]
    slicewise: ClassVar[Any] = True  # type: ignore[assignment]

    def measure(self, read: Any, xp: Any) -> Mapping[str, Array]:
        found = Reading.measure(self, read, xp)["power"]
        return {"power": found - found.mean()}


class Numbering(Reading):
    type: Literal["t_numbering"] = "t_numbering"  # type: ignore[assignment]

    def measure(self, read: Any, xp: Any) -> Mapping[str, Array]:
        return {"power": Reading.measure(self, read, xp)["power"] + next(_NUMBERS)}


class Summing(Reading):
    """Adds up, and keeps the sum elsewhere than in a variable."""

    type: Literal["t_summing"] = "t_summing"  # type: ignore[assignment]
    kept: ClassVar[dict[int, Array]] = {}

    def measure(self, read: Any, xp: Any) -> Mapping[str, Array]:
        found = Reading.measure(self, read, xp)["power"]
        if read.step == 3 or len(found) not in self.kept:
            self.kept[len(found)] = np.zeros_like(found)
        self.kept[len(found)] = self.kept[len(found)] + found
        return {"power": self.kept[len(found)]}


class Louder(Reading):
    type: Literal["t_louder"] = "t_louder"  # type: ignore[assignment]

    def norms(self, layers: Any) -> Mapping[str, tuple[Term, ...]]:
        return {"power": (Term("code", "squares", 2.0),)}

    def measure(self, read: Any, xp: Any) -> Mapping[str, Array]:
        return {"power": (read("code", "A") ** 2).sum(axis=(1, 2, 3))}


PROBES = {
    Disturbing: "observes",
    Averaging: "slices apart",
    Numbering: "repeats",
    Summing: "resume",
    Louder: "norms",
}


class Adding(Learning):
    """The product itself is added."""

    type: Literal["t_adding"] = "t_adding"
    error: str = "error"
    against: ClassVar[Any] = "error"
    counted: ClassVar[Any] = False

    def variables(self, weights: Variable) -> Sequence[Variable]:
        return ()

    def change(
        self, weights: Array, product: Array, counts: Any, state: Any, update: int, slices: int, xp: Any
    ) -> None:
        weights += 0.01 * product


class Idle(Adding):
    type: Literal["t_idle"] = "t_idle"  # type: ignore[assignment]

    def change(self, weights: Array, *others: Any) -> None:
        pass


class Ranking(Adding):
    type: Literal["t_ranking"] = "t_ranking"  # type: ignore[assignment]
    featurewise: ClassVar[Any] = True  # type: ignore[assignment]

    def change(self, weights: Array, product: Array, *others: Any) -> None:
        weights += 0.01 * product / abs(product).max()


class Hoarding(Adding):
    """Keeps the last product elsewhere than in a variable."""

    type: Literal["t_hoarding"] = "t_hoarding"  # type: ignore[assignment]
    kept: ClassVar[list[Any]] = [0.0]

    def change(self, weights: Array, product: Array, *others: Any) -> None:
        weights += 0.01 * (product + self.kept[0])
        self.kept[0] = product.copy()


RULES = {Idle: "learns", Ranking: "featurewise", Hoarding: "slices apart"}
ALL = ((check_layer, LAYERS), (check_connection, CONNECTIONS), (check_probe, PROBES), (check_rule, RULES))
CASES = [(check, kind, name) for check, kinds in ALL for kind, name in kinds.items()]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    Remembering.kept.clear()
    Summing.kept.clear()
    Forgetful.kept[0] = Hoarding.kept[0] = 0.0


@pytest.mark.parametrize(("check", "kind", "name"), CASES, ids=[kind.__name__ for _, kind, _ in CASES])
def test_a_type_that_breaks_it_is_told(check: Any, kind: Any, name: str) -> None:
    with pytest.raises(ContractError) as found:
        check(kind)
    text = str(found.value)
    assert f"{kind.model_fields['type'].default} break their contract" in text
    assert f"\n    {name}\n        found:    " in text, text
    assert MEANING[name] in text


def test_each_property_has_a_type_that_breaks_it() -> None:
    assert {name for _, _, name in CASES} == set(MEANING)


def test_types_without_mistakes_pass() -> None:
    check_layer(Good)
    check_connection(Passing)
    check_probe(Reading)
    assert "learns" in check_rule(Adding).held


class Endless(Good):
    """V is infinite where the input is negative."""

    type: Literal["t_endless"] = "t_endless"  # type: ignore[assignment]
    capabilities = Capabilities(local=True, splittable=True)

    def variables(self) -> Sequence[Variable]:
        return (Variable("V", self.shape, LAYER_DIMS, infinite=True),)

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        state["V"][...] = np.where(drive[0] < 0, np.inf, drive[0])
        activity[...] = drive[0]


def test_numbers_that_differ_in_the_sign_of_zero_are_told() -> None:
    with pytest.raises(Broken, match=r"k \[1\] is -0, not 0"):
        same({"k": np.float32([0, -0.0])}, {"k": np.float32([0, 0])})


def test_infinite_variables_agree_where_they_are_the_same() -> None:
    assert {"local", "splittable"} <= set(check_layer(Endless).held)
    with pytest.raises(Broken, match=r"k \[1\] is -inf, not inf"):
        near({"k": np.float32([1, -np.inf])}, {"k": np.float32([1, np.inf])}, 1e-4)


@pytest.mark.parametrize(
    ("shape", "skipped"),
    [((3, 4, 9), ()), ((1, 4, 6), ("local",)), ((4, 4, 1), ("splittable",)), ((4, 4, 17), ("splittable",))],
)
def test_units_are_divided_into_parts_that_there_are(shape: Any, skipped: Sequence[str]) -> None:
    found = check_layer(Endless, shape=shape)
    for name in ("local", "splittable"):
        assert (name in found.skipped) == (name in skipped)
        assert (name in found.held) != (name in skipped)


def test_an_error_of_a_contract_is_a_failed_test() -> None:
    assert issubclass(ContractError, AssertionError)
    assert issubclass(ContractError, PetabatchError)


def test_capabilities_are_those_of_exactly_one_class() -> None:
    class Again(Blurring):
        type: Literal["t_again"] = "t_again"  # type: ignore[assignment]

    assert Blurring(shape=(2, 2, 2)).local
    assert not Again(shape=(2, 2, 2)).local
    assert not Again(shape=(2, 2, 2)).splittable
    with pytest.raises(FrozenInstanceError):
        Blurring.capabilities.local = False  # type: ignore[misc]


def test_capabilities_that_are_declared_in_another_way_are_refused() -> None:
    with pytest.raises(
        TypeError, match=r"Old\.local: declare it by capabilities = Capabilities\(local=True\)"
    ):

        class Old(Good):
            local: ClassVar[bool] = True

    with pytest.raises(TypeError, match=r"Odd\.capabilities is \('local',\), and not made by"):

        class Odd(Good):
            capabilities = ("local",)  # type: ignore[assignment]


def test_what_a_type_raises_is_told_without_the_network_of_the_check() -> None:
    class Raises(Linear):
        type: Literal["raises_at_once"] = "raises_at_once"

        def update(self, ctx: Any, state: Any, drive: Any, previous: Any, activity: Any) -> None:
            activity[...] = state["U"]

    with pytest.raises(ContractError) as found:
        check_layer(Raises)
    assert (
        "    runs\n        found:    the plug-in type raises_at_once fails in step 1: KeyError: 'U'\n"
        in str(found.value)
    )
    assert 'activity[...] = state["U"]' in str(found.value)
    with pytest.raises(ArgumentError, match="expected: a class"):
        check_layer("lca")  # type: ignore[arg-type]
