"""Lazy evaluation of the code never misses a crossing, and nothing but the network decides its bits."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numba import njit

from petabatch.engine.engine import Engine
from petabatch.engine.steppers.lazy import LazyStepper
from petabatch.errors import ParamsError
from petabatch.geometry import Patches
from petabatch.kernels.cpu.certificate import NO_LOOKS
from petabatch.kernels.cpu.layout import Images, StepSums, shape
from petabatch.kernels.cpu.lazy.bound import choose_direction
from petabatch.kernels.cpu.lazy.layout import (
    LazyModel,
    decay_table,
    features,
    fill,
    lazy_scratch,
    lazy_state,
)
from petabatch.kernels.cpu.lazy.state import load_units, materialise_potentials
from petabatch.kernels.cpu.lazy.step import advance_lazily
from petabatch.kernels.cpu.lazy.threads import ThreadTeam, advance_lazily_in_rows
from petabatch.kernels.cpu.simd import operations, pair_operations
from petabatch.kernels.cpu.sizes import padded_units
from petabatch.kernels.rules import Units
from petabatch.layers import LCA
from petabatch.layers.transfer import Transfer
from petabatch.network.build import build
from petabatch.network.lazy import AWAKE, KEYS, continues
from petabatch.network.lazy_codes import MOST_ACTIVE, NAME
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from petabatch.spec.schedule import Every
from support.loops import (
    NUMPY,
    Guards,
    Problem,
    assert_same_bits,
    geometries,
    many_chunks,
    many_tiles,
    plain,
    problem,
)
from support.networks import collect, images, lca_network, simulate

TRANSFERS = [
    Transfer(0.3, 0.3),
    Transfer(0.3, 0.3, signed=True),
    Transfer(0.3, 0.0),
    Transfer(0.2, 0.1, width=0.4, signed=True),
    Transfer(0.2, 0.0, width=0.3, maximum=0.6),
    Transfer(1.5, 1.5),
]
some = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Lazy:
    """A problem on its way, and the share of its units that were computed."""

    def __init__(self, case: Problem) -> None:
        self.case, p = case, case.p
        recon, error, A, V, _, _ = case.start()
        self.images = Images(case.image, np.float32(case.factor), recon, error)
        self.units = Units(A, V, np.zeros(0, "f4"))
        self.work, self.scratch = case.scratch(), lazy_scratch(p)
        e = np.float32(case.decay)
        self.dictionary = case.packed()
        weights = features(p, self.dictionary.groups)
        fill(case.weights, p, weights)
        self.model = LazyModel(weights, case.cell(), decay_table(e, 1 - e), shape(p))
        self.lazy, self.age, self.computed = lazy_state(p, np.zeros(padded_units(p), "f4")), 0, 0
        self.load_units()
        self.choose_direction()

    def run(self, steps: int, watched: bool = False, beyond: int = 0) -> np.ndarray:
        sums = np.zeros((steps, 3))
        _, self.age, computed = advance_lazily(
            self.images, self.units, self.lazy, self.model, self.age, beyond, self.work, self.scratch,
            StepSums(np.full(steps, watched), sums), NO_LOOKS, self.dictionary,
        )  # fmt: skip
        self.computed += computed
        return sums

    def load_units(self) -> None:
        for tile in range(len(self.work.strips)):
            load_units(tile, True, self.units, self.lazy, self.model.shape)

    def wake_all(self) -> None:
        self.lazy.wake_level[:] = -np.inf

    def choose_direction(self) -> None:
        choose_direction(self.images, self.lazy, self.model, self.work, self.scratch)

    def state(self) -> list[np.ndarray]:
        """Return recon, error, A, V and the lazy state."""
        ends = (self.units, self.lazy, self.model, self.work, self.scratch)
        for tile in range(len(self.work.strips)):
            materialise_potentials(tile, self.age, False, *ends)
        images, units = self.images, self.units
        return [images.recon, images.error, units.A, units.V, self.lazy.filtered, self.lazy.history]


@some
@given(
    p=geometries(), curve=st.sampled_from(TRANSFERS), self_interaction=st.booleans(), seed=st.integers(0, 99)
)
def test_steps_agree_with_the_plain_operators_in_float64(
    p: Patches, curve: Transfer, self_interaction: bool, seed: int
) -> None:
    case = problem(p, curve, self_interaction, seed)
    lazy = Lazy(case)
    sums = lazy.run(15, watched=True)
    expected, expected_sums, close = case.reference(15)
    assume(curve.shift == curve.threshold or not close.any())
    assume(max(abs(array).max() for array in expected) < 20)  # too large a step amplifies rounding too
    for mine, theirs in zip(lazy.state(), expected, strict=False):
        np.testing.assert_allclose(mine.reshape(-1), theirs.reshape(-1), rtol=5e-5, atol=5e-5)
    if not close.any():
        np.testing.assert_array_equal(lazy.units.A != 0, expected[2].reshape(-1) != 0)
        np.testing.assert_array_equal(sums[:, 2], expected_sums[:, 2])
    np.testing.assert_allclose(sums[:, :2], expected_sums[:, :2], rtol=1e-4, atol=1e-4)


@some
@given(
    p=geometries(), curve=st.sampled_from(TRANSFERS), self_interaction=st.booleans(), seed=st.integers(0, 99),
    decay=st.sampled_from([0.4, 0.9, 0.97]), scale=st.sampled_from([1e-3, 1.0, 50.0]),
)  # fmt: skip
def test_sleeping_has_the_bits_of_computing_all_units_in_every_step(
    p: Patches, curve: Transfer, self_interaction: bool, seed: int, decay: float, scale: float
) -> None:
    case = problem(p, curve, self_interaction, seed)
    case.decay = decay
    rng = np.random.default_rng(seed)
    # Features of any length, one of them zero; images that change.
    case.weights *= rng.uniform(0, 1.2, (p.features, 1)).astype("f4")
    case.weights[0] = 0
    sleeping, awake = Lazy(case), Lazy(case)
    for chooses in (False, True, False, True):
        case.image[:] = scale * rng.standard_normal(case.image.shape)
        if chooses:
            sleeping.choose_direction()
        sleeping.run(25)
        for _ in range(25):
            awake.wake_all()
            awake.run(1)
        if not all(np.isfinite(array).all() for array in awake.state()):
            break  # too large a step: what overflows is carried to units beside it by their padding
        assert_same_bits(sleeping.state(), awake.state())


@pytest.mark.parametrize("ahead", [True, False], ids=["slope", "path"])
@pytest.mark.parametrize("amplitude", [0.6, 1.0, -3.0])
def test_a_sleeper_wakes_in_the_step_in_which_it_crosses_where_the_bound_is_sharp(
    ahead: bool, amplitude: float
) -> None:
    """One unit that sees one pixel: slope and path say exactly how far it moves."""
    case = problem(plain(1, 1, 1, 1, 1, 1), Transfer(0.5, 0.5, signed=True))
    case.decay, case.factor = 0.97, 1.0
    case.weights[:] = 1
    lazy, steps = Lazy(case), math.ceil(math.log(1 - 0.5 / abs(amplitude)) / math.log(0.97))
    for array in (lazy.images.recon, lazy.units.A, lazy.units.V, case.image):
        array[...] = 0
    lazy.load_units()
    if ahead:
        case.image[...] = amplitude
    lazy.choose_direction()
    case.image[...] = amplitude
    lazy.run(steps - 1)
    assert lazy.computed == 1
    assert lazy.units.A[0] == 0
    lazy.run(1)
    assert lazy.computed == 2
    assert lazy.units.A[0] != 0


@pytest.mark.parametrize("p", [many_tiles, many_chunks], ids=["tiles", "chunks"])
def test_layers_of_many_tiles_and_chunks_agree_with_float64(p: Patches) -> None:
    case = problem(p, TRANSFERS[1])
    lazy = Lazy(case)
    lazy.run(5)
    for mine, theirs in zip(lazy.state(), case.reference(5)[0], strict=False):
        np.testing.assert_allclose(mine.reshape(-1), theirs.reshape(-1), rtol=2e-5, atol=2e-5)


def test_four_hundred_steps_agree_with_float64_and_compute_few_units() -> None:
    case = problem(plain(10, 12, 70, 8, 2, 3), Transfer(0.5, 0.5))
    case.decay = math.exp(-1 / 30)
    lazy = Lazy(case)
    lazy.run(400)
    for mine, theirs in zip(lazy.state(), case.reference(400)[0], strict=False):
        distance = np.linalg.norm(mine.reshape(-1) - theirs.reshape(-1))
        assert distance < 1e-5 * np.linalg.norm(theirs)
    share, active = lazy.computed / 400 / lazy.units.A.size, (lazy.units.A != 0).mean()
    assert active < share < active + 0.1


def test_stopping_to_look_computes_no_more_units() -> None:
    case = problem(plain(10, 12, 70, 8, 2, 3), Transfer(0.5, 0.5))
    case.decay = math.exp(-1 / 30)
    whole, parts = Lazy(case), Lazy(case)
    whole.run(100)
    for made in range(0, 100, 10):
        parts.run(10, beyond=90 - made)
    assert parts.computed == whole.computed
    assert_same_bits(parts.state(), whole.state())


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("chosen", [(), (0,), (0, 20, 90)], ids=["never", "once", "often"])
def test_slope_and_path_bound_what_sleepers_moved_by(chosen: tuple[int, ...], signed: bool) -> None:
    """The method in plain float64: units due by their wake levels are all that are above threshold."""
    p, threshold, e = plain(6, 7, 30, 5, 2, 2), 0.35, 0.97
    case = problem(p, Transfer(threshold, threshold))
    W = case.weights.astype("f8")
    norms = np.linalg.norm(W, axis=1)
    image = case.image.astype("f8").reshape(1, p.y.fine, p.x.fine, p.channels)
    F, H, way, lead = np.zeros_like(image), np.zeros((p.positions, p.features)), np.zeros_like(image), 0.0
    A, V, slope = np.zeros_like(H), np.zeros_like(H), np.zeros_like(H)
    path, wake_level, woken = np.zeros(p.positions), np.full(H.shape, -np.inf), 0

    def patches(image: np.ndarray) -> np.ndarray:
        return np.asarray(NUMPY.windows(image, p, "zero")).reshape(p.positions, -1)

    for step in range(150):
        recon = NUMPY.synthesize(A.reshape(1, p.y.coarse, p.x.coarse, -1), W[None, None], p)
        if step in chosen:
            way, lead, wake_level = image - recon - F, 0.0, np.full(H.shape, -np.inf)
            slope = patches(way) @ W.T / norms
            slope = abs(slope) if signed else slope
        drive = NUMPY.project(image - recon, W[None, None], p).reshape(H.shape)
        V = e * V + (1 - e) * (drive + A)
        before, F = F, e * F + (1 - e) * (image - recon)
        ahead, lead = (1 - e) * (1 - lead), e * lead + 1 - e
        path += np.linalg.norm(patches(F - before - ahead * way), axis=1)
        H = e * H + (1 - e) * A
        product = patches(F) @ W.T
        np.testing.assert_allclose(product + H, V, atol=1e-12)
        limit = slope * lead + path[:, None]
        due = wake_level <= limit
        size = abs(V) if signed else V
        assert due[threshold + 1e-12 <= size].all()
        room = (threshold - np.maximum(size, abs(product) if signed else product)) / norms
        wake_level = np.where(due, np.where(threshold <= size, -np.inf, limit + room), wake_level)
        A = np.where(threshold <= size, V - np.copysign(threshold, V), 0)
        woken += due.mean() / 150
    assert 0 < (A != 0).mean() < woken < 0.5


@some
@given(p=geometries(), curve=st.sampled_from(TRANSFERS), cut=st.integers(0, 30), look=st.booleans())
def test_cutting_and_looking_change_no_bit(p: Patches, curve: Transfer, cut: int, look: bool) -> None:
    case = problem(p, curve)
    whole, parts = Lazy(case), Lazy(case)
    whole.run(30)
    parts.run(cut, watched=look)
    if look:
        parts.state()
        parts.wake_all()
        parts.choose_direction()
    parts.run(30 - cut)
    assert_same_bits(parts.state(), whole.state())


def test_long_runs_rescale_what_is_remembered() -> None:
    case = problem(plain(4, 5, 12, 4, 1, 2), TRANSFERS[0])
    case.decay = math.exp(-1 / 3)
    lazy = Lazy(case)
    lazy.run(3000)
    assert lazy.age < len(lazy.model.decay.powers) < 35
    lazy.run(1)
    for mine, theirs in zip(lazy.state(), case.reference(3001)[0], strict=False):
        np.testing.assert_allclose(mine.reshape(-1), theirs.reshape(-1), rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("threads", [1, 2, 3, 11])
def test_rows_of_a_slice_on_many_threads_have_the_bits_of_one_thread(threads: int) -> None:
    case = problem(many_tiles, TRANSFERS[1])
    alone, together = Lazy(case), Lazy(case)
    works = [together.work, *(case.scratch() for _ in range(threads - 1))]
    scratches = [together.scratch, *(lazy_scratch(many_tiles) for _ in range(threads - 1))]
    sums, ahead = np.zeros((9, 3)), 10**6  # so that a direction is chosen after the only step of a call
    with ThreadPoolExecutor(threads) as pool:
        for part in (slice(0, 1), slice(1, 9)):
            n, alone.lazy.wasted[0], together.lazy.wasted[0] = part.stop - part.start, 1e9, 1e9
            _, together.age = advance_lazily_in_rows(
                ThreadTeam(pool, works, scratches), together.images, together.units, together.lazy,
                together.model, together.age, ahead, StepSums(np.ones(n, bool), sums[part]), NO_LOOKS,
                together.dictionary,
            )  # fmt: skip
            np.testing.assert_array_equal(alone.run(n, watched=True, beyond=ahead), sums[part])
    assert_same_bits(together.state(), alone.state())


@some
@given(p=geometries(), nan=st.booleans())
def test_nothing_is_written_beside_the_arrays(p: Patches, nan: bool) -> None:
    case, guarded = problem(p, TRANSFERS[1]), Guards(165)
    case.image[0, 0] = np.nan if nan else 0
    lazy = Lazy(case)
    for name in ("units", "lazy", "work", "scratch"):
        setattr(lazy, name, guarded.all_of(getattr(lazy, name)))
    lazy.model = lazy.model._replace(weights=guarded.all_of(lazy.model.weights))
    lazy.run(3)
    lazy.wake_all()
    lazy.state()
    assert guarded.untouched()


def test_a_nan_in_the_image_reaches_the_activity() -> None:
    case = problem(plain(4, 4, 5, 3, 1, 1), TRANSFERS[0])
    lazy = Lazy(case)
    lazy.run(20)
    case.image[1, 1] = np.nan
    lazy.run(2)
    assert np.isnan(lazy.units.A).any()


@pytest.mark.parametrize("lanes", [4, 8, 64])
def test_operations_on_pairs_of_vectors_are_their_plain_twins(lanes: int) -> None:
    _, load, store, _, _, _ = operations(lanes)
    fma, horizontal_sum, below_mask = pair_operations(lanes)

    @njit
    def run(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> tuple[float, int]:
        store(out, 1, fma(load(a, 0), load(a, 1), load(b, 2)))
        return horizontal_sum(load(a, 1)), below_mask(np.float32(-2), a, b, 1, b, 2)

    a, b = np.random.default_rng(0).integers(-9, 9, (2, lanes + 3)).astype("f4")
    out = np.zeros_like(a)
    total, bits = run(a, b, out)
    np.testing.assert_array_equal(out[1 : 1 + lanes], a[:lanes] + a[1 : 1 + lanes] * b[2 : 2 + lanes])
    assert total == a[1 : 1 + lanes].sum()
    assert bits == sum(1 << j for j in range(lanes) if b[1 + j] <= -2 * a[1 + j] + b[2 + j])
    for array, place in ((a, 1), (b, 1), (b, 2)):
        kept, array[place] = array[place], np.nan
        assert run(a, b, out)[1] & 1
        array[place] = kept


# Whole networks.


def saved(engine: Engine) -> dict[str, np.ndarray]:
    engine.collect()
    return {key: array.copy() for key, array in engine.state.saved().items()}


def lazily(data: np.ndarray, **keys: Any) -> Network:
    return lca_network(data, kernel="lazy", **keys)


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_a_lazy_run_agrees_with_the_reference(mode: str) -> None:
    data = images(3)
    engine, found = simulate(lazily(data, mode=mode))
    assert isinstance(engine.lanes[0].stepper, LazyStepper)
    expected = simulate(lca_network(data, mode=mode, kernel="array"))[1]
    assert found.keys() == expected.keys()
    for path, values in expected.items():
        np.testing.assert_allclose(found[path], values, rtol=1e-3, atol=2e-4, err_msg=path)


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_observing_a_lazy_run_changes_no_bit(mode: str) -> None:
    data = images(2)
    seen, unseen = lazily(data, mode=mode, record=Every(1)), lazily(data, mode=mode)
    one = saved(simulate(seen)[0])
    two = saved(simulate(unseen.model_copy(update={"probes": {}}))[0])
    assert one.keys() == two.keys()
    for key, array in one.items():
        np.testing.assert_array_equal(two[key], array, err_msg=key)


@pytest.mark.parametrize("reduce", ["exact", "overlapped"])
@pytest.mark.parametrize("stop", [7, 20, 33])
def test_a_lazy_run_resumes_at_any_step(stop: int, reduce: str) -> None:
    network = lazily(images(3), reduce=reduce)
    plan = schedule(build(network))
    first, second = Engine(replace(plan, stops=(stop,)), Serial(), 1), Engine(plan, Serial(), 2)
    first.start()
    for step in first.run():
        if step == stop:
            kept = saved(first)
    second.resume(stop, kept)
    collect(second)
    expected = saved(simulate(network)[0])
    for key, array in saved(second).items():
        np.testing.assert_array_equal(array, expected[key], err_msg=key)


def test_threads_change_no_bit_of_a_lazy_run(monkeypatch: pytest.MonkeyPatch) -> None:
    network = lazily(images(1, shape=(48, 40, 3)), features=24, displays=2)
    one = simulate(network, threads=1)[1]
    monkeypatch.setattr("petabatch.engine.steppers.dense._SHARED_STEP", 0)
    shared = Mock(side_effect=advance_lazily_in_rows)
    monkeypatch.setattr("petabatch.engine.steppers.lazy.advance_lazily_in_rows", shared)
    three = simulate(network, threads=3)[1]
    assert len(list(shared.call_args.args[0].tiles())) > 1
    for path, values in one.items():
        np.testing.assert_array_equal(three[path], values, err_msg=path)


def test_a_potential_that_is_read_is_that_of_its_activity() -> None:
    network = lazily(images(2), record=Every(3))
    _, found = simulate(network)
    V, A = found["layers/V1/V"], found["layers/V1/A"]
    np.testing.assert_array_equal(A, np.where(np.float32(0.4) > V, 0, V - np.float32(0.4)))


def test_a_run_of_another_kernel_continues_lazily_and_back() -> None:
    data = images(2)
    expected = simulate(lca_network(data, kernel="dense"))[1]["layers/V1/A"][-1]
    for kernels in (("dense", "lazy"), ("lazy", "dense")):
        start, after = (schedule(build(lca_network(data, kernel=kernel))) for kernel in kernels)
        first, second = Engine(start, Serial(), 1), Engine(after, Serial(), 1)
        first.start()
        next(step for step in first.run() if step == 20)
        second.resume(20, saved(first))
        np.testing.assert_allclose(collect(second)["layers/V1/A"][-1], expected, rtol=1e-3, atol=2e-4)


def test_what_another_version_remembered_is_begun_anew_from_the_potentials() -> None:
    plan = schedule(build(lazily(images(2))))
    first, second = Engine(plan, Serial(), 1), Engine(plan, Serial(), 1)
    first.start()
    next(step for step in first.run() if step == 20)
    kept = saved(first)
    kept[f"{NAME}/history"] = np.full((2, 3, 4, 5), 1e6, np.float32)
    second.resume(20, kept)
    expected = collect(first)["layers/V1/A"][-1]
    np.testing.assert_allclose(collect(second)["layers/V1/A"][-1], expected, rtol=1e-3, atol=2e-4)


def test_slices_go_on_from_all_that_is_remembered_or_from_nothing_of_it() -> None:
    here = {key: np.zeros((2, 5)) for key in KEYS}
    assert continues(here, {key: np.zeros((7, 5)) for key in KEYS})  # another batch
    assert not continues(here, {**here, KEYS[1]: np.zeros((2, 3, 4))})
    assert not continues(here, {KEYS[0]: here[KEYS[0]]})
    assert continues({}, here)  # no unit sleeps here


def test_what_cannot_sleep_is_refused_by_name_and_dense_by_itself() -> None:
    data = images(1)

    def changed(kernel: str, **code: Any) -> Network:
        network = lca_network(data, kernel=kernel)
        layers = {**network.layers, "V1": LCA(**{**dict(network.layers["V1"]), **code})}
        return network.model_copy(update={"layers": layers})

    for code in ({"minimum": 0.1}, {"threshold": 0.0}, {"tau": 0.5}):
        with pytest.raises(ParamsError, match="this kernel cannot run this network"):
            build(changed("lazy", **code))
        assert KEYS[0] not in schedule(build(changed("auto", **code))).variables
    with pytest.raises(ParamsError, match="this kernel cannot run this network"):
        build(lca_network(data, precision="float64", kernel="dense"))


@pytest.mark.parametrize("learn", [False, True])
def test_auto_lets_nobody_sleep_while_an_image_is_shown_at_whose_start_many_are_active(learn: bool) -> None:
    data = images(2, 3, (32, 32, 3))
    keys: dict[str, Any] = {"features": 64, "patch": (8, 8), "display": 40, "displays": 3, "learn": learn}

    def network(kernel: str, threshold: float) -> Network:
        base = lca_network(data, kernel=kernel, **keys)
        code = LCA(shape=base.layers["V1"].shape, tau=20.0, threshold=threshold)
        return base.model_copy(update={"layers": {**base.layers, "V1": code}})

    for threshold, many in ((0.05, True), (1.0, False)):
        plan, stops = schedule(build(network("auto", threshold))), (30, 70, 110)
        first, second = Engine(replace(plan, stops=stops), Serial(), 1), Engine(plan, Serial(), 2)
        first.start()
        kept = {step: saved(first) for step in first.run() if step in stops}
        awake = [kept[step][f"{NAME}/age"] == AWAKE for step in stops]
        assert [bool(one.any()) for one in awake] == [False, many, many]
        assert ((kept[110]["layers/V1/A"] != 0).mean() > MOST_ACTIVE) == many
        second.resume(70, kept[70])
        resumed, whole = collect(second), simulate(network("auto", threshold))[1]
        dense = simulate(network("dense", threshold))[1]
        np.testing.assert_array_equal(resumed["layers/V1/A"][-1], whole["layers/V1/A"][-1])
        np.testing.assert_array_equal(resumed["layers/V1/V"][-1], whole["layers/V1/V"][-1])
        np.testing.assert_allclose(whole["layers/V1/A"], dense["layers/V1/A"], rtol=1e-3, atol=5e-4)


def test_auto_is_lazy_where_images_last_and_layers_are_large() -> None:
    large = images(1, 1, (32, 32, 3))
    lasting = {"features": 64, "patch": (8, 8), "display": 400}
    assert KEYS[0] in schedule(build(lca_network(large, **lasting))).variables
    assert KEYS[0] not in schedule(build(lca_network(large, **{**lasting, "display": 8}))).variables
    assert KEYS[0] not in schedule(build(lca_network(images(1), display=400))).variables
