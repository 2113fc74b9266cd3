"""What must hold for every network, for random ones: slices, threads, ranks, resume, observation.

Networks of all built-in types that learn and are recorded run as programs; every array and every recording is
compared byte for byte.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from petabatch.engine.engine import Engine
from petabatch.errors import NonFiniteError, ParamsError
from petabatch.network.build import build
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network, Output
from support.forked import forked_code_on_ranks
from support.random_runs import Arrays, digests, finish, on_ranks, random_run, saved_at, states

some = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # seeds do not shrink
)
seeds = st.integers(0, 2**32)


def finished(seed: int) -> tuple[Network, Engine, dict[str, np.ndarray]]:
    """Return a random network that is valid and runs as a program, and its run on one thread."""
    try:
        network = random_run(seed)
        engine, recorded = finish(network)
    except (ParamsError, NonFiniteError):
        assume(False)
    assume(engine.plan.method.stepper == "program")
    return network, engine, recorded


def assert_equal(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key].tobytes() == values.tobytes(), key


@some
@given(seed=seeds)
def test_threads_and_ranks_change_no_bit(seed: int) -> None:
    network, engine, recorded = finished(seed)
    two, seen = finish(network, threads=2)
    assert_equal(states(two), states(engine))
    assert_equal(seen, recorded)
    for ranks in (2, 3):
        state, seen_there = on_ranks(network, ranks)
        assert_equal(state, states(engine))
        assert_equal(seen_there, recorded)


@some
@given(seed=seeds)
def test_the_first_slice_is_a_run_of_its_own(seed: int) -> None:
    network, engine, recorded = finished(seed)
    learned = [c.learn is not None and c.mode.startswith("extra_") for c in build(network).weighted.values()]
    assume(not any(learned))  # else weights tie the slices together
    mine, seen = finish(network.model_copy(update={"run": network.run.model_copy(update={"batch": 1})}))
    for key, array in states(mine).items():
        assert array.tobytes() == states(engine)[key][:1].tobytes(), key
    for path, values in seen.items():
        whole = recorded[path]
        whole = whole[:, :1] if whole.shape != values.shape else whole
        assert values.tobytes() == whole.tobytes(), path


@some
@given(seed=seeds, displays=st.integers(1, 2), ranks=st.integers(1, 3))
def test_a_run_resumed_on_another_number_of_ranks_has_the_same_bits(
    seed: int, displays: int, ranks: int
) -> None:
    network, engine, recorded = finished(seed)
    step = displays * network.run.display
    state, later = on_ranks(network, ranks, (step, saved_at(network, step)))
    assert_equal(state, states(engine))
    for path, values in later.items():
        assert values.tobytes() == recorded[path][len(recorded[path]) - len(values) :].tobytes(), path


@some
@given(seed=seeds)
def test_observing_changes_no_bit(seed: int) -> None:
    network, seen, _ = finished(seed)
    followed = {layer.controller.energy for layer in network.layers.values() if layer.controller is not None}
    probes = {name: probe for name, probe in network.probes.items() if name in followed}
    unseen, _ = finish(network.model_copy(update={"output": Output(), "probes": probes}))
    assert_equal({key: states(seen)[key] for key in states(unseen)}, states(unseen))


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from petabatch.parallel.launch import connect
from support.random_runs import digests
comm = connect(None)
lines = digests({seeds}, comm)
if comm.rank == 0:
    print(*lines, sep="\\n")
"""


@pytest.mark.mpi
def test_real_ranks_change_no_bit() -> None:
    chosen, seed = [], 100
    while len(chosen) < 6:
        try:
            engine, _ = finish(random_run(seed))
            chosen += [seed] if engine.plan.graph.plastic else []
        except (ParamsError, NonFiniteError):
            pass
        seed += 1
    done = forked_code_on_ranks(3, "-c", SCRIPT.format(tests=str(Path(__file__).parents[1]), seeds=chosen))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == digests(chosen, Serial())
