"""Parameters of PetaVision's learning rules and weight normalisers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from petabatch.learning import Hebbian, RateDecay
from petabatch.openpv.parameters import one_of
from petabatch.spec.schedule import Every
from petabatch.spec.weights import Normalize
from petabatch.weights import L2, ContrastZeroMean, Max, Sum


def learning(p: Mapping[str, Any]) -> Hebbian:
    """Return the learning rule: dW = (1 - f) dW + f dW_before - g W (`MomentumUpdater.cpp:292-349`)."""
    rate, momentum, decay = float(p["dWMax"]), 0.0, 0.0
    if p["conntype"] == "MomentumConn":
        tau, decay = p["tauConn"], p["decay"]
        viscous = math.exp(-1 / tau) if tau else 0.0
        momentum = one_of("method", p["method"], {"viscosity": viscous, "simple": tau, "alex": tau})
        if p["useMomentumTau"]:
            rate /= 1 - momentum  # the older parameter omits the factor 1 - f
            decay *= 1 - momentum if p["method"] == "alex" else 1
    interval = int(p["dWMaxDecayInterval"])
    # PetaVision's counter starts at 0: the first decay follows the first update, others every interval + 1.
    slower = (
        RateDecay(every=interval + 1, fraction=p["dWMaxDecayFactor"], phase=interval) if interval else None
    )
    return Hebbian(
        error="InputError",
        rate=rate,
        average="active" if p["normalizeDw"] and p["shared"] else "sum",
        momentum=momentum,
        decay=decay,
        decay_follows_rate=p["method"] == "alex",
        delayed=not p["immediate"],
        rate_decay=slower,
        every=Every(1, "displays"),
        # The trigger layer, an input that changes at steps k D + 1, is queried trigOffset later.
        offset=1 - round(p["trigOffset"] / p["dt"]),
    )


def normalize(p: Mapping[str, Any], post_over_pre: float) -> Normalize | None:
    """Return the normaliser named by `normMethod`.

    With `normalizeFromPostPerspective`, `strength` is multiplied by the ratio of post to pre units.
    """
    known: dict[str, Any] = {
        "": None,
        "none": None,
        "normalizeL2": L2,
        "normalizeMax": Max,
        "normalizeSum": Sum,
        "normalizeContrastZeroMean": ContrastZeroMean,
    }
    kind = one_of("normMethod", p["normMethod"], known)
    if kind is None:
        return None
    found: Normalize = kind(
        strength=p["strength"] * (post_over_pre if p["normalizeFromPostPerspective"] else 1.0),
        at_start=p["normalizeOnInitialize"],
        at_updates=p["normalizeOnWeightUpdate"],
    )
    return found
