"""Plans that differ from another in numbers: of a slice with values of its own, and of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from petabatch.errors import ParamsError, Problem
from petabatch.frozen import changed
from petabatch.network import over_time
from petabatch.network.alike import kind_of_slice
from petabatch.network.build import with_numbers, with_numbers_of_slice, with_plain_numbers
from petabatch.network.graph import Graph
from petabatch.network.method import choose, of_part
from petabatch.network.numbers import with_values

if TYPE_CHECKING:
    from petabatch.network.plan import Plan


def of_slice(plan: Plan, number: int, values: Mapping[str, float]) -> Plan:
    """Return the plan of a slice with values of its own, derived from that of one of its kind.

    Raises ParamsError when the values cannot have the kernel of `run.kernel`, or need other variables.
    """
    network = plan.graph.network
    kind = kind_of_slice(values, plan.plain_numbers)
    model = plan.models.get(kind)
    if model is not None:
        own = with_values(network, values, slices={}, sweep=None)
        return changed(model, graph=with_plain_numbers(model.graph, own), model=model)
    try:
        graph = with_numbers_of_slice(plan.graph, number)
    except ParamsError as error:
        named = [replace(one, message=f"slice {number}: {one.message}") for one in error.problems]
        raise ParamsError(named) from None
    _check_variables(plan, graph, next(iter(network.slices), "sweep"), f"slice {number}")
    found = _with_graph(plan, graph, plan.whole and plan.whole.of_slice(number))
    if found.method.stepper == "program" and found.whole is None and not found.method.program.interpreted:
        plan.models[kind] = found
    return found


def at_step(plan: Plan, step: int) -> Plan:
    """Return the plan with the values of a step.

    Raises ParamsError when they need another stepper, or other variables.
    """
    graph = with_numbers(plan.graph, over_time.at_step(plan.graph.network, step))
    found = _with_graph(plan, graph, plan.whole and plan.whole.at_step(step))
    key = next(iter(graph.network.over_time))
    _check_variables(plan, graph, key, f"step {step}")
    if found.method.decision == plan.method.decision:
        return found
    problem = Problem(
        key,
        f"the values of step {step} need another kernel than those of the start",
        found=f"{found.method}; {plan.method}",
        expected="values that take the same kernel, lazily evaluated layers included",
        hint='run.kernel = "dense" computes all units, whatever the values',
    )
    raise ParamsError([problem])


def _with_graph(plan: Plan, graph: Graph, whole: Plan | None) -> Plan:
    """Return the plan of a graph that differs in numbers, with the method for these."""
    if whole is None:
        return replace(plan, graph=graph, method=choose(graph, plan.limits), model=None)
    method = of_part(whole.method, graph, whole.graph.network)
    return replace(plan, graph=graph, method=method, whole=whole)


def _check_variables(plan: Plan, graph: Graph, key: str, where: str) -> None:
    """Raise ParamsError if values need other variables, such as a momentum that is 0 at first."""
    before, after = plan.graph.variables.keys(), graph.variables.keys()
    if before == after:
        return
    found = [*(f"{name} as well" for name in sorted(after - before))]
    found += [f"no {name}" for name in sorted(before - after)]
    problem = Problem(
        key,
        f"the values of {where} need other variables than those of the start of slice 0",
        found=", ".join(found),
        expected="values with the same variables; a momentum, for example, that is 0 nowhere or everywhere",
    )
    raise ParamsError([problem])
