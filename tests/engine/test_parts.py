"""Slices of which several ranks, that are threads here, have a part: what is measured and decided of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from petabatch.connections import Conv, Transpose
from petabatch.engine.feature_split import FeatureSplit
from petabatch.layers import ISTA, LCA, HeavyBall, Linear, LogTimeScale, MomentumLCA
from petabatch.learning import Hebbian, Oja, Revive
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.probes import L1, PSNR, Optimality, Statistics
from petabatch.spec.network import ConnectionOutput, Evaluate, LayerOutput, Network, Until
from petabatch.spec.over_time import OverTime
from petabatch.spec.parts import Probe, Reading
from petabatch.spec.schedule import DISPLAY, STEP
from petabatch.spec.sweep import Sweep
from petabatch.weights import L2, Gaussian
from support.networks import GivenImages, images, lca_network, simulate
from support.parts import agrees, assert_near, in_float64, of_ranks, split
from support.rank_threads import Thread, on_threads

AXES = [{"features": 2}, {"rows": 2}, {"features": 2, "rows": 2}, {"rows": 3}, {"features": 3}]


def network(**run: Any) -> Network:
    return lca_network(images(2, shape=(36, 24, 3)), displays=2, **run)


def changed(one: Network, **tables: Any) -> Network:
    """Return a network with more in some of its tables."""
    return one.model_copy(update={name: {**getattr(one, name), **more} for name, more in tables.items()})


PROBES = {
    "quality": PSNR(image="image", reconstruction="recon", every=STEP),
    "statistics": Statistics(layer="V1", every=STEP),
    "masked": L1(layer="error", mask="image", every=STEP),
    "optimality": Optimality(
        image="image", reconstruction="recon", code="V1", drive="drive", coefficient=0.4, every=STEP
    ),
}


class Explained(Probe):
    """What a dictionary makes of the squares of a code."""

    type: str = "explained"
    dictionary: str
    code: str

    def layers(self) -> Sequence[str]:
        return (self.code,)

    def connections(self) -> Sequence[str]:
        return (self.dictionary,)

    def quantities(self) -> Mapping[str, str]:
        return {"largest": "largest value"}

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Any]:
        made = read.through(self.dictionary, xp.square(read(self.code, "A")))
        return {"largest": made.reshape(len(made), -1).max(axis=1).astype(float)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parts", AXES, ids=str)
def test_a_probe_of_ones_own_measures_through_weights_of_all_parts(parts: dict[str, int]) -> None:
    own = Explained(dictionary="dictionary", code="V1", every=STEP)
    whole = changed(network(learn=False), probes={"own": own})
    _, recorded = simulate(whole)
    found, _ = of_ranks(split(whole, **parts))
    assert recorded["probes/own/largest"].max() > 0
    assert_near(recorded, found, 1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kernel", ["dense", "lazy"])
@pytest.mark.parametrize("parts", AXES, ids=str)
def test_all_probes_measure_whole_slices(kernel: str, parts: dict[str, int]) -> None:
    whole = changed(network(kernel=kernel, learn=False), probes=PROBES)
    _, recorded = simulate(whole)
    found, _ = of_ranks(split(whole, **parts))
    assert len({path.split("/")[1] for path in found if path.startswith("probes/")}) == len(whole.probes)
    assert_near(recorded, found, 1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("parts", AXES[:3], ids=str)
def test_slices_stop_at_the_gap_of_the_whole(threads: int, parts: dict[str, int]) -> None:
    whole = changed(
        network(learn=False, kernel="lazy", until=Until(gap=0.6, every=3)),
        probes={"optimality": PROBES["optimality"].model_copy(update={"every": DISPLAY})},
    )
    _, recorded = simulate(whole)
    found, _ = of_ranks(split(whole, **parts), threads=threads)
    steps = recorded["probes/until/steps"]
    assert len(set(steps.ravel())) > 1
    assert steps.min() < 18
    assert_near(recorded, found, 1e-6)


@pytest.mark.parametrize("parts", AXES[:3], ids=str)
def test_time_scales_follow_the_energy_of_the_whole(parts: dict[str, int]) -> None:
    one = network(learn=False, kernel="dense", display=16)
    scaled = one.layers["V1"].model_copy(
        update={"time_scale": LogTimeScale(energy="energy", minimum=0.5, maximum=1.5, threshold=3.0)}
    )
    whole = changed(one, layers={"V1": scaled})
    outputs = {**one.output.layers, "V1": LayerOutput(every=STEP, variables=("V", "time_scale"))}
    whole = whole.model_copy(update={"output": one.output.model_copy(update={"layers": outputs})})
    _, recorded = simulate(whole)
    found, _ = of_ranks(split(whole, **parts))
    scales = recorded["layers/V1/time_scale"]
    assert np.ptp(scales, axis=0).min() > 0
    np.testing.assert_array_equal(found["layers/V1/time_scale"].shape, scales.shape)
    assert_near(recorded, found, 1e-5)  # scales follow differences of energies, in which rounding grows
    agrees(in_float64(whole), parts, 1e-12)


@pytest.mark.parametrize("parts", AXES[:3], ids=str)
def test_weights_learn_from_all_parts_of_all_slices(parts: dict[str, int]) -> None:
    parted = split(network(), **parts)
    alone, state = of_ranks(network())
    found, whole = of_ranks(parted)
    assert_near(alone, found, 1e-6)
    assert_near(state, whole, 1e-6)
    first, _ = of_ranks(parted, ranks=2 * parted.parallel.parts)
    key = "connections/dictionary/weights"
    np.testing.assert_array_equal(first[key], found[key])


@pytest.mark.parametrize("parts", AXES[:3], ids=str)
def test_held_out_images_are_evaluated_with_parts_of_each(parts: dict[str, int]) -> None:
    held = Evaluate.model_construct(
        source=GivenImages(data=images(2, shape=(36, 24, 3), seed=5)), every=DISPLAY
    )
    whole = network().model_copy(update={"evaluate": held})
    alone, _ = of_ranks(whole)
    for threads in (1, 2):
        found, _ = of_ranks(split(whole, **parts), threads=threads)
        assert found["probes/evaluate/energy_total"].min() > 0
        assert_near(alone, found, 1e-6)


@pytest.mark.parametrize("parts", AXES[:3], ids=str)
def test_points_of_a_sweep_have_their_values_in_all_parts(parts: dict[str, int]) -> None:
    sweep = Sweep(**{"layers.V1.threshold": [0.3, 0.6], "layers.V1.tau": [20.0, 30.0]})
    whole = network(learn=False).model_copy(update={"sweep": sweep})
    alone, _ = of_ranks(whole)
    found, _ = of_ranks(split(whole, **parts))
    active = alone["probes/active/active"][-1]
    assert active.shape == (8,)
    assert len(set(active)) > 4
    assert_near(alone, found, 1e-6)
    parted = split(whole, **parts)
    first, _ = of_ranks(parted, ranks=2 * parted.parallel.parts)
    for key, array in first.items():
        np.testing.assert_array_equal(
            array, found[key][:, :4] if array.shape != found[key].shape else found[key]
        )


@pytest.mark.parametrize("parts", AXES[:3], ids=str)
@pytest.mark.parametrize(
    "code",
    [ISTA(shape=(18, 12, 12)), MomentumLCA(shape=(18, 12, 12)), HeavyBall(shape=(18, 12, 12), beta=0.5)],
    ids=lambda code: code.type,
)
def test_codes_of_other_types_have_parts(code: LCA, parts: dict[str, int]) -> None:
    whole = network(learn=False)
    own = code.model_copy(update={"tau": 20.0, "threshold": 0.4})
    whole = whole.model_copy(update={"layers": {**whole.layers, "V1": own}})
    _, recorded = simulate(whole)
    found, _ = of_ranks(split(whole, **parts))
    assert recorded["probes/active/active"].max() > 0
    assert_near(recorded, found, 1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kernel", ["auto", "array"])
@pytest.mark.parametrize("parts", [{"features": 2}, {"features": 3, "rows": 2}], ids=str)
@pytest.mark.parametrize("patch", [(1, 1), (3, 3)], ids=str)
def test_weights_onto_a_split_layer_are_those_of_its_features(
    patch: tuple[int, int], parts: dict[str, int], kernel: str
) -> None:
    one = network(kernel=kernel)
    encoder = Conv(
        pre="image",
        post="V1",
        patch=patch,
        strength=0.1,
        init=Gaussian(),
        normalize=L2(),
        learn=Hebbian(rate=0.05, momentum=0.5, average="active"),
        decorrelate=0.01,
    )
    back = Transpose(pre="V1", post="seen", of="encoder")
    whole = changed(
        one,
        layers={"seen": Linear(shape=one.layers["image"].shape)},
        connections={"encoder": encoder, "back": back},
    )
    outputs = one.output.model_copy(
        update={
            "layers": {**one.output.layers, "seen": LayerOutput()},
            "connections": {**one.output.connections, "encoder": ConnectionOutput()},
        }
    )
    whole = whole.model_copy(update={"output": outputs})
    alone, state = of_ranks(whole)
    found, gathered = of_ranks(split(whole, **parts))
    weights = alone["connections/encoder/weights"]
    assert not np.array_equal(weights[0], weights[-1])
    assert alone["layers/seen/A"].any()
    assert_near(alone, found, 1e-6)
    assert_near(state, gathered, 1e-6)


RULES = {
    "oja": {"learn": Oja(input="image", rate=0.001)},
    "decorrelate": {"decorrelate": 0.05},
    "revive": {"revive": Revive(after=1)},
}


@pytest.mark.parametrize("parts", AXES[:3], ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_rules_that_couple_features_learn_from_all_parts(rule: str, parts: dict[str, int]) -> None:
    one = network(momentum=0.0)
    own = one.connections["dictionary"].model_copy(update=RULES[rule])
    code = one.layers["V1"].model_copy(update={"threshold": 1.0})
    whole = changed(one, connections={"dictionary": own}, layers={"V1": code})
    _, recorded = simulate(whole)
    found, _ = of_ranks(split(whole, **parts))
    assert not np.array_equal(*recorded["connections/dictionary/weights"][-2:])
    assert_near(recorded, found, 1e-6)


@pytest.mark.parametrize("parts", AXES[:2], ids=str)
def test_messages_are_prepared_once_also_where_values_change_in_each_step(
    parts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, messages = list[tuple[int, int]](), Thread.messages

    def counted(self: Thread, sent: Any, received: Any, tag: int) -> Any:
        prepared.append((self.rank, tag))
        return messages(self, sent, received, tag)

    monkeypatch.setattr(Thread, "messages", counted)
    rising = OverTime(at=[1, 21], values=[0.6, 0.3], by="step", interpolate="linear")
    whole = network(learn=False).model_copy(update={"over_time": {"layers.V1.threshold": rising}})
    _, recorded = simulate(whole)
    found, _ = of_ranks(split(whole, **parts))
    assert_near(recorded, found, 1e-6)
    exchanges = 1 if "features" in parts else 2  # the sum, or the rows of it and of the error, of each slice
    assert len(prepared) == len(set(prepared)) == 2 * 2 * exchanges


def test_weights_are_gathered_by_sending_the_part_of_a_rank_to_each_other_and_no_more() -> None:
    plan = schedule(build(split(network(), features=3)))
    key = "connections/dictionary/weights"
    shape = plan.variables[key].shape
    weights = np.arange(np.prod(shape), dtype=np.float32).reshape(1, *shape)

    def one(comm: Thread) -> tuple[np.ndarray, np.ndarray, int]:
        sent, exchange = list[int](), comm.exchange

        def counted(given: Mapping[int, np.ndarray], received: Mapping[int, np.ndarray], tag: int) -> None:
            sent.extend(array.nbytes for array in given.values())
            exchange(given, received, tag)

        comm.exchange = counted  # type: ignore[method-assign]
        features = FeatureSplit(plan, comm)
        own = features.part({key: weights})[key].copy()
        with features.all_of("dictionary", {"weights": own}) as found:
            gathered = found["weights"].copy()
            found["weights"][...] += 1
        np.testing.assert_array_equal(own, features.part({key: weights + 1})[key])
        return gathered, own, sum(sent)

    for gathered, own, sent in on_threads(3, one):
        np.testing.assert_array_equal(gathered, weights)
        assert sent == 2 * own.nbytes
