"""Numbers of rules and norms, as rows have them."""

from __future__ import annotations

from petabatch.kernels.cpu.program import units as u
from petabatch.kernels.cpu.program import whole as w
from petabatch.kernels.rules import RULES, Cell, rule_number
from petabatch.spec.compiled import CompiledRule

RESCALES = {
    "rescale_range": w.RANGE,
    "rescale_standard": w.STANDARD,
    "rescale_length": w.LENGTH,
    "rescale_softmax": w.SOFTMAX,
}
NOISES = ("gaussian_noise", "dropout", "poisson")
_RULES = {**RULES, **u.RULES, **dict.fromkeys((*RESCALES, *NOISES, "bins", "max_unpool"), u.LINEAR)}
"""All rules by name. A layer that is rescaled as a whole, noisy or compared first takes over its input."""
NORMS = {"squares": w.SQUARES, "sizes": w.SIZES, "count": w.COUNT}


def cell(rule: CompiledRule, dt: float, precision: str) -> Cell:
    """Return the numbers of a rule in steps of `dt`, in a precision."""
    return rule.cell(rule_number(rule.name, _RULES), dt, precision)
