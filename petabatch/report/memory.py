"""The memory that a run needs at its peak, and whether this machine has it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from petabatch.engine.image_sizes import nbytes_of_source, nbytes_while_read, queues
from petabatch.engine.step_records import StepRecords
from petabatch.errors import ResourceError
from petabatch.kernels.operations.transport import Join
from petabatch.learning.hebbian import Hebbian
from petabatch.network.build import with_numbers
from petabatch.network.capacity import LANE
from petabatch.network.evaluation import held_out
from petabatch.network.operations import LazyUpdate
from petabatch.network.plan import Plan, schedule
from petabatch.parallel.comm import Comm
from petabatch.parallel.host_memory import address_limit, host_limit, used
from petabatch.sizes import counted, size_text
from petabatch.spec.model import Part
from petabatch.weights.normalisers import L2, L2Ball, Max, Sum, Unchanged
from petabatch.weights.random import Constant, Gaussian, TruncatedNormal, Uniform

_LATER = 85 << 20
"""Bytes that the process takes after the plan is made: numba, kernels, buffers; compiling takes more."""
_COMPILER = 75 << 20, 190 << 20
"""Bytes that numba and all else that only a run imports take, resident and of address space."""
_RESERVED = 400 << 20
"""Bytes of address space that it reserves in addition."""
_STACK = 72 << 20
"""Bytes of address space that a thread reserves: its stack, and an arena of the allocator."""

_TEMPORARY: Mapping[type[Part], Callable[[Any], float]] = {
    Constant: lambda one: 8,
    Gaussian: lambda one: 8,
    Hebbian: lambda one: 8 + 4 * bool(one.momentum or one.decay or one.clip) + 4 * one.delayed,
    L2: lambda one: 8.1,
    L2Ball: lambda one: 8.1,
    Max: lambda one: 4.1,
    Sum: lambda one: 4.1,
    TruncatedNormal: lambda one: 12,
    Unchanged: lambda one: 0,
    Uniform: lambda one: 17 if one.sparsity or one.levels else 8,
}
"""Bytes for each weight, of those that need fewer than most (measured)."""
_MOST = 24.2
"""Of all others."""
_COUNTS = 5.4
"""Of what a rule counts, for each number."""
_SUMS = 25, 5.4
"""For each weight, while products of all slices are summed up, and afterwards."""


def needed(plan: Plan, slices: int, threads: int) -> int:
    """Return the bytes that a rank with `slices` slices allocates at its peak, in addition to its process."""
    network = plan.graph.network
    precision = network.run.precision
    state = sum(
        v.nbytes(precision) * (slices if v.per == "slice" else 1) for v in plan.expected_variables.values()
    )
    ahead = sum(nbytes for _, nbytes in queues(plan, slices).values())
    kept = state + slices * (_bound(plan) + _kept(plan) + LANE) + ahead
    kept += sum(nbytes_of_source(plan.graph, name) for name in plan.inputs) + nbytes_while_read(plan, slices)
    if network.evaluate is not None:  # an engine of its own
        evaluation = schedule(with_numbers(plan.graph, held_out(network)))
        kept += needed(replace(evaluation, flush=evaluation.length), slices, threads)
    made, updated = _weights(plan, slices, threads)
    seen = _seen(plan, slices)  # of memory that is not touched before weights are made, and as large a copy
    most = max(made - seen, seen, updated + _records(plan, slices))
    return kept + _workers(plan, slices, threads) + most


def _records(plan: Plan, slices: int) -> int:
    """Return the bytes of what is recorded between two flushes."""
    total, batch = 0, plan.graph.network.batch
    for recording in plan.recordings:
        rows = len(recording.steps(0, min(plan.flush, plan.length)))
        nbytes = recording.stream.nbytes
        total += rows * (nbytes * slices // batch if recording.stream.batched else nbytes)
    return total


def _bound(plan: Plan) -> int:
    """Return the bytes that a stepper keeps of a slice at most."""
    programs = [one.method.program for one, _ in plan.of_slices if one.method.stepper == "program"]
    return max((4 * sum(_of_lazy_code(plan, code) for code in one.lazy) for one in programs), default=0)


def _kept(plan: Plan) -> int:
    """Return the bytes in which a slice keeps what its steps record."""
    return StepRecords.of(plan).nbytes if plan.method.stepper == "program" else 0


def _of_lazy_code(plan: Plan, one: LazyUpdate) -> int:
    """Return the numbers that a program keeps of each slice for the bound of a lazily evaluated code."""
    units = math.prod(plan.graph.network.layers[one.layer].shape)
    found = 2 * units + units // 32
    for p in (drive.patches for drive in one.drives):
        found += 2 * p.y.padded * p.x.padded * p.channels + 2 * p.positions
        found += 0 if p.shared else p.positions * p.features
    return found


def _workers(plan: Plan, slices: int, threads: int) -> int:
    """Return the bytes of the scratch of all threads."""
    graph, precision = plan.graph, plan.graph.network.run.precision
    size = np.dtype(precision).itemsize
    # A program packs the weights that all positions share; others it reads where they are.
    weights = sum(_kernel(plan, name) for name in graph.patched if _shared(plan, name))
    layers = [math.prod(layer.shape) for layer in graph.network.layers.values()]
    if plan.method.stepper == "program":
        kinds, program = len({one.method.decision for one, _ in plan.of_slices}), plan.method.program
        # What is gathered from other ranks is there twice, also as it arrives.
        joined = sum(2 * program.scratch.get(one.out, 0) for one in program.joined if isinstance(one, Join))
        return threads * kinds * (size * (sum(layers) + joined + 4 * weights) + _lists(plan))
    gathered = [
        edge.wiring.link.patches.positions * edge.wiring.link.patches.length
        for edges in graph.edges.values()
        for edge in edges
        if edge.wiring.link is not None
    ]
    return min(threads, slices) * size * (3 * max(layers, default=0) + 2 * max(gathered, default=0))


def _lists(plan: Plan) -> int:
    """Return the bytes of lists of active units, of which those of steps with few active ones touch few."""
    kept, layers = StepRecords.of(plan).places, plan.graph.network.layers
    size = np.dtype(plan.graph.network.run.precision).itemsize
    return sum(
        2 * size * (1 + max(kept.get(name, 0), plan.graph.depth[name])) * math.prod(layers[name].shape)
        for name in plan.method.program.listed
    )


def _kernel(plan: Plan, name: str) -> int:
    """Return the number of weights of one kernel of a connection, or of one slice."""
    return math.prod(plan.expected_variables[f"connections/{name}/weights"].shape)


def _shared(plan: Plan, name: str) -> bool:
    """Return whether all positions share the weights of a connection."""
    link = plan.graph.wirings[name].link
    return link is None or link.patches.shared


def _weights(plan: Plan, slices: int, threads: int) -> tuple[int, int]:
    """Return the bytes by which making weights, and updating them, needs more than the state.

    Weights of each slice are drawn one after the other, and then normalised together; they are updated on all
    threads. Products of all slices are summed up first.
    """
    makes = [16.0 * len(one.targets) for one in plan.graph.synapses.values()]
    updates = list[float]()
    width = np.dtype(plan.graph.network.run.precision).itemsize / 4
    for name, owner in plan.graph.patched.items():
        own = plan.expected_variables[f"connections/{name}/weights"].per == "slice"
        each, counts = _kernel(plan, name), plan.expected_variables.get(f"connections/{name}/counts")
        normalised = 0.0 if owner.normalize is None else width * each * _temporary(owner.normalize)
        makes.append(max(each * _temporary(owner.init), normalised * (slices if own else 1)))
        if owner.learn is not None:
            changed = width * each * _temporary(owner.learn)
            changed += 0 if counts is None else width * _COUNTS * math.prod(counts.shape)
            if owner.decorrelate or owner.revive is not None:
                changed = max(changed, width * each * _MOST)
            changed = max(changed, normalised)
            both, summed = (width * each * nbytes for nbytes in _SUMS)
            updates.append(min(threads, slices) * changed if own else max(both, summed + changed))
    return int(max(makes, default=0)), int(max(updates, default=0))


def _seen(plan: Plan, slices: int) -> int:
    """Return the bytes of weights as seen from the post layer, which are copied from those that are made."""
    found = (plan.expected_variables.get(f"connections/{name}/patches") for name in plan.graph.patched)
    precision = plan.graph.network.run.precision
    return sum(one.nbytes(precision) * (slices if one.per == "slice" else 1) for one in found if one)


def _temporary(part: Part) -> float:
    """Return the bytes of temporary arrays for each weight, of those that make or change float32 weights."""
    return _TEMPORARY.get(part.__class__, lambda one: _MOST)(part)


def estimate(plan: Plan, slices: int, threads: int) -> int:
    """Return the peak of the resident bytes of a rank of this process, once its kernels are compiled."""
    return _process()[0] + _LATER + needed(plan, slices, threads)


def _process() -> tuple[int, int]:
    """Return the resident bytes and the address space of this process with what a run imports."""
    resident, address = used()
    if "numba" in sys.modules:
        return resident, address
    return resident + _COMPILER[0], address + _COMPILER[1]


def refuse_shortage(plan: Plan, comm: Comm, slices: int, threads: int) -> None:
    """Raise ResourceError where the ranks of a host, or the address space of one, need more than there is.

    Collective; to be called before anything is allocated.
    """
    mine = estimate(plan, slices, threads)
    everyone: list[tuple[str, int]] = comm.broadcast(comm.gather((comm.hosts[comm.rank], mine)))
    there = [nbytes for host, nbytes in everyone if host == comm.hosts[comm.rank]]
    if (problem := _beyond(plan, sum(there), slices, threads)) is not None:
        found, expected = problem
        network = plan.graph.network
        hint = "one slice needs more than there is: record less, or use smaller layers"
        if network.batch > 1 or network.run.batch > 1:
            hint = (
                "lower run.batch, record less, use smaller layers, or distribute the slices over more "
                "machines with MPI"
            )
        if network.sweep is not None and network.sweep.points > 1:
            hint = f"give a lower sweep.wave, or {hint}"
        ranks = f" on {len(there)} ranks of {comm.hosts[comm.rank]}" if len(there) > 1 else ""
        raise ResourceError(
            f"this run needs more memory than there is; nothing was started\n"
            f"    found:    about {found}{ranks}\n    expected: at most {expected}\n"
            f"    hint:     {hint}"
        )


def shortage(plan: Plan, slices: int, threads: int) -> str | None:
    """Return what a process with `slices` slices would lack on this machine, None if nothing."""
    problem = _beyond(plan, estimate(plan, slices, threads), slices, threads)
    if problem is None:
        return None
    need = f"{counted(slices, 'slice')} need{'s' * (slices == 1)}"
    return f"{need} about {problem[0]}; this machine has {problem[1]}"


def _beyond(plan: Plan, resident: int, slices: int, threads: int) -> tuple[str, str] | None:
    """Return what is needed and the limit that it exceeds."""
    limit = host_limit()
    if resident > limit.nbytes:
        return size_text(resident), f"{size_text(limit.nbytes)}, {limit.what}"
    address = _process()[1] + _RESERVED + threads * _STACK + needed(plan, slices, threads)
    most = address_limit()
    if most is not None and address > most:
        return f"{size_text(address)} of address space", f"{size_text(most)}, its limit (ulimit -v)"
    return None
