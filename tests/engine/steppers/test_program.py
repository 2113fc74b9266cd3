"""Random networks by their programs against the same networks layer by layer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from petabatch.errors import NonFiniteError, ParamsError
from petabatch.layers import FISTA
from support.programs import Runs, State, random_network

some = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # seeds do not shrink
)
seeds = st.integers(0, 2**32)


def runs_of(seed: int) -> Runs:
    """Return a random network that is valid and has a program."""
    try:
        runs = Runs(random_network(seed))
    except ParamsError:
        assume(False)
    assume(runs.program is not None)
    return runs


def rests(runs: Runs, state: State, step: int) -> bool:
    """Say whether FISTA compares two numbers that are 0 but for rounding."""
    layers = runs.mine.plan.graph.network.layers
    fistas = [f"layers/{name}" for name, layer in layers.items() if isinstance(layer, FISTA)]
    codes = [(state[f"{key}/A"], state[f"{key}/A_before"]) for key in fistas]
    return any(
        (abs(A[:, step % A.shape[1]] - before).max(axis=(1, 2, 3)) < 1e-5).any() for A, before in codes
    )


@some
@given(seed=seeds)
def test_a_step_from_any_state_is_that_of_the_layers(seed: int) -> None:
    runs = runs_of(seed)
    before = runs.state
    for step in range(1, 10):
        if rests(runs, before, step - 1):
            return
        try:
            expected = runs.expected(step)
        except NonFiniteError:
            return
        runs.start_from(before)
        runs.run(step - 1, step)
        for key, theirs in expected.items():
            if key.startswith("layers/"):
                largest = max(1.0, abs(theirs).max())
                np.testing.assert_allclose(runs.state[key], theirs, 0, 1e-5 * largest, err_msg=key)
        before = expected


@some
@given(seed=seeds, cuts=st.lists(st.integers(1, 13), max_size=3))
def test_bits_do_not_depend_on_where_a_run_is_cut(seed: int, cuts: list[int]) -> None:
    whole, parts = runs_of(seed), runs_of(seed)
    whole.run(0, 14)
    for first, last in pairwise([0, *sorted(cuts), 14]):
        parts.run(first, last)
    for key, array in whole.state.items():
        assert array.tobytes() == parts.state[key].tobytes(), key
