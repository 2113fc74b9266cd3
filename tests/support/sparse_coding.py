"""Sparse-coding loops with every code layer and time scale."""

from __future__ import annotations

from typing import Any

from petabatch.layers import (
    FISTA,
    ISTA,
    LCA,
    BaseTimeScale,
    HeavyBall,
    KneeTimeScale,
    LogTimeScale,
    MomentumLCA,
)
from petabatch.probes import Energy
from petabatch.spec.network import LayerOutput, Network, Output
from petabatch.spec.parts import DISPLAY, Layer, Probe
from petabatch.spec.schedule import Every
from support.networks import images, lca_network

CODES: dict[str, tuple[type[Layer], dict[str, Any]]] = {
    "lca": (LCA, {"tau": 20.0, "transfer": "firm", "width": 0.2}),
    "heavy_ball": (HeavyBall, {"tau": 40.0, "signed": True}),
    "momentum_lca": (MomentumLCA, {"tau": 30.0, "self_interact": False}),
    "ista": (ISTA, {"tau": 60.0}),
    "fista": (FISTA, {"step": 0.05}),
    "fista, signed": (FISTA, {"step": 0.05, "signed": True}),
}


GROWTH: dict[str, Any] = {"energy": "energy", "minimum": 0.5, "maximum": 0.6, "factor": 0.2, "growth": 0.1}
SCALES = {
    "base": BaseTimeScale(**GROWTH),
    "knee": KneeTimeScale(**GROWTH, knee=0.7),
    "log": LogTimeScale(**GROWTH),
}


def network(
    code: str = "lca",
    every: Every = DISPLAY,
    features: int = 12,
    slices: int = 2,
    keys: dict[str, Any] | None = None,
    probes: dict[str, Probe] | None = None,
    **run: Any,
) -> Network:
    one = lca_network(images(slices), features=features, displays=3, **run)
    kind, mine = CODES[code]
    layer = kind(shape=one.layers["V1"].shape, threshold=0.4, **mine, **(keys or {}))
    energy = Energy(error="error", code="V1", coefficient=0.4, every=every)
    variables = tuple(variable.name for variable in layer.variables())
    output = Output(layers={"V1": LayerOutput(every=DISPLAY, variables=("A", *variables))})
    return one.model_copy(
        update={
            "output": output,
            "layers": {**one.layers, "V1": layer},
            "probes": {"energy": energy, **(probes or {})},
        }
    )
