"""Single sparse-coding loops by their program: dense and lazily evaluated steps, bounds, threads, guards."""

from __future__ import annotations

import math
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from petabatch.engine import state, step_records
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.steppers.program import ProgramStepper, margins, workspace
from petabatch.engine.steppers.program import slice as program_slice
from petabatch.errors import NonFiniteError, ParamsError
from petabatch.geometry import Patches
from petabatch.kernels.cpu import gradient, layout
from petabatch.kernels.cpu.program.lazy import layout as lazy_layout
from petabatch.kernels.cpu.program.lazy.layout import ACTIVE, COMPUTED, TAKEN
from petabatch.kernels.transfer import Curve
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from support.lazy_codes import random_loops
from support.lazy_runs import (
    assert_same_bits,
    assert_sleeping_changes_no_bit,
    begin,
    changed,
    finish,
    kept,
    last_state,
    saved,
)
from support.loops import (
    TRANSFERS,
    Guards,
    geometries,
    many_tiles,
    many_tiles_non_shared,
    plain,
    problem,
)
from support.networks import collect, simulate
from support.programs import random_network

CURVES = [*TRANSFERS, Curve.of("soft", 1.5)]
LAZY = [curve for curve in CURVES if curve.minimum == 0]
some = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
loops = st.builds(
    problem, geometries(modes=(True, False)), st.sampled_from(CURVES), st.integers(0, 99),
    self_interaction=st.booleans(),
)  # fmt: skip


def activities(network: Network) -> np.ndarray:
    """Return the activity of the code after each step."""
    engine = Engine(
        replace(schedule(build(network)), stops=tuple(range(1, network.run.length + 1))), Serial(), 1
    )
    engine.start()
    return np.array([engine.state.arrays["layers/V1/A"].copy() for _ in drive(engine)])


@some
@given(case=loops, lazily=st.booleans())
def test_steps_agree_with_float64(case: Any, lazily: bool) -> None:
    lazily &= case.curve.minimum == 0
    steps = 15 if lazily else 4
    engine, found = last_state(case.network("lazy" if lazily else "dense", steps))
    assert engine.plan.method.stepper == "program"
    assert bool(engine.plan.method.program.lazy) == lazily
    reference, recorded = simulate(case.network("array", steps, record=True, precision="float64"))
    V, t = recorded["layers/V1/V"], case.curve
    close = (abs(abs(V) - t.threshold) < 1e-5).any()
    # Rounding may decide either way where the transfer function jumps, or is steep.
    assume(not close or (t.shift == t.threshold and t.top == t.threshold))
    expected = reference.state.saved()
    assume(max(abs(array).max() for key, array in expected.items() if key.startswith("layers/")) < 20)
    for key, theirs in expected.items():
        np.testing.assert_allclose(found[key], theirs, rtol=5e-5, atol=5e-5, err_msg=key)
    if not close:
        key = "layers/V1/A"
        np.testing.assert_array_equal(found[key] != 0, expected[key] != 0)


@pytest.mark.parametrize("kernel", ["dense", "lazy"])
def test_four_hundred_steps_agree_with_float64(kernel: str) -> None:
    case = problem(plain(10, 12, 70, 8, 2, 3), Curve.of("soft", 0.5), decay=math.exp(-1 / 30))
    engine, found = last_state(case.network(kernel, 400))
    _, expected = last_state(case.network("array", 400, precision="float64"))
    for key in ("layers/V1/A", "layers/V1/V", "layers/recon/A", "layers/error/A"):
        distance = np.linalg.norm(found[key] - expected[key])
        assert distance < 1e-5 * np.linalg.norm(expected[key]), key
    if kernel == "lazy":
        computed, active, units = kept(engine, "V1")[COMPUTED], kept(engine, "V1")[ACTIVE], 400 * 10 * 12 * 70
        assert active < computed < active + 0.1 * units


@some
@given(
    case=st.builds(
        problem, geometries(modes=(True, False)), st.sampled_from(LAZY), st.integers(0, 99), st.just(4),
        self_interaction=st.booleans(), decay=st.sampled_from([0.4, 0.9, 0.97]),
    ),
    scales=st.lists(st.sampled_from([1e-3, 1.0, 50.0]), min_size=4, max_size=4),
)  # fmt: skip
def test_sleeping_changes_no_bit(case: Any, scales: list[float]) -> None:
    rng = np.random.default_rng(1)
    # Features of any length, one of them zero; bright images after dark ones.
    case.weights *= rng.uniform(0, 1.2, (len(case.weights), 1)).astype("f4")
    case.weights[0] = 0
    case.images *= np.array(scales, "f4")[:, None, None, None]
    assert_sleeping_changes_no_bit(schedule(build(case.network("lazy", 25))))


@pytest.mark.parametrize("signed", [False, True])
def test_a_unit_is_computed_from_the_step_in_which_it_crosses_where_the_bound_is_sharp(signed: bool) -> None:
    """One unit that sees one pixel: bounds say exactly how far it moves."""
    case = problem(plain(1, 1, 1, 1, 1, 1), Curve.of("soft", 0.5, signed=signed), items=8, decay=0.97)
    case.weights[...], case.potentials[...] = 1, 0
    case.images[:, 0, 0, 0] = [0.8, 2.0, 0.1, -0.3, -3.0, 1.4, 0.2, 2.5]
    network = case.network("lazy", 60)
    engine, _ = last_state(network)
    active = activities(network).reshape(-1) != 0
    expected = activities(changed(network, kernel="array", precision="float64")).reshape(-1) != 0
    np.testing.assert_array_equal(active, expected)
    # It is due once more in the step in which it falls silent.
    due = active | np.concatenate([[False], active[:-1]])
    assert np.flatnonzero(np.diff(active)).size > 3
    assert kept(engine, "V1")[COMPUTED] == due.sum()
    assert kept(engine, "V1")[TAKEN] > 1


@pytest.mark.parametrize("kernel", ["lazy", "dense"])
def test_a_nan_in_an_image_reaches_the_activity(kernel: str) -> None:
    case = problem(plain(4, 4, 5, 3, 1, 1), TRANSFERS[0], items=2)
    case.images[1, 1, 1] = np.nan
    engine = begin(schedule(build(case.network(kernel, 20))))
    with pytest.raises(NonFiniteError):
        collect(engine)
    engine.collect()
    A, V = (engine.state.arrays[f"layers/V1/{name}"].reshape(-1) for name in "AV")
    assert np.isnan(V).any()
    np.testing.assert_array_equal(np.isnan(A), np.isnan(V))


def test_long_runs_rescale_what_is_kept() -> None:
    case = problem(plain(4, 5, 12, 4, 1, 2), TRANSFERS[0], decay=math.exp(-1 / 3))
    network = case.network("lazy", 3000)
    engine = begin(replace(schedule(build(network)), stops=tuple(range(5, 3000, 5))))
    decays = [float(engine.state.arrays["lazy/V1/decay"][0]) for _ in drive(engine)]
    assert min(decays) >= 4e-5
    assert np.count_nonzero(np.diff(decays) > 0) > 50
    _, expected = last_state(case.network("array", 3000, precision="float64"))
    for key, array in saved(engine).items():
        if key in expected:
            np.testing.assert_allclose(array, expected[key], rtol=5e-5, atol=5e-5, err_msg=key)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("p", [many_tiles, many_tiles_non_shared], ids=["shared", "non_shared"])
@pytest.mark.parametrize("kernel", ["dense", "lazy"])
def test_threads_that_share_the_tiles_of_a_slice_change_no_bit(
    kernel: str, p: Patches, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, tables = [], workspace.Workspace.for_threads

    def counted(space: workspace.Workspace, count: int) -> list[np.ndarray]:
        shared.append(count)
        return tables(space, count)

    monkeypatch.setattr(workspace.Workspace, "for_threads", counted)
    network = problem(p, TRANSFERS[1], items=2).network(kernel, 15)
    alone, expected = last_state(network)
    assert not shared
    team, found = last_state(network, threads)
    assert set(shared) == {threads}
    assert_same_bits(found, expected)
    told = [label for labels in team.plan.method.concurrent for label in labels]
    drive = "lazy update V1" if kernel == "lazy" else "project drive"
    assert f"{drive} in 8 row tiles" in told
    assert "synthesize dictionary in 8 row tiles" in told
    if kernel == "lazy":
        assert kept(alone, "V1")[TAKEN] > 1
        np.testing.assert_array_equal(kept(team, "V1"), kept(alone, "V1"))


class Guarded:
    """numpy, whose new arrays are guarded."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any, dtype: Any = float) -> np.ndarray:
        return self.full(shape, 0, dtype)

    def full(self, shape: Any, value: Any, dtype: Any) -> np.ndarray:
        shape = shape if isinstance(shape, tuple) else (shape,)
        array = self.guards.empty(tuple(map(int, shape)), np.dtype(dtype))
        array[...] = value
        return array


ALLOCATE: list[ModuleType] = [
    state,
    step_records,
    program_slice,
    workspace,
    margins,
    layout,
    lazy_layout,
    gradient,
]


# Drives are computed in blocks of positions, the last of which reaches beyond the end.
blocks = problem(plain(3, 3, 64, 4, 2, 2), TRANSFERS[1]).network("dense", 5)


@settings(some, max_examples=30)
@example(network=blocks)
@given(
    network=st.one_of(
        st.builds(random_network, st.integers(0, 2**32), st.just(1)),
        st.builds(random_loops, st.integers(0, 2**32), st.booleans(), batch=st.just(1)),
        st.builds(lambda case, kernel: case.network(kernel, 15), loops, st.sampled_from(["auto", "lazy"])),
    )
)
def test_nothing_is_written_beside_the_arrays(network: Network) -> None:
    try:
        network = changed(network, kernel="auto" if network.run.kernel == "array" else network.run.kernel)
        plan = schedule(build(network))
        assume(plan.method.stepper == "program")
    except ParamsError:
        assume(False)
    expected, guards = finish(begin(plan)), Guards(165)
    with pytest.MonkeyPatch.context() as patch:
        for module in ALLOCATE:
            patch.setattr(module, "np", Guarded(guards))
        engine = begin(plan)
        found = finish(engine)
        assert isinstance(engine.lanes[0].stepper, ProgramStepper)
    assert len(guards.buffers) > 10
    assert guards.untouched()
    assert_same_bits(found, expected)
