"""Binding of a sparse-coding loop to the arrays of its slices: constants, arrays, step control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from petabatch.engine.state import owned
from petabatch.geometry import Patches
from petabatch.kernels.cpu.rules import rule_number
from petabatch.kernels.rules import Cell, Units, cell
from petabatch.network.loop import Loop
from petabatch.network.plan import Plan
from petabatch.spec.compiled import CompiledRule, Term
from petabatch.variable import Array


@dataclass(frozen=True)
class BoundLoop:
    """The loop of a network on the arrays of one slice or more."""

    patches: Patches
    rule: CompiledRule
    cell: Cell
    dt: float
    state: Mapping[str, Array]
    """The variables of the code, by name."""
    factor: np.float32
    """error = factor * image - recon."""
    image: Array
    """`[lanes or 1, 1, ny, nx, nf]`."""
    recon: Array
    """`[lanes, 1, ny, nx, nf]`, as the next."""
    error: Array
    weights: Array
    """`[lanes or 1, groups * nf, K]` in memory order."""


def bind_loop(plan: Plan, arrays: Mapping[str, Array]) -> BoundLoop:
    """Bind the loop of a plan's method."""
    loop = plan.method.loop
    image, recon, error = (arrays[f"layers/{name}/A"] for name in (loop.image, loop.recon, loop.error))
    return BoundLoop(
        loop.patches,
        loop.rule,
        cell_constants(loop.rule),
        plan.graph.network.run.dt,
        owned(arrays, f"layers/{loop.code}"),
        np.float32(loop.image_factor),
        image,
        recon,
        error,
        arrays[f"connections/{loop.dictionary}/weights"],
    )


def loop_norms(loop: Loop) -> tuple[Term, ...]:
    """Return what compiled loops sum up in each step."""
    return Term(loop.error, "squares"), Term(loop.code, "sizes"), Term(loop.code, "count")


def cell_constants(rule: CompiledRule) -> Cell:
    """Return the constants of a rule as compiled code reads them."""
    return cell(
        rule_number(rule.name), rule.self_interaction, rule.inertia, rule.threshold, rule.shift, rule.width,
        rule.minimum, rule.maximum, rule.signed,
    )  # fmt: skip


def cell_arrays(rule: CompiledRule, state: Mapping[str, Array]) -> Units:
    """Return the arrays of one slice that a rule reads and writes, from the code's variables by name."""
    previous = state[rule.previous].reshape(-1) if rule.previous else np.zeros(0, np.float32)
    return Units(state["A"].reshape(-1), state[rule.potential].reshape(-1), previous)
