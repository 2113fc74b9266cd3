"""Values per slice with which slices have different kernels: each has the bits of a run with its values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch.engine.engine import Engine
from petabatch.errors import NonFiniteError
from petabatch.network.build import build
from petabatch.network.plan import Plan, schedule
from petabatch.network.slices import sliced
from petabatch.parallel.comm import Serial
from petabatch.report.explain import summary
from petabatch.spec.network import Network
from petabatch.spec.schedule import Every
from petabatch.spec.sweep import Sweep
from support.commands import alone, contents
from support.networks import assert_same, collect, images, lca_network
from support.random_runs import finish, on_ranks, saved_at, states

TAUS = (50.0, 100.0, 200.0, 77.0)
"""Images are shown too briefly for lazy evaluation with the third."""
DISPLAY = 60


@pytest.fixture(autouse=True)
def _small_codes_are_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("petabatch.network.lazy_codes.LEAST", 0)
    monkeypatch.setattr("petabatch.network.lazy_codes._SHORT", 0)


def network(slices: dict[str, tuple[float, ...]] | None = None, **keys: Any) -> Network:
    """Return a code with values per slice, by default the time constants."""
    keys = {"display": DISPLAY, "displays": 2, "mode": "shared", "features": 8, "record": Every(7)} | keys
    given = {"layers.V1.tau": TAUS} if slices is None else slices
    net = lca_network(images(len(next(iter(given.values()))), shape=(8, 8, 2)), **keys)
    return net.model_copy(update={"slices": given})


def lazily(plan: Plan) -> list[bool]:
    """Return of each slice whether its code is lazily evaluated."""
    batch = plan.graph.network.batch
    return [bool(plan.of_slice(number).method.program.lazy) for number in range(batch)]


def of_slice(arrays: dict[str, np.ndarray], number: int, axis: int) -> dict[str, np.ndarray]:
    """Return what belongs to a slice."""
    return {key: array.take(number, axis) for key, array in arrays.items()}


@pytest.mark.parametrize("learn", [False, True])
def test_each_slice_has_the_kernel_and_the_bits_of_a_run_with_its_values(learn: bool) -> None:
    net = network(learn=learn)
    engine, recorded = finish(net)
    assert lazily(engine.plan) == [True, True, False, True]
    end = states(engine)
    for number in range(4):
        own_engine, own = finish(sliced(net, number))
        assert_same(of_slice(recorded, number, 1), of_slice(own, number, 1))
        kept = states(own_engine)
        mine = {key: end[key] for key in kept}
        assert_same(of_slice(mine, number, 0), of_slice(kept, number, 0))


def test_threads_ranks_and_resumption_change_no_bit() -> None:
    net = network(displays=3)
    engine, recorded = finish(net)
    step = next(s for s in range(DISPLAY + 1, 3 * DISPLAY) if engine.plan.next_sync(s - 1) == s)
    found = [
        on_ranks(net, 2, threads=2),
        on_ranks(net, 3),
        on_ranks(net, 2, (step, saved_at(net, step))),
    ]
    for state, values in found:
        assert_same(state, states(engine))
        assert_same(values, {path: recorded[path][-len(rest) :] for path, rest in values.items()})


def test_points_of_a_sweep_have_their_kernels() -> None:
    net = network({"layers.V1.threshold": (0.4, 0.5)}, learn=False, displays=1)
    swept = net.model_copy(update={"sweep": Sweep(layers={"V1": {"tau": [50.0, 200.0, 77.0]}})})
    engine, recorded = finish(swept)
    assert lazily(engine.plan) == [True, True, False, False, True, True]
    for point in range(3):
        _, own = finish(sliced(swept, 2 * point))
        for path, values in own.items():
            assert np.array_equal(recorded[path][:, 2 * point], values[:, 0]), path


@pytest.mark.parametrize("kernel", ["auto", "dense", "lazy"])
@pytest.mark.parametrize("connection", ["dictionary", "drive", "recon_to_error"])
def test_strengths_may_differ_under_each_kernel(connection: str, kernel: Any) -> None:
    net = network(
        {f"connections.{connection}.strength": (1.0, 0.0, 0.5)}, kernel=kernel, learn=False, displays=1
    )
    _, recorded = finish(net)
    for number in range(3):
        _, own = finish(sliced(net, number))
        assert_same(of_slice(recorded, number, 1), of_slice(own, number, 1))


def vectors(taus: tuple[float, ...]) -> Network:
    """Return codes of vectors, several of which are advanced in one call where they are not lazy."""
    net = lca_network(
        images(len(taus), shape=(4, 4, 2)), features=8, patch=(4, 4), stride=4, learn=False,
        display=DISPLAY, displays=1,
    )  # fmt: skip
    return net.model_copy(update={"slices": {"layers.V1.tau": taus}})


def test_slices_of_one_kernel_form_groups_wherever_they_are() -> None:
    net = vectors((200.0, 50.0, 200.0, 300.0, 50.0, 200.0))
    engine, recorded = finish(net)
    assert sorted([lane.slices.start for lane in group.all] for group in engine.dispatch.groups) == [
        [0, 2, 3, 5], [1, 4],  # the second one after the other
    ]  # fmt: skip
    for number in range(6):
        _, own = finish(sliced(net, number))
        assert_same(of_slice(recorded, number, 1), of_slice(own, number, 1))


@pytest.mark.parametrize("number", [1, 3])
def test_a_number_that_is_not_finite_is_found_in_each_slice_of_a_group(number: int) -> None:
    engine = Engine(schedule(build(vectors((200.0, 200.0, 50.0, 200.0)))), Serial(), 1)
    engine.start()
    engine.state.arrays["layers/V1/V"][number, 0, 0, 0] = np.nan
    with pytest.raises(NonFiniteError, match=f"of slice {number} is no longer finite"):
        collect(engine)


def test_a_run_that_starts_from_one_with_other_kernels_has_the_bits_it_has_alone(small: Path) -> None:
    turns = [(50.0, 50.0, 200.0), (50.0, 200.0, 50.0), (200.0, 50.0, 50.0)]
    ends = (90, 100, 120)  # the first in the middle of a display
    small.write_text(small.read_text().replace("displays = 6", "steps = 60"))

    def last(name: str, turn: int, tau: str, *more: str) -> dict[str, bytes]:
        shared = 'connections.dictionary.mode="shared"'
        run = ("run.display=60", f"run.steps={ends[turn]}", f"layers.V1.tau={tau}")
        out = alone(small, name, shared, *run, *more)
        return contents(out / f"checkpoints/step_{ends[turn]:09d}.h5")

    for turn, taus in enumerate(turns):
        before = (f"run.start_from=mixed{turn - 1}",) if turn else ()
        mixed = last(f"mixed{turn}", turn, f"{{slices={list(taus)}}}", *before)
        for number, tau in enumerate(taus):
            before = (f"run.start_from=own{number}_{turn - 1}",) if turn else ()
            own = last(f"own{number}_{turn}", turn, str(tau), *before)
            for key in ("layers/V1/V", "layers/recon/A"):
                each = len(own[key]) // 3
                mine = slice(number * each, (number + 1) * each)
                assert mixed[key][mine] == own[key][mine], (turn, number, key)


def test_check_prints_the_method_of_each_slice() -> None:
    text = " ".join(summary(schedule(build(network()))).split())
    assert "method slices 0-1, 3: compiled program" in text
    assert "slices 2: compiled program" in text
    assert "lazily evaluated: V1" in text.split("slices 2:")[0]
    assert "because images are shown too briefly" in text.split("slices 2:")[1]
