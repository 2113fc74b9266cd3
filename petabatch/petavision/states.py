"""PetaVision's initial potentials and activities."""

from __future__ import annotations

import math

from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.keys.layers import INIT_V
from petabatch.petavision.part import Part
from petabatch.petavision.transfer import transfer

_INIT = (
    "ConstantV",
    "ZeroV",
    "UniformRandomV",
    "GaussianRandomV",
    "DiscreteUniformRandomV",
    "InitVFromFile",
)
_NO_MEMORY = ("linear", "rectified", "squared", "product", "quotient", "mask", "dropout", "gaussian_noise")
"""Types without a membrane potential, whose activity in step 0 may matter all the same."""


def initial(draft: Draft, part: Part) -> float | Table:
    """Return the potential at the start: a number, or an initialiser.

    Source: PetaVision's `initv/`. The deviation of GaussianRandomV is read from `maxV` there.
    """
    own = {"per_slice": True} if draft.batch > 1 else {}
    if (checkpoint := draft.from_checkpoint(part, "V.pvp")) is not None:
        part.read |= INIT_V.keys()
        return {"type": "file", "path": checkpoint, **own}
    kind = part.choice(
        "InitVType",
        {name: name for name in _INIT},
    )
    if kind == "ConstantV":
        return part.finite("valueV")
    if kind == "ZeroV":
        return 0.0
    if kind in ("UniformRandomV", "DiscreteUniformRandomV"):
        low, high = part.finite("minV"), part.optional_number("maxV")
        high = low + 1 if high is None else high
        if math.isinf(high) or high < low:
            part.refuse("maxV", "this is not a range", found=f"{low:g} to {high:g}")
        part.differs("the random potentials are others")
        levels = {} if kind == "UniformRandomV" else {"levels": max(2, part.whole("numValues"))}
        return {"type": "uniform", "low": low, "high": high, **levels, **own}
    if kind == "GaussianRandomV":
        std = part.optional_number("maxV")
        if std is None or std < 0 or math.isinf(std):
            part.refuse("maxV", "PetaVision reads the standard deviation from maxV", expected="a number")
        part.differs("the random potentials are others")
        return {"type": "gaussian", "mean": part.finite("meanV"), "std": std, **own}
    found: Table = {"type": "file", "path": draft.files.named(part.text("Vfilename"))}
    frame = part.whole("frameNumber")
    return found | ({"frame": frame} if frame or draft.batch > 1 else {"frame": 0}) | own


def started(draft: Draft, part: Part, default: float | None = None) -> Table:
    """Return the keys for the potential at the start: `initial`, or `start` of layers that have a default."""
    found = initial(draft, part)
    if isinstance(found, float) and default is None:
        return {"initial": found} if found else {}
    if found == default:
        return {}
    return {"start": {"V": {"type": "constant", "value": found} if isinstance(found, float) else found}}


def start_activities(draft: Draft) -> None:
    """Give layers without a potential their activity in step 0, where something sees it."""
    seen = {table["reset_to"] for table in draft.layers.values() if "reset_to" in table}
    for link in draft.connections.values():
        if link.get("channel") != "none" and (link.get("feedback") or link.get("delay_steps")):
            seen.add(link["pre"])
    for name, table in draft.layers.items():
        part = draft.origin["layers", name]
        if table["type"] not in _NO_MEMORY or "InitVType" not in part.kind.keys:
            continue
        v = initial(draft, part)
        keys = table if table["type"] == "rectified" else None
        if isinstance(v, dict):
            start = v
        elif a := transfer(keys, v):
            start = {"type": "constant", "value": a}
        else:
            continue
        if name not in seen and "every" not in table:
            for key in INIT_V:
                part.idle(key, "nothing sees the activity of step 0")
            continue
        if keys is not None and isinstance(v, dict):
            part.differs("the transfer function is not applied to the activity of step 0")
        table["start"] = {"A": start}
