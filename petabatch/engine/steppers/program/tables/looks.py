"""The row that evaluates the duality gap of a code."""

from __future__ import annotations

from petabatch.engine.steppers.program.tables.weights import Weights
from petabatch.engine.steppers.program.tables.writer import Writer
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program.look import LOOKS
from petabatch.network.operations import Look


def look(to: Writer, one: Look) -> int:
    """Write the row; return the number of the array that it writes."""
    p, lasso = one.patches, one.lasso
    padded, state = "scratch/residual of the gap", "own/look"
    to.scratch[padded], to.own[state] = p.y.padded * p.x.padded * p.channels, (LOOKS, "i8")
    names = (lasso.code, lasso.image, lasso.reconstruction)
    code, image, recon = (to.array(f"layers/{name}/A") for name in names)
    row = {t.A: to.geometry(p), t.D: code, t.E: image, t.F: recon, t.G: to.array(padded)}
    if p.shared:
        weights = Weights(one.weights, p)
        to.weights[weights.names] = weights
        row[t.B] = to.array(weights.names[0])
    else:
        row[t.C] = to.array(one.weights)
    number = row[t.H] = to.array(state)
    numbers = (one.target, lasso.coefficient, lasso.signed, one.every, one.display)
    to.row(t.Op.LOOK, one, row, numbers)
    return number
