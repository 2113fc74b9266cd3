"""The gap as the compiled loop evaluates it: that of the probe, wherever it begins and on any threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from petabatch.geometry import Patches
from petabatch.kernels.cpu.certificate import NO_LOOKS, Looks, blocks, look
from petabatch.kernels.cpu.layout import Images, StepSums, shape
from petabatch.kernels.cpu.lazy.layout import lazy_scratch
from petabatch.kernels.cpu.lazy.threads import ThreadTeam
from petabatch.kernels.cpu.threads import advance_rows, look_in_rows
from petabatch.kernels.rules import ACCELERATED, LEAKY
from petabatch.layers.transfer import Transfer
from petabatch.probes import Optimality
from support.loops import (
    NUMPY,
    Problem,
    assert_same_bits,
    geometries,
    many_tiles,
    many_tiles_non_shared,
    problem,
)

some = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
COEFFICIENT = 0.3


def coded(p: Patches, signed: bool, seed: int = 0, steps: int = 6, rule: int = LEAKY) -> tuple[Problem, Any]:
    """Return a problem and its state after some steps."""
    case = problem(p, Transfer(COEFFICIENT, COEFFICIENT, signed=signed), seed=seed)
    case.factor, case.rule = 1.0, rule
    return case, case.compiled([steps])[0]


def looks(target: float, signed: bool, block: int = 0) -> Looks:
    where = np.array([block])
    return NO_LOOKS._replace(
        target=target, coefficient=COEFFICIENT, signed=signed, gap=np.zeros(1), block=where
    )


def measured(case: Problem, state: Any, signed: bool) -> float:
    """Return the gap by the probe, in float64."""
    p, (recon, _, A, *_) = case.p, state
    fine, coarse = (1, p.y.fine, p.x.fine, p.channels), (1, p.y.coarse, p.x.coarse, p.features)
    layers = {"image": case.image.reshape(fine), "recon": recon.reshape(fine), "code": A.reshape(coarse)}
    weights = case.weights.astype("f8").reshape(1, p.groups, p.features, p.length)

    class Read:
        def __call__(self, layer: str, _: str) -> np.ndarray:
            return layers[layer].astype("f8")

        def through(self, _: str, residual: np.ndarray) -> np.ndarray:
            return NUMPY.project(residual, weights, p)

    probe = Optimality(
        image="image", reconstruction="recon", code="code", drive="drive", coefficient=COEFFICIENT,
        signed=signed,
    )  # fmt: skip
    return float(probe.measure(Read(), np)["relative_gap"][0])


def found(case: Problem, state: Any, mine: Looks, whole: bool) -> tuple[bool, float]:
    """Look at the gap; return whether the slice stops, and the gap."""
    recon, error, A = state[:3]
    images = Images(case.image, np.float32(1), recon, error)
    size = float(np.abs(A).sum(dtype="f8"))
    stops = look(whole, size, A, images, mine, case.packed(), shape(case.p), case.scratch())
    return stops, float(mine.gap[0])


@some
@given(p=geometries(modes=(True, False)), signed=st.booleans(), seed=st.integers(0, 99))
def test_the_gap_is_that_of_the_probe_and_is_told_if_it_is_small_enough_or_asked_for(
    p: Patches, signed: bool, seed: int
) -> None:
    case, state = coded(p, signed, seed)
    expected = measured(case, state, signed)
    stops, gap = found(case, state, looks(0.0, signed), True)
    assert gap == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert stops == (gap <= 0)
    for block in range(min(4, blocks(shape(p), len(case.scratch().strips)))):
        assert found(case, state, looks(gap, signed, block), False) == (True, gap)
        stops, told = found(case, state, looks(gap - 1e-6, signed, block), False)
        assert not stops
        assert told in (gap, np.inf)


def test_an_unsigned_code_with_a_negative_activity_has_no_gap() -> None:
    case, state = coded(many_tiles, False)
    _, gap = found(case, state, looks(0.0, False), True)
    state[2][-1] = -1e-6
    assert found(case, state, looks(2 * gap, False), False) == (False, np.inf)
    assert found(case, state, looks(2 * gap, False), True) == (False, np.inf)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("p", [many_tiles, many_tiles_non_shared])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
def test_a_dictionary_that_is_not_finite_has_no_gap_even_if_its_features_are_silent(
    p: Patches, signed: bool, whole: bool, bad: float
) -> None:
    case, state = coded(p, signed)
    _, gap = found(case, state, looks(0.0, signed), True)
    weights = case.weights.reshape(-1, p.features, p.length)
    silent = state[2].reshape(-1, p.features)[0] == 0
    weights[0, np.flatnonzero(silent)[-1], p.length // 2] = bad
    state[2].reshape(-1, p.features)[:, silent] = 0
    assert found(case, state, looks(max(2 * gap, 2.0), signed), whole) == (False, np.inf)
    with np.errstate(invalid="ignore"):
        assert measured(case, state, signed) == np.inf


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["image", "code"])
def test_an_image_or_code_that_is_not_finite_has_no_gap(
    where: str, signed: bool, whole: bool, bad: float
) -> None:
    case, state = coded(many_tiles, signed)
    array = case.image if where == "image" else state[2]
    array.reshape(-1)[array.size // 2] = bad
    with np.errstate(invalid="ignore"):
        assert found(case, state, looks(2.0, signed), whole) == (False, np.inf)
        assert measured(case, state, signed) == np.inf


def test_a_look_ends_at_the_first_block_that_is_too_steep_where_the_next_begins() -> None:
    case, state = coded(many_tiles, False)
    count = blocks(shape(many_tiles), len(case.scratch().strips))
    gap = found(case, state, looks(0.0, False), True)[1]
    first, again = looks(0.99 * gap, False), looks(0.99 * gap, False, count - 1)
    for mine in (first, again):
        assert found(case, state, mine, False) == (False, np.inf)
        at = int(mine.block[0])
        assert found(case, state, mine, False) == (False, np.inf)
        assert mine.block[0] == at
    assert again.block[0] == count - 1 or again.block[0] <= first.block[0]


@pytest.mark.parametrize("threads", [1, 2, 3, 11])
@pytest.mark.parametrize("p", [many_tiles, many_tiles_non_shared])
@pytest.mark.parametrize("signed", [False, True])
def test_threads_change_no_bit_of_the_gap(threads: int, p: Patches, signed: bool) -> None:
    case, state = coded(p, signed)
    recon, error, A = state[:3]
    images, works = Images(case.image, np.float32(1), recon, error), [case.scratch() for _ in range(threads)]
    works = [work._replace(error=works[0].error) for work in works]
    _, gap = found(case, state, looks(0.0, signed), True)
    size = float(np.abs(A).sum(dtype="f8"))
    with ThreadPoolExecutor(threads) as pool:
        for target, whole in ((0.0, True), (gap, False), (0.999 * gap, False)):
            mine = looks(target, signed)
            stops = look_in_rows(
                pool, whole, size, A, images, mine, case.packed(), shape(p), works
            )  # fmt: skip
            assert (stops, mine.gap[0]) == found(case, state, looks(target, signed), whole)


def test_threads_that_make_lazy_steps_share_nothing_that_a_look_writes_at_the_same_time() -> None:
    case, _ = coded(many_tiles, False)
    works, scratches = [case.scratch() for _ in range(3)], [lazy_scratch(many_tiles) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        team = ThreadTeam(pool, works, scratches)
    for one, other in combinations(team.works, 2):
        assert one.error is other.error
        for mine, its in ((one.drive, other.drive), (one.values, other.values)):
            assert mine.size > 0
            assert not np.shares_memory(mine, its)


@pytest.mark.parametrize("rule", [LEAKY, ACCELERATED])
@pytest.mark.parametrize("stop", [3, 6, None])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_slice_stops_at_the_first_look_that_meets_the_gap_with_the_state_of_that_step(
    rule: int, stop: int | None, threads: int
) -> None:
    case, _ = coded(many_tiles, False, rule=rule)
    gaps = [found(case, case.compiled([n])[0], looks(0.0, False), True)[1] for n in range(1, 10)]
    assert sorted(gaps, reverse=True) == gaps
    target = 0.0 if stop is None else gaps[stop - 1]
    mine = looks(target, False)._replace(due=np.arange(1, 10) % 3 == 0, whole=True)
    state, works = case.start(), [case.scratch() for _ in range(threads)]
    record = StepSums(np.ones(9, bool), np.zeros((9, 3)))
    with ThreadPoolExecutor(threads) as pool:
        made = advance_rows(pool, *case.arguments(state, case.packed()), True, works, record, mine)
    assert made == (stop or 9)
    assert mine.gap[0] == gaps[made - 1]
    expected, sums = case.compiled([made], observe=True)
    assert_same_bits([*state, record.sums[:made]], [*expected, sums])
