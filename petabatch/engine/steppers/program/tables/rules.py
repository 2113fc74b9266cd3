"""Numbers of rules and norms, as rows have them."""

from __future__ import annotations

from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program import units as u
from petabatch.kernels.cpu.program import whole as w
from petabatch.kernels.rules import RULES, rule_number
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


def constants(rule: CompiledRule, dt: float) -> list[float]:
    """Return the constants of an `UpdateUnits`; see `kernels/cpu/program/units.py`."""
    code = rule_number(rule.name, _RULES)
    n, values = rule.numbers, [0.0] * t.NUMBERS
    if rule.potential or rule.name == "transfer":
        values[: u.FACTOR] = [float(value) for value in rule.cell(code)]
    else:
        values[u.SHIFT], values[u.TOP] = n.get("centre", 0.0), n.get("width", 1.0)
        values[u.SIGNED] = n.get("inverted", 0.0)
    e, gain = rule.decays(dt)
    values[u.RULE], values[u.DT], values[u.TAU] = code, dt, rule.tau
    values[u.FACTOR] = n.get("factor", 1.0) if rule.decay is None else float(e)
    values[u.GAIN] = float(gain)
    return values
