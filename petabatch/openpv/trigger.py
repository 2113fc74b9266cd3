"""PetaVision's triggers: updates and resets of a layer at another layer's updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from petabatch.openpv.parameters import one_of
from petabatch.spec.parts import DISPLAY, STEP


def trigger(p: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a layer that correspond to its trigger parameters.

    The trigger layer is queried for step t + triggerOffset (`LayerUpdateController.cpp:318-393`): `Input`
    updates in the first step of each display, all other layers in every step.
    """
    name = p["triggerLayerName"]
    if name is None:
        return {}
    period, offset = DISPLAY if name == "Input" else STEP, -round(p["triggerOffset"] / p["dt"])
    known: dict[str, dict[str, Any]] = {
        "updateOnlyOnTrigger": {"every": period, "offset": offset},
        "resetStateOnTrigger": {"reset": period, "offset": offset, "reset_to": p["triggerResetLayerName"]},
        "ignore": {},
    }
    return dict(one_of("triggerBehavior", p["triggerBehavior"], known))
