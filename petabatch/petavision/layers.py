"""PetaVision's layers as petabatch's: types, transfer functions, initial states, triggers, output."""

from __future__ import annotations

import math
from collections.abc import Callable

from petabatch.clock import Clock, fires
from petabatch.petavision import labels, of_others
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.images import source
from petabatch.petavision.part import Part
from petabatch.petavision.probes import followed
from petabatch.petavision.states import initial, started
from petabatch.petavision.transfer import curve, transfer


def layers(draft: Draft, part: Part) -> None:
    """Add the table of a layer, and its output."""
    part.whole("phase")
    if part.keyword == "PoolingIndexLayer":
        part.left_out.append(f"un-pooling finds the places of maxima {draft.shape(part)} itself")
        return
    keys = curve(part, "hard") if part.keyword in _BEFORE_TRANSFER else None
    if keys is not None:
        draft.inside[part.name] = draft.unused(f"{part.name}_before")
    table: Table = {"type": "", "shape": draft.shape(part)}
    table |= KINDS[part.keyword](draft, part)
    border: Table = {"border": "mirror"} if part.flag("mirrorBCflag") else {}
    when: Table = {}
    if (trigger := part.kind.keys.get("triggerLayerName")) is not None and trigger.becomes:
        when = _trigger(draft, part)
    if keys is None:
        draft.add("layers", part, table | border | when)
    else:
        _transferred(draft, part, table | when, keys, border)
    if output := recorded(draft, part):
        draft.layer_output[part.name] = output


def _transferred(draft: Draft, part: Part, table: Table, keys: Table, border: Table) -> None:
    """Add a layer whose class has a transfer function of its own: it follows a layer without."""
    if part.keyword in ("MaskLayer", "DropoutLayer") and transfer(keys, 0.0) != 0:
        part.refuse(
            "VThresh", f"a transfer function of a {part.keyword} that is not 0 at 0 is not supported",
            hint="an ANNLayer with it before this layer",
        )  # fmt: skip
    inside = draft.entry(part)
    draft.add("layers", part, table, inside)
    every: Table = {key: table[key] for key in ("every", "offset") if "every" in table and key in table}
    after: Table = {"type": "rectified", "shape": table["shape"], **keys, **border, **every}
    draft.add("layers", part, after)
    link: Table = {"type": "identity", "pre": inside, "post": part.name}
    draft.add("connections", part, link, f"{inside}To{part.name}")


def recorded(draft: Draft, part: Part) -> Table | None:
    """Return the schedule of the output of a layer or connection, None if it is not written."""
    every = part.optional_number("writeStep")
    first = part.number("initialWriteTime")
    if every is None:
        every = draft.dt
    if every < 0 or math.isinf(every) or first > Clock(dt=draft.dt).time(draft.length):
        return None
    period = max(1, draft.steps(part, "writeStep", every))
    start = draft.steps(part, "initialWriteTime", max(0.0, first))
    if not fires(period, start):
        part.differs(
            f"written in steps {period}, {2 * period}, ... instead of {start}, {start + period}, ..."
        )
    elif start > period:
        part.differs(f"written from step {period} on instead of {start}")
    return {"every": draft.every(period)}


def _trigger(draft: Draft, part: Part) -> Table:
    """Return the keys of a layer's trigger."""
    if part.optional_text("triggerLayerName") is None:
        return {}
    behaviour = part.choice(
        "triggerBehavior",
        {"updateOnlyOnTrigger": "every", "resetStateOnTrigger": "reset", "ignore": "", "": "every"},
    )
    if not behaviour:
        return {}
    period, offset = draft.trigger(part)
    if behaviour == "every" and period == 1:
        return {}
    found: Table = {behaviour: draft.every(period)}
    if period and not fires(period, offset):
        found["offset"] = offset
    if behaviour == "reset":
        found["reset_to"] = draft.named(part, "triggerResetLayerName", "layer").name
    return found


def _linear(draft: Draft, part: Part) -> Table:
    return {"type": "linear"}


def _ann(draft: Draft, part: Part) -> Table:
    keys = curve(part, "hard")
    return {"type": "linear"} if keys is None else {"type": "rectified", **keys}


def _error(draft: Draft, part: Part) -> Table:
    scale, keys = part.finite("errScale"), curve(part, "hard")
    if keys is None:
        return {"type": "linear"} | ({"scale": scale} if scale != 1 else {})
    if scale != 1:
        part.differs("errScale is the strength of its connections, as it is before the threshold")
    return {"type": "rectified", **keys}


def _lca(kind: str) -> Callable[[Draft, Part], Table]:
    def table(draft: Draft, part: Part) -> Table:
        tau, probe = part.finite("timeConstantTau"), part.optional_text("adaptiveTimeScaleProbe")
        if tau <= 0:
            part.refuse("timeConstantTau", "the time constant is not positive", found=f"{tau:g}")
        if probe is not None and not followed(draft, draft.named(part, "adaptiveTimeScaleProbe", "probe")):
            probe = None
        if probe is None and draft.dt != 1:
            part.differs(f"tau is timeConstantTau / dt: PetaVision's decay is exp(-dt^2 / {tau:g})")
            tau = Clock(dt=draft.dt).steps(tau)
        keys = curve(part, "soft")
        found: Table = {"type": kind} | ({"tau": tau} if tau != 100 else {})
        found |= {"vertices": [[0.0, 0.0]], "slopes": [1.0, 1.0]} if keys is None else keys
        if kind != "ista" and not part.flag("selfInteract"):
            found["self_interact"] = False
        if kind == "momentum_lca" and (rate := part.finite("LCAMomentumRate")):
            found["rate"] = rate
            part.differs("the fixed point is not that of the LCA, as in PetaVision; heavy_ball has it")
        return found | started(draft, part)

    return table


def _constant(draft: Draft, part: Part) -> Table:
    found = initial(draft, part)
    if isinstance(found, dict):
        return {"type": "constant", "start": {"A": found}}
    return {"type": "constant"} | ({"value": found} if found else {})


def _leaky(draft: Draft, part: Part) -> Table:
    tau = part.number("integrationTime")
    if tau <= 0:
        part.refuse("integrationTime", "the time constant is not positive", found=f"{tau:g}")
    found: Table = {"type": "leaky_integrator"} | ({"tau": min(tau, 1e38)} if tau != 100 else {})
    return found | started(draft, part, default=0.0)


def _plain(kind: str) -> Callable[[Draft, Part], Table]:
    def table(draft: Draft, part: Part) -> Table:
        return {"type": kind}

    return table


def _dropout(draft: Draft, part: Part) -> Table:
    probability = part.finite("probability")
    if not 0 <= probability <= 100:
        part.refuse("probability", "this is not a probability in per cent", found=f"{probability:g}")
    return {"type": "dropout", "probability": probability / 100}


def _noise(draft: Draft, part: Part) -> Table:
    mean, std = part.finite("mu"), part.finite("sigma")
    found: Table = {"type": "gaussian_noise"} | ({"mean": mean} if mean else {})
    return found | ({"std": std} if std != 1 else {})


def _retina(draft: Draft, part: Part) -> Table:
    """Return the keys of spikes that follow the input. Source: PetaVision's `RetinaActivityBuffer.cpp`."""
    found: Table = {"type": "retina"} | ({} if part.flag("spikingFlag") else {"spikes": False})
    for key, ours, default in (
        ("foregroundRate", "rate", 1.0), ("backgroundRate", "background", 0.0),
        ("absRefractoryPeriod", "refractory", 3.0), ("refractoryPeriod", "recovery", 5.0),
        ("beginStim", "begin", 0.0), ("burstFreq", "burst_rate", 1.0),
        ("burstDuration", "burst_duration", 1000.0),
    ):  # fmt: skip
        value = part.finite(key)
        if value < 0 and not ours.startswith(("burst", "begin")):
            part.refuse(key, "this is negative", f"{value:g}")
        if value != default and (found.get("spikes", True) or ours not in ("refractory", "recovery")):
            found[ours] = max(0.0, value) if ours == "begin" else value
    end = part.number("endStim")
    if 0 <= end < math.inf:
        found["end"] = end
    if part.flag("spikingFlag"):
        part.differs("the random numbers are others")
    if part.finite("backgroundRate"):
        part.differs("its activity in step 0 is 0")
    return found


def _lif(draft: Draft, part: Part) -> Table:
    method = part.choice(
        "method", {"arma": "arma", "beginning": "heun", "a": "arma", "b": "heun", "": "arma"}
    )
    if part.keyword == "LIFGap" and method == "arma":
        method = "arma_gap"
    found: Table = {"type": "conductance_lif", "method": method}
    found |= {
        "tau": part.finite("tau"),
        "rest": part.finite("Vrest"),
        "reversal": [part.finite(key) for key in ("Vexc", "Vinh", "VinhB")],
        "decay": [part.finite(key) for key in ("tauE", "tauI", "tauIB")],
        "threshold": part.finite("VthRest"),
        "recovery": part.finite("tauVth"),
        "fatigue": part.finite("deltaVth"),
        "after": part.finite("deltaGIB"),
        "noise": [part.finite(f"noiseAmp{channel}") for channel in ("E", "I", "IB")],
        "noise_rate": [part.finite(f"noiseFreq{channel}") for channel in ("E", "I", "IB")],
    }
    if any(found["noise"]):
        part.differs("the random numbers are others")
    defaults: Table = {
        "method": "arma", "tau": 20.0, "rest": -70.0, "reversal": [0.0, -75.0, -90.0],
        "decay": [1.0, 5.0, 10.0], "threshold": -55.0, "recovery": 10.0, "fatigue": 5.0, "after": 1.0,
        "noise": [0.0] * 3, "noise_rate": [250.0] * 3,
    }  # fmt: skip
    found |= started(draft, part, default=found["rest"])
    return {key: value for key, value in found.items() if value != defaults.get(key)}


def _input(draft: Draft, part: Part) -> Table:
    return {"type": "input", **source(draft, part)}


_BEFORE_TRANSFER = (
    "LeakyIntegrator",
    "PtwiseProductLayer",
    "PtwiseQuotientLayer",
    "ANNSquaredLayer",
    "MaskLayer",
    "DropoutLayer",
)
"""Classes that are types without a transfer function here."""
KINDS: dict[str, Callable[[Draft, Part], Table]] = {
    "HyPerLayer": _linear,
    "ANNLayer": _ann,
    "ANNErrorLayer": _error,
    "HyPerLCALayer": _lca("lca"),
    "MomentumLCALayer": _lca("momentum_lca"),
    "ISTALayer": _lca("ista"),
    "ConstantLayer": _constant,
    "LeakyIntegrator": _leaky,
    "PtwiseProductLayer": _plain("product"),
    "PtwiseQuotientLayer": _plain("quotient"),
    "ANNSquaredLayer": _plain("squared"),
    "MaskLayer": of_others.mask,
    "RescaleLayer": of_others.rescale,
    "DropoutLayer": _dropout,
    "GaussianNoiseLayer": _noise,
    "NoiseLayer": of_others.noise,
    "LIF": _lif,
    "LIFGap": _lif,
    "Retina": _retina,
    "FirmThresholdCostLayer": of_others.firm_cost,
    "DependentFirmThresholdCostLayer": of_others.firm_cost,
    "BinningLayer": of_others.bins,
    "BackgroundLayer": of_others.background,
    "WTALayer": of_others.winner,
    "CloneVLayer": of_others.clone,
    "GapLayer": of_others.gap,
    "SigmoidLayer": of_others.sigmoid,
    "InputRegionLayer": of_others.region,
    "FilenameParsingLayer": labels.parsed,
    "LabelLayer": labels.numbered,
    "ImageLayer": _input,
    "PvpLayer": _input,
}
