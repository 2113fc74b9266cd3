"""Random networks of all types and keys, a few: all steppers, ranks, resumed, unobserved."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch.connections import Conv, Identity, Sparse
from petabatch.layers import Input, LeakyIntegrator, Linear
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.probes import L2
from petabatch.sources import ImageArray, Noise
from petabatch.spec.network import Network, Run
from petabatch.spec.schedule import NEVER, Every
from petabatch.weights import Gabor, Unchanged, Uniform
from support.random_networks import tally
from support.random_networks.acting import Acting
from support.random_networks.aiming import Aimed
from support.random_networks.campaign import STEPPERS, Campaign
from support.random_networks.coverage import Coverage
from support.random_networks.pairs import Pair, Spoken, Where, met, possible, spoken
from support.random_networks.proofs import Proofs
from support.random_networks.repairing import repaired
from support.random_networks.seen import Seen
from support.random_networks.splitting import Splits
from support.random_networks.tables import Nothing
from support.random_networks.words import replaced

SHAPE = (3, 4, 2)


def test_random_networks_are_the_same_under_all_steppers(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, seed=120, counting=False)
    assert list(campaign.go(2)) == []
    assert all(campaign.counts[stepper] for stepper in STEPPERS)


@pytest.mark.parametrize(
    "seed",
    [
        34,  # the margin of a delayed image, of which a rank has some features
        186,  # weights at each position, given for each slice
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(300, 1300, 100)),
    ],
)
def test_random_networks_whose_slices_ranks_share_are_those_of_one_rank(seed: int, tmp_path: Path) -> None:
    splits = Splits(tmp_path, seed)
    network, several = splits.network()
    assert list(splits.compare(network, several[splits.seed % len(several)])) == []


@pytest.mark.mpi
@pytest.mark.long
def test_random_networks_on_real_ranks_that_share_slices(tmp_path: Path) -> None:
    splits = Splits(tmp_path, 500)
    assert list(splits.go(2)) == []
    assert sum(count for name, count in splits.counts.items() if "real ranks" in name) == 1


@pytest.mark.long
def test_a_stepper_that_differs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update = Linear.update

    def wrong(self: Any, *arguments: Any) -> None:
        update(self, *arguments)
        arguments[-1][...] *= 1.0001

    monkeypatch.setattr(Linear, "update", wrong)
    found = next(Campaign(tmp_path, seed=0, counting=False).go(8))
    assert "dense: " in found


def traces() -> Network:
    """Return a network with a layer that nothing arrives at."""
    return Network(
        run=Run(batch=2, display=4, displays=2),
        layers={
            "image": Input(shape=SHAPE, source=Noise()),
            "trace": LeakyIntegrator(shape=SHAPE, tau=2.0, reset=Every(3)),
            "still": LeakyIntegrator(shape=SHAPE, tau=3.0, reset=Every(3)),
        },
        connections={"seen": Identity(pre="image", post="trace", delay_steps=1)},
        probes={"size": L2(layer="still")},
    )


def test_what_changes_no_bit_does_not_count() -> None:
    network = traces()
    acts = Acting(network)
    counted = {(one.part.partition(".")[2], one.said.word) for one in spoken(network) if acts(one)}
    assert {
        ("trace", "Layer.reset=steps"),
        ("seen", "Connection.delay_steps"),
        ("size", "probe l2"),
    } <= counted
    assert not [word for part, word in counted if part == "still"]
    pairs = met(network, filter(acts, spoken(network)))
    assert ("Connection.delay_steps", "connection identity") in pairs["in one part"]
    assert ("Connection.delay_steps", "Layer.reset=steps") in pairs["in neighbours"]
    assert all(found <= possible()[where] for where, found in pairs.items())


def counted_words(network: Network) -> set[tuple[str, str]]:
    """Return the parts and words of a network that act."""
    acts = Acting(network)
    return {(one.part.partition(".")[2], one.said.word) for one in spoken(network) if acts(one)}


def test_what_says_the_default_acts_where_something_else_would() -> None:
    images = ImageArray(data=np.random.default_rng(0).normal(size=(9, *SHAPE)))
    weights = Conv(pre="image", post="sum", patch=(1, 1), init=Uniform(), normalize=Unchanged())
    network = Network(
        run=Run(batch=2, display=4, displays=2),
        layers={"image": Input(shape=SHAPE, source=images), "sum": Linear(shape=SHAPE)},
        connections={"weights": weights},
    )
    said = {("image", "order sequential"), ("weights", "normaliser none")}
    assert said <= counted_words(network)
    same = Input(shape=SHAPE, source=ImageArray(data=np.ones((9, *SHAPE))))
    layers = {**network.layers, "image": same}
    alike = network.model_copy(update={"layers": layers})
    assert said & counted_words(alike) == {("weights", "normaliser none")}


def test_a_rule_that_never_learns_acts_where_it_would() -> None:
    rule = Hebbian(every=NEVER, clip=1e-3)
    patches = Conv(pre="image", post="sum", patch=(1, 1), init=Uniform(low=0.1), learn=rule)
    network = Network(
        run=Run(batch=2, display=4, displays=2),
        layers={
            "image": Input(shape=SHAPE, source=Noise()),
            "still": Linear(shape=SHAPE),
            "sum": Linear(shape=SHAPE),
        },
        connections={"learns": patches, "idle": patches.model_copy(update={"pre": "still"})},
    )
    words = {"learning rule hebbian", "Learning.every=never", "Hebbian.clip"}
    counted = counted_words(network)
    assert {("learns", word) for word in words} <= counted
    assert {("idle", word) for word in words}.isdisjoint(counted)


def test_keys_that_have_acted_count_where_their_part_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs, network, tried = Proofs(), traces(), list[str]()
    wanted = Counter(one.said.word for one in spoken(network))
    first = list(proofs.counted(network, wanted))
    acts = Acting._acts

    def noted(self: Acting, one: Spoken) -> bool:
        tried.append(one.said.word)
        return acts(self, one)

    monkeypatch.setattr(Acting, "_acts", noted)
    assert list(proofs.counted(network, wanted)) == first
    assert "Layer.reset=steps" in {one.said.word for one in first}
    assert "Layer.reset=steps" not in tried
    assert not [one for one in first if one.part == "layers.still"]


def test_what_check_refuses_is_taken_out_of_a_drawn_network() -> None:
    network, told = traces(), list[str]()
    layers = {**network.layers, "copy": Linear(shape=SHAPE, batch=1)}
    joined = {**network.connections, "wide": Identity(pre="image", post="nowhere")}
    drawn = network.model_copy(update={"layers": layers, "connections": joined})
    left = repaired(drawn, lambda before, after, problem: told.append(problem.key))
    build(left)
    assert left.layers == {**network.layers, "copy": Linear(shape=SHAPE)}
    assert left.connections == network.connections
    assert sorted(told) == ["connections.wide.post", "layers.copy.batch"]


def test_networks_are_drawn_around_pairs(tmp_path: Path) -> None:
    pairs: list[tuple[Where, Pair]] = [
        ("in one part", ("Neurons.method=euler_maruyama", "sweep")),
        ("in one part", ("Sparse.delays", "initialiser array")),
        ("in neighbours", ("Retina.burst_rate", "layer quotient")),
        ("in neighbours", ("Oja.rate", "Specified.skip")),
        ("in neighbours", ("connection potential", "layer mask")),
        ("in neighbours", ("Clone.error", "Hebbian.momentum")),
        ("in neighbours", ("SpikeTimes.path", "probe spike_statistics")),
        ("in neighbours", ("LayerOutput.every=steps", "Movie.end=longest")),
        ("elsewhere", ("Bins.outside", "Sweep.values")),
    ]
    network = Aimed(1, tmp_path, Nothing(), pairs).network()
    found = met(network, spoken(network))
    assert [(where, pair) for where, pair in pairs if pair not in found[where]] == []


def test_a_pair_that_check_refuses_has_its_message() -> None:
    seen, coverage, network = Seen(), Coverage(["array"]), traces()
    patches = Conv(pre="image", post="trace", patch=(1, 1), init=Gabor())
    seen.add(network.model_copy(update={"connections": {"patches": patches}}))
    synapses = Sparse(pre="image", post="trace", number=3, init=Uniform())
    tables = {word: value for value, word in seen.fitting(synapses, "init", np.random.default_rng(0))}
    given = replaced(synapses, ("init",), tables["initialiser gabor"])
    drawn = network.model_copy(update={"connections": {**network.connections, "synapses": given}})
    repaired(drawn, coverage.refuse_words)
    reason = coverage.reason("in one part", ("connection sparse", "initialiser gabor"))
    assert reason == "refused: this initialiser is for the weights of patches"


def test_networks_around_a_pair_alone_say_whether_check_accepts_it(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    where: Where = "in one part"
    for one, accepted in (
        (("layer mask", "slices"), True),
        (("LogTimeScale.slope", "sweep"), True),
        (("Bins.high", "Layer.reset_to"), False),
        (("Movie.at_end=hold", "Movie.end=longest"), False),
    ):
        campaign.coverage.aim((where, one))
        assert any(campaign.accepts(where, one) for _ in range(4)) == accepted, one
    reason = campaign.coverage.reason(where, ("Bins.high", "Layer.reset_to"))
    assert reason == "refused: this layer cannot be reset to the other"
    reason = campaign.coverage.reason(where, ("Movie.at_end=hold", "Movie.end=longest"))
    assert reason == "refused: films that do not end have no shortest and no longest"


def test_the_pairs_of_campaigns_add_up(tmp_path: Path) -> None:
    """Pairs of words that there are no more, as of a key with another name, are left out."""
    where: Where = "in one part"
    others = sorted(possible()["in one part"])
    campaigns = [Coverage(STEPPERS) for _ in range(2)]
    for coverage, pairs in zip(campaigns, (others[:5], others[3:9]), strict=True):
        coverage.drawn["array"][where] |= set(pairs)
    campaigns[0].drawn["dense"][where].add(("Layer.gone", "layer lost"))
    file = tmp_path / "tally.npz"
    told = [next(tally.add(coverage, file)) for coverage in campaigns]
    assert [line.rpartition(", ")[2] for line in told] == ["5 of them new", "4 of them new"]
    assert tally.read(file)[where] == set(others[:9])
