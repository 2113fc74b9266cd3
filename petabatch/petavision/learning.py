"""PetaVision's learning rules: dW = (1 - f) dW + f dW_before - g W."""

from __future__ import annotations

import math

from petabatch.clock import Clock, fires
from petabatch.petavision.delivery import ends
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.part import Part

_TAU = {"viscosity": 100.0, "simple": 0.25, "alex": 0.9}
"""Defaults of timeConstantTau, by momentumMethod."""


def learning(draft: Draft, part: Part) -> Table | None:
    """Return the learning rule, None for fixed weights.

    Source: PetaVision's `HebbianUpdater.cpp:297-844` and `MomentumUpdater.cpp:292-349`.
    """
    if not part.flag("plasticityFlag"):
        return None
    part.only("combine_dW_with_W_flag", hint="it doubles the weights in each update")
    rate, momentum, decay, follows = part.finite("dWMax"), 0.0, 0.0, False
    if part.keyword == "MomentumConn":
        rate, momentum, decay, follows = _momentum(part, rate)
    found: Table = {"type": "hebbian"} | ({"rate": rate} if rate != 1 else {})
    if part.flag("useMask"):
        found["error"] = _masked(draft, part)
    elif (post := ends(draft, part)[1]).name in draft.inside:
        found["error"] = post.name
    if not (part.flag("normalizeDw") and part.flag("sharedWeights")):
        found["average"] = "sum"
    if momentum:
        found["momentum"] = momentum
        if (previous := _previous(draft, part)) is not None:
            found["previous"] = previous
    if decay:
        found["decay"] = decay
        found |= {"decay_follows_rate": True} if follows else {}
    if "batchPeriod" in part.kind.keys and (period := part.whole("batchPeriod")) != 1:
        if period < 1:
            part.refuse("batchPeriod", "this is not a number of updates", str(period))
        found["accumulate"] = period
    if not part.flag("immediateWeightUpdate"):
        found["delayed"] = True
    interval = part.whole("dWMaxDecayInterval")
    if interval > 0:
        fraction = part.finite("dWMaxDecayFactor")
        if not 0 <= fraction <= 1:
            part.refuse("dWMaxDecayFactor", "this is not a fraction", f"{fraction:g}")
        # PetaVision's counter starts at 0: it decays after the first update, then every interval + 1.
        found["rate_decay"] = {"every": interval + 1, "fraction": fraction, "phase": interval}
    return found | _schedule(draft, part)


def revived(draft: Draft, part: Part) -> Table:
    """Return when features that are not active begin again. Source: PetaVision's `ImprintConn.cpp`."""
    if "imprintTimeThresh" not in part.kind.keys:
        return {}
    time, (period, _) = part.finite("imprintTimeThresh"), _period(draft, part)
    if not period:
        return {}
    pre, post = map(draft.shape, ends(draft, part))
    if pre[0] > post[0] or pre[1] > post[1]:
        part.refuse(
            "imprintTimeThresh", "features with patches on a smaller layer cannot begin again",
            hint="HyPerConn learns the same without it",
        )  # fmt: skip
    updates = 100 if time == -1 else Clock(period).complete(draft.steps(part, "imprintTimeThresh", time))
    part.differs(
        "features that are not active begin again with new random weights, not with the mean of "
        "what the post layer shows"
    )
    return {"revive": {"after": max(0, updates) + 1}}


def _masked(draft: Draft, part: Part) -> str:
    """Add a layer of what is learned from, the post layer where a mask is not zero; return its name."""
    _, post = ends(draft, part)
    mask = draft.named(part, "maskLayerName", "layer")
    sizes, wanted = draft.shape(mask), draft.shape(post)
    if part.whole("maskFeatureIdx") >= 0 and sizes[2] > 1:
        part.refuse(
            "maskFeatureIdx", "one feature of a mask is not supported", hint="a layer of this feature"
        )
    if sizes not in (wanted, [*wanted[:2], 1]):
        part.refuse("maskLayerName", "the mask has another shape", str(sizes), str(wanted))
    name = draft.unused(f"{post.name}_masked_by_{mask.name}")
    if name not in draft.layers:
        draft.add("layers", part, {"type": "mask", "shape": wanted}, name)
        link: Table = {"type": "identity", "pre": post.name, "post": name}
        draft.add("connections", part, link, f"{post.name}To{name}")
        link = {"type": "identity", "pre": mask.name, "post": name, "channel": "mask"}
        if sizes != wanted:
            link |= {"type": "conv", "patch": [1, 1], "init": {"type": "constant", "value": 1.0}}
        draft.add("connections", part, link, f"{mask.name}To{name}")
    part.differs("what the mask leaves out counts in averages as 0")
    return name


def _momentum(part: Part, rate: float) -> tuple[float, float, float, bool]:
    method = part.choice("momentumMethod", {name: name for name in _TAU})
    older, tau = part.optional_number("momentumTau"), part.optional_number("timeConstantTau")
    value = older if older is not None else _TAU[method] if tau is None else tau
    momentum = (math.exp(-1 / value) if value else 0.0) if method == "viscosity" else value
    if not 0 <= momentum <= 1 or value < 0:
        part.refuse("timeConstantTau", "this is not a momentum", f"{value:g}")
    decay = part.finite("momentumDecay")
    if decay < 0:
        part.refuse("momentumDecay", "this is not a decay", f"{decay:g}")
    if older is not None and momentum == 1:
        part.refuse("momentumTau", "a momentum of 1 is not supported", f"{value:g}")
    if older is not None:  # the former parameter omits the factor 1 - f
        rate /= 1 - momentum
        decay *= 1 - momentum if method == "alex" else 1
    return rate, momentum, decay, method == "alex"


def _previous(draft: Draft, part: Part) -> Table | None:
    """Return the initialiser of the previous change."""
    if (checkpoint := draft.from_checkpoint(part, "prev_dW.pvp")) is not None:
        return {"type": "file", "path": checkpoint}
    file = part.optional_text("initPrev_dWFile")
    if file is None:
        return None
    return {"type": "file", "path": draft.files.named(file), "frame": part.whole("prev_dWFrameNumber")}


def _schedule(draft: Draft, part: Part) -> Table:
    """Return when the weights are updated; with a trigger, at the steps asked for by it."""
    period, offset = _period(draft, part)
    every = draft.every(period)
    return ({"every": every} if every != "display" else {}) | ({"offset": offset} if offset else {})


def _period(draft: Draft, part: Part) -> tuple[int, int]:
    """Return (period, offset) of the updates in steps; period 0 for never."""
    if part.optional_text("triggerLayerName") is None:
        time = part.finite("weightUpdatePeriod")
        if time <= 0:
            return 0, 0
        period = max(1, draft.steps(part, "weightUpdatePeriod", time))
        start = part.finite("initialWeightUpdateTime")
        if start > time:
            part.differs("initialWeightUpdateTime is only a phase, as in PetaVision")
        return period, Clock(period).under_way(draft.steps(part, "initialWeightUpdateTime", start))
    period, offset = draft.trigger(part)
    offset += 1
    return period, offset if period and not fires(period, offset) else 0
