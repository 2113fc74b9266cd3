"""Capacity: how many slices and points there may be at all, before any is looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from petabatch.errors import ParamsError, Problem
from petabatch.network.numbers import with_values
from petabatch.network.slices import synaptic_values
from petabatch.parallel.host_memory import host_limit, memory_limit
from petabatch.sizes import counted, size_text
from petabatch.spec.network import Network
from petabatch.spec.parts import Wiring

FEW = 10_000
"""Slices that are looked at one by one in seconds: the plan then says what they need."""
POINTS = 100_000
"""Points that are planned one by one in minutes."""
SYNAPSE = 24
"""Bytes that a synapse takes at least while it is drawn (measured: 24 to 28, and then in a run 37)."""
LANE, POINT = 5 << 10, 9 << 10
"""Bytes of Python objects of a slice on the CPU and of a point, in the smallest network."""


def check_capacity(network: Network, hosts: int = 1) -> None:
    """Raise ParamsError where there are more slices or points than the memory of `hosts` hosts can hold.

    Or fewer slices than ranks that are to have them.
    To be called before values of slices and points are checked, and before plans are made of them.
    """
    sweep, batch = network.sweep, network.run.batch
    if network.run.pool:  # few items are held at once, by any ranks
        return
    ranks = network.parallel.batch or 1
    if ranks > network.batch:
        problem = Problem(
            "parallel.batch",
            "there are more ranks than slices",
            found=f"{ranks:,} ranks, {counted(network.batch, 'slice')}",
            expected=f"at most {network.batch:,}",
            hint="raise run.batch, or split layers over ranks with parallel.features or parallel.rows",
        )
        raise ParamsError([problem])
    if network.batch <= FEW:
        return
    what, count = ("points", sweep.points) if sweep is not None else ("slices", batch)
    limit, each = host_limit(), least_bytes(network)
    there = hosts * limit.nbytes
    most, why = there // each, f"which fit {size_text(there)}, {limit.what}"
    if hosts > 1:
        why += f" of {hosts} hosts"
    if sweep is not None and most > POINTS:
        most, why = POINTS, "each of which is planned on its own"
    if count <= most:
        return
    of_each = f" of {counted(batch, 'slice')}" if sweep is not None else ""
    if most == 0:
        problem = Problem(
            "run.batch" if batch > 1 and sweep is not None else "layers",
            f"one {what[:-1]}{of_each} needs more memory than there is",
            found=f"at least {size_text(each)}",
            expected=f"at most {size_text(there)}, {limit.what}",
            hint="use smaller layers" + ", or lower run.batch" * (batch > 1 and sweep is not None),
        )
        raise ParamsError([problem])
    problem = Problem(
        "run.batch" if sweep is None else "sweep",
        f"there are more {what} than fit",
        found=f"{count:,} {what}{of_each}, which need at least {size_text(count * each)}",
        expected=f"at most {most:,} {what}, {why}",
        hint="make several runs, or distribute the slices over more machines with MPI",
    )
    raise ParamsError([problem])


def check_synapses_fit(network: Network, wirings: Mapping[str, Wiring]) -> list[Problem]:
    """Return what is wrong where the synapses of a slice do not fit into memory; nothing is drawn.

    To be called before any are: each rank has them all.
    """
    limit, counts = memory_limit(), dict[str, float]()
    for name, wiring in wirings.items():
        if wiring.synapses is not None:
            each = (with_values(network, own).connections[name] for own in synaptic_values(network, name))
            counts[name] = max(one.expected(wiring.synapses) for one in each)
    total = sum(counts.values())
    if total * SYNAPSE <= limit.nbytes:
        return []
    most = max(counts, key=counts.__getitem__)
    others = f", {total:,.0f} with those of other connections" if len(counts) > 1 else ""
    keys = [
        key
        for key in ("probability", "in_degree", "out_degree", "number")
        if getattr(network.connections[most], key, None) is not None
    ]
    problem = Problem(
        f"connections.{most}",
        "there are more synapses than fit into memory",
        found=f"about {counts[most]:,.0f}{others}, which need at least {size_text(total * SYNAPSE)}",
        expected=f"at most {limit.nbytes // SYNAPSE:,}, which fit {size_text(limit.nbytes)}, {limit.what}",
        hint=f"a lower {keys[0]}, or smaller layers" if keys else "smaller layers, or fewer rows of the file",
    )
    return [problem]


def least_bytes(network: Network) -> int:
    """Return bytes that a point, or without a sweep a slice, takes at least."""
    precision, layers = network.run.precision, network.layers.values()
    units = sum(math.prod(layer.shape) for layer in layers)
    state = sum(v.nbytes(precision) for layer in layers for v in layer.variables() if v.per == "slice")
    of_slice = units * np.dtype(precision).itemsize + state
    if network.run.device == "cpu" and not network.parallel.split:  # else lanes have many slices
        of_slice += LANE
    return of_slice if network.sweep is None else POINT + network.run.batch * of_slice
