"""Parameters of PetaVision's layer V1: its type, transfer function and time scale."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from petabatch.layers import ISTA, LCA, BaseTimeScale, KneeTimeScale, LogTimeScale, MomentumLCA
from petabatch.layers.timescale import TimeScale
from petabatch.openpv.parameters import CONTROL, INFINITY, filled, one_of
from petabatch.openpv.trigger import trigger
from petabatch.spec.parts import Layer

_CONTROLLERS: dict[str, tuple[type[TimeScale], dict[str, str]]] = {
    "KneeTimeScaleProbe": (KneeTimeScale, {"knee": "kneeThresh", "slope": "kneeSlope"}),
    "LogTimeScaleProbe": (LogTimeScale, {"threshold": "logThresh", "slope": "logSlope"}),
    "AdaptiveTimeScaleProbe": (BaseTimeScale, {}),
}
_CONTROL = {"minimum": "baseMin", "maximum": "baseMax", "factor": "tauFactor", "growth": "growthFactor"}


def code(p: Mapping[str, Any], shape: tuple[int, int, int]) -> Layer:
    """Return the layer V1.

    Without an adaptive time scale, PetaVision's decay factor is exp(-dt^2 / tau), with one exp(-scale dt /
    tau) (`HyPerLCAInternalStateBuffer.cpp:110, 168-176`).
    """
    kinds: dict[str, tuple[type[LCA], dict[str, Any]]] = {
        "HyPerLCALayer": (LCA, {"self_interact": p["selfInteract"]}),
        "MomentumLCALayer": (
            MomentumLCA,
            {"self_interact": p["selfInteract"], "rate": p["LCAMomentumRate"]},
        ),
        "ISTALayer": (ISTA, {}),
    }
    kind, own = one_of("v1type", p["v1type"], kinds)
    tau = p["tau"] if p["adaptive"] else float(np.float32(p["tau"] / p["dt"]))
    low, width = threshold(p)
    with warnings.catch_warnings():
        # PetaVision's momentum is requested explicitly here, so the warning of momentum_lca adds nothing.
        warnings.simplefilter("ignore")
        layer: LCA = kind(
            shape=shape,
            tau=tau,
            threshold=low,
            transfer="firm" if width else "hard",
            width=width,
            shift=p["AShift"],
            minimum=p["AMin"],
            maximum=math.inf if p["AMax"] == INFINITY else p["AMax"],
            initial=_initial(p),
            time_scale=_time_scale(p) if p["adaptive"] else None,
            border=border(p["v1_mirror"]),
            **own,
            **trigger(p),
            **_corners(p),
        )
    return layer


def _initial(p: Mapping[str, Any]) -> float:
    known = {"ConstantV": p["VThresh"] if p["valueV"] is None else p["valueV"], "ZeroV": 0.0}
    return float(one_of("initV", p["initV"], known))


def _time_scale(p: Mapping[str, Any]) -> TimeScale:
    kind, own = one_of("adaptType", p["adaptType"], _CONTROLLERS)
    given = filled(p["knee"], CONTROL, "knee.")
    names = {**_CONTROL, **own}
    scale: TimeScale = kind(energy="energy", **{ours: given[name] for ours, name in names.items()})
    return scale


def threshold(p: Mapping[str, Any]) -> tuple[float, float]:
    """Return threshold and width; a negative width lowers the threshold (`ANNActivityBuffer.cpp:229-239`)."""
    width = float(p["VWidth"])
    return p["VThresh"] + min(width, 0.0), abs(width)


def _corners(p: Mapping[str, Any]) -> dict[str, Any]:
    """Return the polyline, if one is given; it takes precedence over the thresholds."""
    if p["verticesV"] is None:
        return {}
    corners = tuple(zip(p["verticesV"], p["verticesA"], strict=True))
    return {"vertices": corners, "slopes": (p["slopeNegInf"], p["slopePosInf"])}


def border(mirror: bool) -> Literal["mirror", "zero"]:
    """Return the border; PetaVision ignores `valueBC` without mirror boundary conditions."""
    return "mirror" if mirror else "zero"
