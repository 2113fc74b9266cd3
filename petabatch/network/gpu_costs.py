"""Costs of values, synapses, early stopping and split features on a GPU, as `check` and runs say them."""

from __future__ import annotations

from collections.abc import Iterator

from petabatch.network.plan import MOST_PLANS, Plan
from petabatch.network.slices import own_values


def gpu_costs(plan: Plan) -> Iterator[str]:
    """Yield what a GPU does more than once, or beside its kernels."""
    network, method = plan.graph.network, plan.method
    if network.run.device != "gpu":
        return
    if method.by_layers:
        for name in method.layers:
            calls = 1 if method.rows.get(name) == "" else _calls(plan, name)
            if calls > 1:
                yield (
                    f"layers.{name}: on a GPU, slices with other values have an update of their own: "
                    f"{calls:,} in each step"
                )
        for name, synapses in plan.graph.synapses.items():
            delayed = f", and for each of {synapses.longest + 1:,} steps to come" if synapses.delayed else ""
            yield (
                f"connections.{name}: on a GPU, all {synapses.most:,} synapses are added up in each step, "
                f"also of silent units{delayed}"
            )
        if network.over_time:
            yield "over_time: on a GPU, steps are launched one by one after each change, then replayed again"
        if network.run.until is not None:
            yield "run.until: on a GPU, slices that rest are computed with the others, layer by layer"
    elif network.run.until is not None and method.kernel == "display" and network.probes:
        yield "run.until: on a GPU, probes interrupt the display kernel at the steps that they measure"
    if network.parallel.features > 1:
        yield "parallel.features: sums over ranks pass through the host in each step, which is not replayed"


def _calls(plan: Plan, layer: str) -> int:
    """Return how often the update of a layer is called in a step, for slices that follow each other."""
    network = plan.graph.network

    def own(number: int) -> tuple[float, ...]:
        values = own_values(network, number)
        return tuple(
            value for path, value in values.items() if path == "run.dt" or path.startswith(f"layers.{layer}.")
        )

    numbers = range(min(network.batch, MOST_PLANS))
    return 1 + sum(own(number) != own(number - 1) for number in numbers[1:])
