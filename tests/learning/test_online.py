"""The learning rule `online`: atoms that fit the statistics of all codes, the same bits anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory
from petabatch.connections import Clone
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import ParamsError
from petabatch.learning import Hebbian, Online, Revive
from petabatch.learning.statistics import Statistics
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Parallel
from petabatch.storage.checkpoint import latest_checkpoint, load_checkpoint
from petabatch.storage.directory import RunDirectory
from support.networks import GivenWeights, assert_same, collect, images, simulate
from support.online import UPDATES, network

WEIGHTS, CODES = "connections/dictionary/weights", "layers/V1/A"


def data(slices: int = 3, rows: int = 12, columns: int = 12) -> np.ndarray:
    return images(slices, UPDATES, (rows, columns, 2))


def tiles(given: np.ndarray, patch: int) -> np.ndarray:
    """Return the patches of images `[n, ny, nx, channels]`, `[n, positions, K]`."""
    n, ny, nx, channels = given.shape
    split = given.reshape(n, ny // patch, patch, nx // patch, patch, channels).swapaxes(2, 3)
    return split.reshape(n, (ny // patch) * (nx // patch), -1)


def expected(
    begin: np.ndarray, codes: np.ndarray, shown: np.ndarray, patch: int, normalize: bool, **rule: Any
) -> list[np.ndarray]:
    """Return the atoms `[features, K]` after each update, from codes `[updates, slices, y, x, features]`."""
    atoms, statistics = begin.astype(float), Statistics.none(*begin.shape)
    found, forgetting = [], rule.pop("forgetting", 4.0)
    for n, code in enumerate(codes):
        items = tiles(shown[:, n], patch)
        units = code.reshape(-1, len(begin))
        statistics = statistics.with_items(units, items.reshape(len(units), -1), (n / (n + 1)) ** forgetting)
        atoms = statistics.fitted(atoms, **rule)
        if normalize:
            atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
        atoms = atoms.astype(np.float32).astype(float)
        assert not len(statistics.unused)
        found.append(atoms)
    return found


@pytest.mark.parametrize("kernel", ["array", "dense", "lazy"])
@pytest.mark.parametrize(("patch", "size"), [(4, 12), (6, 6)])
def test_atoms_are_those_of_the_statistics_of_all_codes(kernel: str, patch: int, size: int) -> None:
    slices = 3 if size > patch else 24  # a single position needs more of them, so that all atoms are used
    shown = data(slices, size, size)
    done = in_memory.run(network(shown, patch, kernel=kernel))
    weights, codes = done.recorded[WEIGHTS], done.recorded[CODES]
    flat = weights.reshape(len(weights), 12, -1)
    found = expected(flat[0], codes, shown, patch, True)
    np.testing.assert_allclose(flat[1:], found, atol=2e-6)
    assert np.abs(flat[1] - flat[0]).max() > 0.1


@pytest.mark.parametrize("rule", [{"forgetting": 0.0}, {"forgetting": 1.0, "negative": False}])
def test_statistics_are_forgotten_and_weights_not_negative_as_told(rule: dict[str, Any]) -> None:
    shown = np.abs(data(12))
    init = GivenWeights(data=np.random.default_rng(2).random((1, 1, 12, 4, 4, 2)) ** 4)
    done = in_memory.run(network(shown, 4, rule, {"normalize": None, "init": init}))
    weights = done.recorded[WEIGHTS].reshape(-1, 12, 32)
    found = expected(weights[0], done.recorded[CODES], shown, 4, False, **rule)
    np.testing.assert_allclose(weights[1:], found, atol=2e-6)
    assert np.linalg.norm(weights[-1], axis=1).max() < 1 + 1e-6
    assert (weights[-1].min() < 0) == rule.get("negative", True)


def test_each_slice_learns_from_its_own_statistics() -> None:
    shown = data(2, 24, 24)
    done = in_memory.run(network(shown, 4, mode="shared"))
    weights = done.recorded[WEIGHTS].reshape(-1, 2, 12, 32)
    for number in range(2):
        own = slice(number, number + 1)
        found = expected(weights[0, number], done.recorded[CODES][:, own], shown[own], 4, True)
        np.testing.assert_allclose(weights[1:, number], found, atol=2e-6)


@pytest.mark.parametrize("rate", [0.1, 0.3, 1.0])
def test_new_images_are_described_better_than_after_learning_at_a_rate(rate: float) -> None:
    shown = images(8, 8, (12, 12, 2))
    online = network(shown, 4, displays=8)
    conv = online.connections["dictionary"].model_copy(update={"learn": Hebbian(error="error", rate=rate)})
    other = online.model_copy(update={"connections": {**online.connections, "dictionary": conv}})
    found, theirs = (
        in_memory.run(one).recorded["probes/energy/total"].mean(axis=1)[59::60] for one in (online, other)
    )
    assert (found[1:] < theirs[1:]).all()


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_atoms_without_use_are_replaced_by_the_worst_described_patches(mode: str) -> None:
    shown, patch = data(3), 4
    begin = np.zeros((1, 1, 12, 4, 4, 2))
    begin[0, 0, :4] = np.random.default_rng(1).normal(size=(4, 4, 4, 2))
    net = network(shown, patch, changes={"mode": mode, "init": GivenWeights(data=begin)}, displays=1)
    done = in_memory.run(net)
    weights = done.recorded[WEIGHTS].reshape(2, -1, 12, 32)
    code = done.recorded[CODES][0].reshape(3, 9, 12)
    patches = tiles(shown[:, 0], patch)
    for number in range(weights.shape[1]):
        every = range(3) if mode == "extra_shared" else [number]
        residual = np.square(patches - code @ weights[0, number]).sum(-1)
        assert not code[every][..., 4:].any()
        worst = sorted(((residual[s].max(), s, int(residual[s].argmax())) for s in every), reverse=True)
        found = weights[1, number]
        unused = np.flatnonzero(~code[every].any(axis=(0, 1)))
        for atom, (_, s, place) in zip(unused, worst, strict=False):
            unit = patches[s, place] / np.linalg.norm(patches[s, place])
            np.testing.assert_allclose(found[atom], unit, atol=1e-6)
        np.testing.assert_array_equal(found[unused[len(worst) :]], weights[0, number, unused[len(worst) :]])
        assert len(unused) >= 8


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
@pytest.mark.parametrize("reduce", ["exact", "overlapped"])
def test_the_bits_are_the_same_on_threads_and_after_resume(mode: str, reduce: Any) -> None:
    net = network(data(20), 4, {}, {"mode": mode}, features=40, threshold=1.2, reduce=reduce)
    whole, recorded = simulate(net)
    assert_same(simulate(net, threads=3)[1], recorded)
    first = Engine(schedule(build(net)), Serial(), 1)
    first.start()
    next(step for step in drive(first) if step == 120)
    first.collect()
    saved = {key: array.copy() for key, array in first.state.saved().items()}
    second = Engine(schedule(build(net)), Serial(), 1)
    second.resume(120, saved)
    for path, values in collect(second).items():
        np.testing.assert_array_equal(values, recorded[path][-len(values) :], err_msg=path)
    whole.collect()
    second.collect()
    for key, array in whole.state.saved().items():
        np.testing.assert_array_equal(second.state.arrays[key], array, err_msg=key)


def test_sums_of_a_slice_depend_on_no_other() -> None:
    shown = data(5)
    whole = in_memory.run(network(shown, 4, mode="shared"))
    alone = in_memory.run(network(shown[3:4], 4, mode="shared"))
    np.testing.assert_array_equal(alone.recorded[WEIGHTS][:, 0], whole.recorded[WEIGHTS][:, 3])


@pytest.mark.parametrize(
    ("given", "changes", "words"),
    [
        ({"stride": 2}, {}, "needs patches that do not overlap.*\n.*4 x 4 at strides of 2 x 2"),
        ({}, {"mode": "extra_non_shared"}, "one dictionary for all positions"),
        ({}, {"revive": Revive(after=2)}, "replaces atoms without use itself"),
        ({}, {"learn": Online(input="V1")}, "does not have the shape of the post layer"),
    ],
)
def test_what_statistics_do_not_fit_is_refused(
    given: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ParamsError, match=words):
        build(network(data(), 4, changes=changes, **given))


def test_weights_that_learn_in_several_places_are_refused() -> None:
    net = network(data(), 4)
    clone = Clone(of="dictionary", pre="V1", post="recon", error="error", channel="none")
    net = net.model_copy(update={"connections": {**net.connections, "again": clone}})
    with pytest.raises(ParamsError, match=r"in one place only\n.*again learns too"):
        build(net)


def test_a_run_starts_from_the_statistics_of_another(tmp_path: Path) -> None:
    net = network(data(), 4)
    first = net.model_copy(update={"run": net.run.model_copy(update={"displays": 3})})
    petabatch.run(first, tmp_path / "a", quiet=True, mpi=False)
    start = net.run.model_copy(update={"displays": 5, "start_from": str(tmp_path / "a")})
    petabatch.run(net.model_copy(update={"run": start}), tmp_path / "b", quiet=True, mpi=False)
    heads = [latest_checkpoint(RunDirectory.open(tmp_path / one)) for one in "ab"]
    found = [load_checkpoint(head, 0, 0)[0] for head in heads if head is not None]
    assert [one["connections/dictionary/updates"].item() for one in found] == [3, 5]


def test_layers_that_ranks_share_are_refused() -> None:
    net = network(data(), 4)
    with pytest.raises(
        ParamsError, match=r"rule online needs all of its layers on each rank\n.*features = 2"
    ):
        build(net.model_copy(update={"parallel": Parallel(features=2)}))
