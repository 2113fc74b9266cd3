"""What is chosen for a network beside its method: updates of layers, captured steps, calls of threads."""

from __future__ import annotations

from collections.abc import Iterator

from petabatch.network.gpu_rows import way_of
from petabatch.network.gpu_steps import capture
from petabatch.network.plan import Plan
from petabatch.report.lines import field
from petabatch.spec.compiled import NotSuitable
from petabatch.spec.parts import Layer


def choices(plan: Plan) -> Iterator[str]:
    """Yield the choices, one to a line; those of slices with values of their own may be others."""
    yield "choices"
    for name in plan.method.layers:
        yield from field(f"  {name}", update_of(plan, name))
    if plan.graph.network.run.device == "gpu" and plan.method.by_layers:
        alone = plan.graph.network.parallel.parts == 1
        yield from field("  steps", str(capture(plan.graph, alone)))
    yield from field("  calls", "; ".join(_calls(plan)))


def update_of(plan: Plan, name: str) -> str:
    """Return what makes the update of a layer."""
    method, layer = plan.method, plan.graph.network.layers[name]
    if method.stepper == "cuda":
        return f"inside the CUDA {method.kernel} kernel"
    if method.stepper == "program":
        why = method.program.interpreted.get(name)
        return f"its `update` on arrays, because {why}" if why else f"{_rule(layer)}, in the program"
    if plan.graph.network.run.device == "gpu":
        return str(way_of(plan.graph, name))
    if type(layer).update is Layer.update:
        return "its row function, for each slice, since it has no `update` for arrays"
    return "its `update` on arrays"


def _rule(layer: Layer) -> str:
    try:
        rule = layer.compiled_rule()
    except NotSuitable:
        return "operations of its own"
    return "its row function" if rule.name == "row" else f"the compiled rule {rule.name}"


def _calls(plan: Plan) -> Iterator[str]:
    """Yield how slices and steps are dealt out to threads."""
    run, method, parts = plan.graph.network.run, plan.method, plan.graph.network.parallel.parts
    if run.device == "gpu":
        yield "all slices that fit in the memory of the GPU at once"
        return
    if method.together > 1:
        yield f"up to {method.together} slices in one call of a thread"
    else:
        yield f"one slice in a call of a thread{f', because {method.alone}' if method.alone else ''}"
    if plan.lane_steps > 1:
        few = f"where slices meet after fewer than {plan.lane_steps:,} steps, as few calls as threads"
        yield f"{few}, which are woken if that is worth while"
    if parts > 1:
        yield "in the order of the slices, which ranks share"
    yield from method.side_by_side
