"""The plan as text: shapes, levels, feedback, delays, schedules, memory and arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from petabatch.engine.image_sizes import nbytes_of_source, queues
from petabatch.network.exact import find_exact
from petabatch.network.lazy_codes import DOUBLE
from petabatch.network.messages import Message, Messages, messages
from petabatch.network.plan import Plan, multiply_adds
from petabatch.network.shares import side, split_layers
from petabatch.network.tiles import UNDIVIDED, connections_as_a_whole, layers_as_a_whole
from petabatch.network.until import certificate
from petabatch.parallel.comm import Serial
from petabatch.report.choices import choices
from petabatch.report.lines import field, ranges, wrapped
from petabatch.sizes import size_text
from petabatch.spec.network import Run
from petabatch.spec.schedule import STEP, Every
from petabatch.spec.synapses import Synapses


def summary(plan: Plan) -> str:
    """Return the layers, connections and costs as text."""
    return "\n".join([*_layers(plan), "", *_connections(plan), "", *_costs(plan)])


def explain(plan: Plan) -> str:
    """Return the summary and the full plan: choices, the operations of a step and all schedules."""
    parts = (*choices(plan), "", *_operations(plan), "", *_schedules(plan), *_generated(plan))
    return "\n".join([summary(plan), "", *parts])


def _layers(plan: Plan) -> Iterator[str]:
    graph, wide = plan.graph, max([9, *(len(layer.type) for layer in plan.graph.network.layers.values())])
    yield f"{'layers':18} {'type':{wide}} level  shape [ny, nx, nf]"
    for level in graph.order:
        for name in level:
            layer = graph.network.layers[name]
            kept = f"  history of {graph.depth[name]} steps" if graph.depth[name] > 1 else ""
            if layer.every != STEP and layer.images is None and not layer.static:
                late = f", offset {layer.offset}" if layer.offset else ""
                kept += f"  updated every {layer.every}{late}" if layer.every.count else "  never updated"
            yield f"  {name:16} {layer.type:{wide}} {graph.levels[name]:5}  {list(layer.shape)}{kept}"
            for remark in layer.remarks(graph.network.run.dt):
                yield from wrapped(f"  {'':32}  ", remark, 36)


def _connections(plan: Plan) -> Iterator[str]:
    graph = plan.graph
    wide = max([9, *(len(one.type) for one in graph.network.connections.values())])
    yield f"{'connections':18} {'type':{wide}} from -> to (channel)"
    lookback = {edge.name: edge.lookback for edges in graph.edges.values() for edge in edges}
    for name, connection in graph.network.connections.items():
        notes = []
        if connection.feedback:
            notes.append("feedback")
        if lookback.get(name):
            notes.append(f"delayed by {lookback[name]} step{'s' * (lookback[name] > 1)}")
        if name in graph.patched:
            owner = graph.patched[name]
            notes.append(f"{owner.mode} weights {list(plan.variables[f'connections/{name}/weights'].shape)}")
            if owner.learn is not None:
                notes.append(f"learns ({owner.learn.type}) every {owner.learn.every}")
        if name in graph.synapses:
            notes.append(_synapses(graph.synapses[name], graph.network.run))
        if name in graph.learning_synapses:
            notes.append(_learning(graph.learning_synapses[name]))
        arrow = f"{connection.pre} -> {connection.post} ({connection.into})"
        text = f"{arrow}{'; ' if notes else ''}{', '.join(notes)}"
        yield from wrapped(f"  {name:16} {connection.type:{wide}} ", text, 31)


def _synapses(synapses: Synapses, run: Run) -> str:
    count, each = len(synapses.targets), synapses.per == "slice"
    text = f"{count:,} synapses"
    text += (
        " of each slice, about"
        if synapses.apart
        else f", weights of {'each slice' if each else 'all slices'}"
    )
    if synapses.first.delays is not None and count:
        low, high = int(synapses.first.delays.min()), int(synapses.first.delays.max())
        text += f", delayed by {low}{f' to {high}' if high > low else ''} more steps"
        if run.unit is not None:
            times = (f"{run.clock.time(steps):g}" for steps in dict.fromkeys((low, high)))
            text += f" ({' to '.join(times)} {run.unit})"
    return text


def _learning(synapses: Synapses) -> str:
    rule = synapses.learn
    assert rule is not None
    at = f"at spikes, added up every {rule.every}" if synapses.per == "network" else "at spikes"
    return f"learn ({rule.type}) {at}"


def _costs(plan: Plan) -> Iterator[str]:
    run, batch = plan.graph.network.run, plan.graph.network.batch
    per_slice = sum(v.nbytes(run.precision) for v in plan.variables.values() if v.per == "slice")
    common = sum(v.nbytes(run.precision) for v in plan.variables.values() if v.per == "network")
    macs = multiply_adds(plan.graph)
    sweep = plan.graph.network.sweep
    points = f" for each of {sweep.points:,} points" if sweep is not None else ""
    time = f" of {run.dt:g} {run.unit}, {run.clock.time(plan.length):g} {run.unit}" if run.unit else ""
    yield f"run                {plan.length} steps{time}, batch {run.batch}{points}"
    for numbers, method in _methods(plan):
        yield from field("method", f"slices {numbers}: {method}" if numbers else method)
    if run.precision == "float64":
        yield from field("precision", _of_double(plan))
    one, all_slices, shared = map(size_text, (per_slice, per_slice * batch, common))
    yield f"memory             {one} per slice, {all_slices} for the batch,"
    yield f"                   plus {shared} on each rank"
    for name, (displays, nbytes) in queues(plan, batch).items():
        ahead = f"up to {displays} display{'s' * (displays > 1)} of each slice"
        yield from field("read ahead", f"{name}: {ahead}, {size_text(nbytes)}")
    for name, layer in plan.inputs.items():
        if kept := nbytes_of_source(plan.graph, name):
            steps = ", ".join(step.type for step in layer.source.steps)
            yield from field("transforms", f"{name}: {steps}; up to {size_text(kept)} on each rank")
    if macs:
        yield f"arithmetic         {_flop(2 * macs)} per step and slice if dense,"
        yield f"                   {_flop(2 * macs * batch * plan.length)} for the run"
    yield from _parallel(plan)


def _of_double(plan: Plan) -> str:
    """Return what float64 costs a network."""
    text = "float64: arrays take twice the memory of float32"
    if plan.method.stepper != "program":
        return text
    text += ", compiled steps 1.3 to 2.5 times the time"
    codes = [code for code, reason in plan.method.program.codes.items() if reason == DOUBLE]
    return f"{text}; {', '.join(codes)}: float32 computes few units" if codes else text


def _methods(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the methods of the slices, each with their numbers; without numbers where all have one."""
    found: dict[str, list[int]] = {}
    for own, numbers in plan.of_slices:
        found.setdefault(own.method.brief, []).extend(numbers)
    for method, slices in found.items():
        yield ranges(sorted(slices)) if len(found) > 1 else "", method


def _parallel(plan: Plan) -> Iterator[str]:
    """Yield the cost and the savings of splitting features or rows over ranks, if they are split."""
    graph, ways = plan.graph, plan.graph.network.parallel.features
    if graph.network.parallel.parts == 1:
        return
    from petabatch.engine.lone_part import LonePart  # which needs the compiler

    sent = messages(LonePart(plan, Serial()).features.plan.graph)
    if graph.network.parallel.rows > 1:
        yield from _tiles(plan, sent)
    split = split_layers(graph.network)
    if not split:
        return
    precision = graph.network.run.precision
    owners = {f"connections/{name}" for name, owner in graph.patched.items() if side(owner, split)}
    held = {"slice": 0, "network": 0}
    for key, variable in plan.variables.items():
        if key.rpartition("/")[0] in owners | {f"layers/{name}" for name in split}:
            held[variable.per] += variable.nbytes(precision)
    slices, common = (held[per] * (ways - 1) / ways for per in ("slice", "network"))
    names = ", ".join(sorted(split))
    yield f"features           of {names} split over {ways} ranks"
    cost = size_text(_per_step([*sent.summed, *sent.gathered]))
    yield f"                   cost: {cost} from each other rank of the group, per step and slice"
    yield f"                   saving on each rank: {size_text(slices)} per slice, plus {size_text(common)}"


def _tiles(plan: Plan, sent: Messages) -> Iterator[str]:
    """Yield the cost and the savings of splitting rows over ranks."""
    graph, network = plan.graph, plan.graph.network
    ways, wirings = network.parallel.rows, plan.graph.wirings
    split = {f"layers/{name}" for name in graph.tiling.layers}
    held = sum(
        variable.nbytes(network.run.precision)
        for key, variable in plan.variables.items()
        if key.rpartition("/")[0] in split
    )
    whole = layers_as_a_whole(network, wirings)
    names = ", ".join(name for name in network.layers if name not in whole)
    yield from field("rows", f"of {names if whole else 'all layers'} split over {ways} ranks")
    for name, reason in whole.items():
        yield from wrapped(f"{'':19}", f"{name} is whole on each rank: {reason}", 21)
    for name, reason in connections_as_a_whole(network, wirings).items():
        if reason != UNDIVIDED:
            yield from wrapped(f"{'':19}", f"{name} is computed whole on each rank: {reason}", 21)
    halo, gathered = _per_step(sent.borders), _per_step(sent.gathered_rows)
    cost = f"cost: a halo of {size_text(halo)} exchanged with each neighbour, per step and slice"
    cost += f"; {size_text(gathered)} gathered from each rank of the group" if gathered else ""
    yield from wrapped(f"{'':19}", cost, 21)
    yield f"                   saving on each rank: {size_text(held * (ways - 1) / ways)} per slice"


def _per_step(sent: Sequence[Message]) -> int:
    return round(sum(one.nbytes / one.period for one in sent))


def _operations(plan: Plan) -> Iterator[str]:
    graph = plan.graph
    yield "each step, each slice"
    for name, layer in plan.inputs.items():
        yield f"  input      {name}: next item of its {layer.source.type} source every {layer.every}"
    for number, level in enumerate(graph.order):
        for name in level:
            terms = [
                f"{'-' if edge.factor < 0 else '+'} {edge.name}({edge.connection.pre}"
                f"{f'[t-{edge.lookback}]' if edge.lookback else ''})"
                for edge in graph.edges[name]
            ]
            yield f"  level {number}    {name} <- {' '.join(terms) or '(no connections)'}"


def _schedules(plan: Plan) -> Iterator[str]:
    yield "within each slice"
    for recording in plan.recordings:
        at_end = recording.also and not recording.period
        when = "at the end" if at_end else f"every {Every(recording.period)}"
        yield f"  record     {recording.stream.path} {when}"
    until = plan.graph.network.run.until
    if until is not None:
        probe = certificate(plan.graph.network)
        often = (
            f"checked every {until.every} steps" if until.interval == until.every else "checked at every step"
        )
        yield f"  stop       early at a gap of {probe} up to {until.gap:g}, {often}"
        if (exact := find_exact(plan.graph.network)) is not None:
            yield f"  begin      each display at the exact code of its image, in {exact.code}"
    for update in plan.weight_updates:
        where = "summed over slices" if update.reduced else "applied per slice"
        yield f"  learn      {update.name} every {Every(update.period)} ({where})"
    yield "sync events"
    for update in plan.weight_updates:
        if update.reduced:
            yield f"  update     {update.name} every {Every(update.period)}"
    yield f"  flush      every {Every(plan.flush)}"
    yield (
        f"  checkpoint every {Every(plan.checkpoint)} and at the end"
        if plan.checkpoint
        else "  checkpoint at the end"
    )
    yield f"  signals    checked at least every {plan.block} steps"


def _generated(plan: Plan) -> Iterator[str]:
    """Yield the sources of what was generated for layers, those of several layers once."""
    found: dict[str, list[str]] = {}
    for name, layer in plan.graph.network.layers.items():
        if layer.generated:
            found.setdefault(layer.generated, []).append(name)
    for source, names in found.items():
        yield from ("", f"generated for {', '.join(names)}", *(f"  {line}" for line in source.splitlines()))


def _flop(count: float) -> str:
    """Return a number of floating-point operations as text."""
    for unit in ("", "k", "M", "G", "T"):
        if count < 1000:
            return f"{count:.{1 if unit else 0}f} {unit}FLOP"
        count /= 1000
    return f"{count:,.1f} PFLOP"
