"""Updates of layers on a GPU: by the translation of a row function, a trace of `update`, or on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from petabatch.errors import Problem
from petabatch.kernels.cuda.units.rows import row_body
from petabatch.kernels.cuda.units.source import Body
from petabatch.kernels.cuda.units.traced import Untraced, traced
from petabatch.kernels.cuda.units.values import Untranslated
from petabatch.network.graph import Graph
from petabatch.spec.compiled import NotSuitable
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.rows import RowFunction


def row_of(layer: Layer) -> RowFunction | None:
    """Return the row function that makes the update of a layer, None where none does.

    Other rules may have one as well, of a part of the update, as the rate of a Poisson process.
    """
    try:
        rule = layer.compiled_rule()
    except NotSuitable:
        return None
    return rule.row if rule.name == "row" else None


def _untranslated(row: RowFunction, precision: str) -> str:
    """Return why a row function has no form as a kernel, "" where it has one."""
    try:
        row_body(row.function, row.form, "float" if precision == "float32" else "double")
    except Untranslated as reason:
        return str(reason)
    return ""


def translated(layer: Layer, precision: str) -> RowFunction | None:
    """Return the row function of a layer whose update a GPU makes by it, None where it calls `update`.

    Raises Untranslated where it can do neither.
    """
    row = row_of(layer)
    why = "" if row is None else _untranslated(row, precision)
    if why and type(layer).update is Layer.update:
        raise Untranslated(why)
    return None if why else row


def traced_update(layer: Layer, ctx: StepContext, one: bool, precision: str) -> tuple[Body, Sequence[float]]:
    """Return what `update` does with a unit, as the body of a kernel and its constants.

    `one` says that the activities before and after are the same array. Raises Untraced, with the reason,
    where that is more than arithmetic on units.
    """
    variables = layer.variables()
    for one_of in variables:
        if one_of.shape != layer.shape or one_of.dtype != "float":
            raise Untraced(f"its variable {one_of.name} is not one float of each unit")
    if layer.host_numbers:
        raise Untraced("it is sent numbers from the host")
    if not layer.graph_safe:
        raise Untraced(f"layers of type {layer.type} are not `graph_safe`")

    def update(xp: Any, *arrays: Any) -> None:
        layer.update(replace(ctx, xp=xp), *arrays)

    names = [variable.name for variable in variables]
    real = "float" if precision == "float32" else "double"
    try:
        return traced(update, names, layer.buffers, one, real)
    except Untraced as error:
        raise Untraced(f"it does something else than arithmetic on units: {error}") from None
    except Exception as error:  # of any kind: then it is called on arrays, and raises what is its own
        lines = str(error).splitlines()
        text = f": {lines[0]}" if lines else ""
        raise Untraced(f"with symbols in place of arrays, it raises {type(error).__name__}{text}") from error


@dataclass(frozen=True)
class Way:
    """How a GPU makes the update of a layer."""

    by: Literal["row", "trace", "arrays"]
    reason: str = ""
    """Why it is made on arrays."""

    def __str__(self) -> str:
        """Return a clause for `petabatch check`."""
        if self.by == "arrays":
            return f"its `update` on arrays, because {self.reason}"
        return "a kernel of " + ("its row function" if self.by == "row" else "what its `update` does")


def way_of(graph: Graph, name: str) -> Way:
    """Return how a GPU makes the update of a layer of slice 0, layer by layer."""
    layer, run = graph.network.layers[name], graph.network.run
    why = ""
    if (row := row_of(layer)) is not None:
        if not (found := _untranslated(row, run.precision)):
            return Way("row")
        why = f"its row function cannot be translated ({found}), and "
    ctx = StepContext(1, run.dt, (0,), run.seed, display=run.display, layer=name)
    try:
        traced_update(layer, ctx, graph.depth[name] == 1, run.precision)
    except Untraced as reason:
        return Way("arrays", f"{why}{reason}")
    return Way("trace")


def ways(graph: Graph) -> Mapping[str, str]:
    """Return the layers with a row function, each with why it is not translated, empty where it is."""
    rows = ((name, row_of(layer)) for name, layer in graph.network.layers.items())
    return {name: _untranslated(row, "float32") for name, row in rows if row is not None}


def check_rows(graph: Graph) -> list[Problem]:
    """Check that a GPU can make the update of each layer."""
    problems = []
    for name, layer in graph.network.layers.items() if graph.network.run.device == "gpu" else ():
        try:
            translated(layer, graph.network.run.precision)
        except Untranslated as reason:
            problems.append(
                Problem(
                    f"layers.{name}",
                    f"layers of type {layer.type} cannot run on a GPU: `row` cannot be translated",
                    found=str(reason),
                    expected="numbers, units of arrays, `if`, loops over ranges, and functions of `math`",
                    hint="write the row function so, or give the layer an `update` for arrays",
                )
            )
    return problems
