"""Parameters of PetaVision's probes: energy, sparsity cost and norms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from petabatch.openpv.layers import threshold
from petabatch.openpv.parameters import one_of
from petabatch.probes import L0, L1, L2, Energy
from petabatch.spec.parts import Probe


def probes(p: Mapping[str, Any]) -> dict[str, Probe]:
    """Return the probes of the one-layer network."""
    penalty = _penalty(p)
    return {
        "energy": Energy(error="InputError", code="V1", **penalty),
        "sparsity_cost": Energy(error="InputError", code="V1", **{**penalty, "coefficient": 1.0}),
        "err_sumsq": L2(layer="InputError"),
        "l1": L1(layer="V1"),
        "l0": L0(layer="V1"),
    }


def _penalty(p: Mapping[str, Any]) -> dict[str, Any]:
    """Return cost and coefficient of the sparsity probe (`VThreshEnergyProbeComponent.cpp:40` and others)."""
    low, width = threshold(p)
    corner = low + width
    known: dict[str, dict[str, Any]] = {
        "L1NormLCAProbe": {"cost": "l1", "coefficient": low},
        "L0NormLCAProbe": {"cost": "l0", "coefficient": low**2 / 2, "above": low},
        "FirmThresholdCostFnLCAProbe": {"cost": "firm", "coefficient": low, "corner": corner},
        "L1NormProbe": {"cost": "l1", "coefficient": p["coefficient"]},
        "L0NormProbe": {"cost": "l0", "coefficient": p["coefficient"], "above": p["nnzThreshold"]},
        "FirmThresholdCostFnProbe": {"cost": "firm", "coefficient": p["coefficient"], "corner": corner},
    }
    return dict(one_of("l1", p["l1"], known))
