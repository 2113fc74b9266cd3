"""Probes that are weighted sums of norms of layers: what a compiled program measures by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from petabatch.probes import L0, L1, L2, Energy
from petabatch.probes.terms import Sum
from petabatch.spec.parts import Layer, Probe


@dataclass(frozen=True)
class Term:
    """A coefficient times a norm of a layer's activity: squares, sizes or count."""

    layer: str
    norm: str
    coefficient: float = 1.0

    def __str__(self) -> str:
        return f"{self.coefficient:g} {self.norm} of {self.layer}"


def quantities(probe: Probe, layers: Mapping[str, Layer]) -> Mapping[str, tuple[Term, ...]] | None:
    """Return the terms of each quantity of a probe, or None where one is more than a sum of norms."""
    if isinstance(probe, (L1, L2)) and probe.mask is None:
        norm, quantity = ("sizes", "sum") if isinstance(probe, L1) else ("squares", "squares")
        return {quantity: (Term(probe.layer, norm),)}
    if type(probe) is L0 and probe.mask is None and probe.above == 0:
        fraction = 1 / math.prod(layers[probe.layer].shape)
        return {"active": (Term(probe.layer, "count"),), "fraction": (Term(probe.layer, "count", fraction),)}
    if type(probe) is Energy:
        price = _price(probe.code, probe.cost, probe.above, probe.coefficient)
        residual = Term(probe.error, "squares", 0.5)
        if price is not None:
            return {"total": (residual, price), "residual": (residual,), "sparsity": (price,)}
    if type(probe) is Sum:
        found: dict[str, tuple[Term, ...]] = {}
        for name, term in probe.terms.items():
            one = _price(term.layer, term.norm, term.above, term.coefficient) if term.mask is None else None
            if one is None:
                return None
            found[name] = (one,)
        return {**found, "total": tuple(term for terms in found.values() for term in terms)}
    return None


def _price(layer: str, cost: str, above: float, coefficient: float) -> Term | None:
    norm = {"l1": "sizes", "squares": "squares"}.get(cost)
    if cost == "l0" and above == 0:
        norm = "count"
    return None if norm is None else Term(layer, norm, coefficient)
