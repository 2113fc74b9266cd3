"""Updates of layers with a row function on a GPU: by its translation, or by `update` on arrays."""

from __future__ import annotations

from collections.abc import Mapping

from petabatch.errors import Problem
from petabatch.kernels.cuda.units.rows import row_body
from petabatch.kernels.cuda.units.values import Untranslated
from petabatch.network.graph import Graph
from petabatch.spec.compiled import NotSuitable
from petabatch.spec.parts import Layer
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


def translated(layer: Layer, precision: str) -> RowFunction | None:
    """Return the row function of a layer whose update a GPU makes by it, None where it calls `update`.

    Raises Untranslated where it can do neither.
    """
    row = row_of(layer)
    if row is None:
        return None
    try:
        row_body(row.function, row.form, "float" if precision == "float32" else "double")
    except Untranslated:
        if type(layer).update is Layer.update:
            raise
        return None
    return row


def ways(graph: Graph) -> Mapping[str, str]:
    """Return the layers with a row function, each with why it is not translated, empty where it is."""
    found = {}
    for name, layer in graph.network.layers.items():
        row = row_of(layer)
        if row is not None:
            try:
                row_body(row.function, row.form, "float")
                found[name] = ""
            except Untranslated as reason:
                found[name] = str(reason)
    return found


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
