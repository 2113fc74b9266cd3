"""Advice on what is allowed in a network but seldom meant, for `petabatch check` and the log of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from petabatch.logs import log
from petabatch.network.checks import remembers
from petabatch.network.evaluation import NAME as EVALUATE
from petabatch.network.gpu_costs import gpu_costs
from petabatch.network.graph import Graph
from petabatch.network.idle import consequences, too_short, unneeded, without_effect
from petabatch.network.plan import Plan
from petabatch.network.silence import Silence
from petabatch.network.slices import sliced
from petabatch.spec.network import Network
from petabatch.variable import Array

_SLOW, _WRONG = 1e-4, 1e-4
"""Decay in a step from which downwards rounding changes time constants, and by how much it may."""
_DEAR = 0.1
"""Steps of evaluations, as a fraction of those of the run, from which their cost is worth a note."""
_SLICES = 64
"""How many slices that differ are looked at. Each takes about 0.16 ms for each kind of note; a sweep of 6,000
points in waves of 500 spent 3 % of its processor time on 500 of them (two cores of an EPYC, 2026-11)."""


class Advice(NamedTuple):
    """Something that is allowed in a network, and what is to be said of it."""

    level: Literal["warning", "note"]
    """`warning`: it can hardly be meant; `note`: it may well be."""
    text: str


def advice(
    plan: Plan, arrays: Mapping[str, Array] = MappingProxyType({}), *, files: bool = True
) -> Iterator[Advice]:
    """Yield what is to be said of a checked network; `arrays` are those of step 0, by key, where known.

    `files` says that it is run to a directory, which is of use for what is recorded alone.
    """
    graph = plan.graph
    silence = Silence(graph, [name for name in graph.weighted if _all_zero(name, arrays)])
    warnings = list(without_effect(graph, silence))
    yield from (Advice("warning", text) for text in warnings)
    if text := consequences(graph, silence):
        yield Advice("warning" if warnings else "note", text)
    notes = [
        _read_once(plan),
        _rounded_decays(graph.network),
        _penalties(graph.network),
        _resets(plan),
        unneeded(graph, silence),
    ]
    notes += [_doubts(graph.network), _late(plan), _no_synapses(graph)]
    if files and all(one.key.startswith("inputs/") for one in plan.recordings):
        yield Advice("note", "nothing is recorded: neither [output] nor a probe asks for anything")
    for texts in (*notes, _recordings(plan), too_short(plan), _evaluation(plan), gpu_costs(plan)):
        yield from (Advice("note", text) for text in texts)


def log_advice(plan: Plan, arrays: Mapping[str, Array], *, files: bool = True) -> None:
    """Log what is to be said of a network, at the beginning of its run."""
    for one in advice(plan, arrays, files=files):
        if one.level == "warning":
            log.warning("%s", one.text)
        else:
            log.info("note: %s", one.text)


def _all_zero(connection: str, arrays: Mapping[str, Array]) -> bool:
    """Return whether all weights of a connection are 0, as far as is known."""
    weights = arrays.get(f"connections/{connection}/weights")
    return weights is not None and weights.size > 0 and not weights.any()


def _different(network: Network) -> Iterator[tuple[str, Network]]:
    """Yield the networks of slices, with the words that name them; one without words where all are alike.

    Of very many slices, those of some and the last; none where values change over time.
    """
    if network.over_time:
        return
    differ = bool(network.slices) or network.sweep is not None
    if not differ:
        yield "", sliced(network, 0)
        return
    last = network.batch - 1
    for number in (*range(0, last, -(-network.batch // _SLICES)), last):
        yield f" in slice {number}", sliced(network, number)


def _penalties(network: Network) -> Iterator[str]:
    """Yield the probes whose penalty is not the one that their code minimises; of slices that differ, one."""
    named: set[str] = set()
    for among, own in _different(network):
        for name, note in _penalties_of(own):
            if name not in named:
                named.add(name)
                yield f"probes.{name}: its penalty is not the one that {note}{among}"


def _penalties_of(network: Network) -> Iterator[tuple[str, str]]:
    """Yield the names of these probes in a network without values per slice, each with the end of a note."""
    for name, probe in network.probes.items():
        if probe.penalty is None:
            continue
        code, found = probe.penalty
        minimised = network.layers[code].penalty
        if minimised is None:
            continue
        same = math.isclose(found.coefficient, minimised.coefficient, rel_tol=1e-6)
        if found.cost != minimised.cost or not same:
            coefficient = f"coefficient {minimised.coefficient:g}"
            wanted = (
                coefficient if found.cost == minimised.cost else f"cost {minimised.cost} with {coefficient}"
            )
            yield (
                name,
                (
                    f"{code} minimises: {found.cost} with coefficient {found.coefficient:g}, and "
                    f"{minimised.cost} with {coefficient}; to measure what {code} minimises, give it {wanted}"
                ),
            )


def _rounded_decays(network: Network) -> Iterator[str]:
    """Yield the layers of which float32 makes other time constants; of slices that differ, the first one.

    A factor near 1 is rounded to a multiple of 6e-8, and so its distance from 1, which is dt / tau.
    """
    if network.run.precision != "float32":
        return
    named: set[tuple[str, str]] = set()
    for among, own in _different(network):
        for name, layer in own.layers.items():
            for variable, kept in layer.leaks(own.run.dt).items():
                rounded = float(np.float32(kept))
                if (name, variable) in named or not 0 < 1 - kept < _SLOW:
                    continue
                error = math.log(kept) / math.log(rounded) - 1 if rounded < 1 else math.inf
                if abs(error) > _WRONG:
                    named.add((name, variable))
                    found = (
                        f"is {100 * abs(error):.2g} % too {'long' if error > 0 else 'short'}"
                        if math.isfinite(error)
                        else "is infinite"
                    )
                    yield (
                        f"layers.{name}: the time constant of {variable}{among}, {-1 / math.log(kept):.3g} "
                        f'steps, {found} in float32; run.precision = "float64" keeps it'
                    )


def _resets(plan: Plan) -> Iterator[str]:
    """Yield the layers of which films reset nothing, although they may remember something."""
    films = [name for name, layer in plan.inputs.items() if layer.source.resets]
    for name, layer in plan.graph.network.layers.items() if films else ():
        if remembers(layer) and not layer.variables():
            yield (
                f"layers.{name}: the films of {', '.join(films)} reset the variables of layers, and "
                f"{layer.type} declares none; what it keeps of its activity of the step before is not reset"
            )


def _doubts(network: Network) -> Iterator[str]:
    """Yield what types have to say of numbers that can hardly be meant; of slices that differ, the first."""
    named: set[str] = set()
    for among, own in _different(network):
        for kind in ("layers", "connections"):
            for name, part in getattr(own, kind).items():
                for text in part.doubts(own.run.dt, network.run.batch, network.run.length):
                    if f"{kind}.{name}" not in named:
                        yield f"{kind}.{name}: {text}{among}"
                named.add(f"{kind}.{name}")


def _late(plan: Plan) -> Iterator[str]:
    """Yield the connections whose delays are longer than the run."""
    for name, synapses in plan.graph.synapses.items():
        delays = synapses.first.delays
        least = int(delays.min()) if delays is not None and len(delays) else 0
        if least >= plan.length:
            yield (
                f"connections.{name}: nothing arrives: its synapses are delayed by at least {least:,} steps, "
                f"and the run has {plan.length:,}"
            )


def _no_synapses(graph: Graph) -> Iterator[str]:
    """Yield the connections that have drawn no synapse; where slices have their own, others may have some."""
    for name, synapses in graph.synapses.items():
        if not synapses.apart and synapses.targets.size == 0:
            ends = synapses.ends
            here = "all units"
            if ends.positions > 1:
                here = 'the features at one position; mode = "extra_non_shared" joins all units'
            count = f"{ends.pre * ends.post_units:,}"
            yield f"connections.{name}: it has no synapses: none of {count} possible ones between {here}"


def _read_once(plan: Plan) -> Iterator[str]:
    """Yield the layers whose images cannot be read again."""
    for name, layer in plan.inputs.items():
        if layer.source.once:
            yield f"layers.{name}: its images are read once, so this run cannot be resumed"


def _recordings(plan: Plan) -> Iterator[str]:
    """Yield what the run is too short to record."""
    network = plan.graph.network
    missed: dict[int, dict[str, None]] = {}
    for recording in plan.recordings:
        asked_for = recording.period and not recording.also and not recording.key.startswith("inputs/")
        if asked_for and not recording.steps(1, min(recording.period, plan.length)):
            missed.setdefault(recording.period, {})[recording.key] = None
    for period, keys in missed.items():
        yield (
            f"the run is too short to record {', '.join(keys)}: `every` is "
            f"{_length(period, network)}, and it has {_length(plan.length, network)}"
        )


def _evaluation(plan: Plan) -> Iterator[str]:
    """Yield what evaluations cost, if that is much."""
    network = plan.graph.network
    wanted = network.evaluate
    if wanted is None or not plan.evaluation:
        return
    steps = network.run.clock.length(wanted.displays)
    if plan.evaluation <= plan.length and steps >= _DEAR * plan.evaluation:
        yield (
            f"{EVALUATE}: each evaluation takes {_length(steps, network)}, every "
            f"{_length(plan.evaluation, network)} of the run: {steps / plan.evaluation:.0%} more steps"
        )


def _length(steps: int, network: Network) -> str:
    """Return a number of steps in displays, if these are whole."""
    clock = network.run.clock
    displays = clock.ends(steps) and clock.display > 1
    number, unit = (clock.complete(steps), "display") if displays else (steps, "step")
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
