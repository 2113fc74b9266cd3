"""PetaVision's layers as petabatch's: types, transfer functions, initial states, triggers, output."""

from __future__ import annotations

import math
from collections.abc import Callable

from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.images import source
from petabatch.petavision.part import Part
from petabatch.petavision.states import initial, started
from petabatch.petavision.transfer import curve


def layers(draft: Draft, part: Part) -> None:
    """Add the table of a layer, and its output."""
    table: Table = {"type": "", "shape": draft.shape(part)}
    table |= _KINDS[part.keyword](draft, part)
    if part.flag("mirrorBCflag"):
        table["border"] = "mirror"
    part.read.add("phase")
    part.idle("triggerFlag", "obsolete; triggerLayerName alone counts")
    if part.number("valueBC") and not part.flag("mirrorBCflag"):
        part.differs(
            f"valueBC = {part.number('valueBC'):g} has no effect in PetaVision; ours: border = NUMBER"
        )
    if not draft.is_input(part):
        table |= _trigger(draft, part)
    draft.add("layers", part, table)
    if output := recorded(draft, part):
        draft.layer_output[part.name] = output


def recorded(draft: Draft, part: Part) -> Table | None:
    """Return the schedule of the output of a layer or connection, None if it is not written."""
    every = part.optional_number("writeStep")
    first = part.number("initialWriteTime")
    if every is None:
        every = draft.dt
    if every < 0 or math.isinf(every) or first > draft.length * draft.dt:
        return None
    period = max(1, draft.steps(part, "writeStep", every))
    start = draft.steps(part, "initialWriteTime", max(0.0, first))
    if start % period:
        part.differs(
            f"written in steps {period}, {2 * period}, ... instead of {start}, {start + period}, ..."
        )
    elif start > period:
        part.differs(f"written from step {period} on instead of {start}")
    return {"every": draft.every(period)}


def _trigger(draft: Draft, part: Part) -> Table:
    """Return the keys of a layer's trigger."""
    part.read.add("triggerFlag")
    if part.optional_text("triggerLayerName") is None:
        return {}
    behaviour = part.choice(
        "triggerBehavior",
        {"updateOnlyOnTrigger": "every", "resetStateOnTrigger": "reset", "ignore": "", "": "every"},
    )
    if not behaviour:
        return {}
    period, offset = draft.trigger(part)
    if part.keyword == "ConstantLayer":
        return {}
    if behaviour == "every" and period == 1:
        return {}
    found: Table = {behaviour: draft.every(period)}
    if period and offset % period:
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
        part.refuse(
            "errScale",
            "a factor together with a threshold is not supported",
            hint="strength of its connections",
        )
    return {"type": "rectified", **keys}


def _lca(kind: str) -> Callable[[Draft, Part], Table]:
    def table(draft: Draft, part: Part) -> Table:
        tau, probe = part.finite("timeConstantTau"), part.optional_text("adaptiveTimeScaleProbe")
        if tau <= 0:
            part.refuse("timeConstantTau", "the time constant is not positive", found=f"{tau:g}")
        if probe is None and draft.dt != 1:
            part.differs(f"tau is timeConstantTau / dt: PetaVision's decay is exp(-dt^2 / {tau:g})")
            tau /= draft.dt
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
    _plain_activity(part)
    tau = part.number("integrationTime")
    if tau <= 0:
        part.refuse("integrationTime", "the time constant is not positive", found=f"{tau:g}")
    found: Table = {"type": "leaky_integrator"} | ({"tau": min(tau, 1e38)} if tau != 100 else {})
    return found | started(draft, part, default=0.0)


def _plain_activity(part: Part) -> None:
    if curve(part, "hard") is not None:
        part.refuse(
            "VThresh",
            f"a transfer function of a {part.keyword} is not supported",
            hint="an ANNLayer with it, after an IdentConn from this layer",
        )


def _plain(kind: str) -> Callable[[Draft, Part], Table]:
    def table(draft: Draft, part: Part) -> Table:
        _plain_activity(part)
        return {"type": kind}

    return table


def _mask(draft: Draft, part: Part) -> Table:
    _plain_activity(part)
    method = part.choice(
        "maskMethod",
        {
            "layer": (False, False),
            "invertLayer": (False, True),
            "maskFeatures": (True, True),
            "noMaskFeatures": (True, False),
        },
    )
    by_features, invert = method
    found: Table = {"type": "mask"}
    if by_features:
        features = part.numbers("featureIdxs")
        if any(not (f.is_integer() and 0 <= f < part.whole("nf")) for f in features):
            part.refuse("featureIdxs", "these are not features of the layer", str(list(features)))
        found["features"] = [int(f) for f in features]
    else:
        mask = draft.named(part, "maskLayerName", "layer")
        table: Table = {"type": "identity", "pre": mask.name, "post": part.name, "channel": "mask"}
        if draft.shape(mask) != draft.shape(part):
            if draft.shape(mask) != [*draft.shape(part)[:2], 1]:
                part.refuse("maskLayerName", "the mask has another shape", str(draft.shape(mask)))
            table |= {"type": "conv", "patch": [1, 1], "init": {"type": "constant", "value": 1.0}}
        _reads(draft, part, mask, table)
    return found | ({"invert": True} if invert else {})


def _rescale(draft: Draft, part: Part) -> Table:
    """Return a normalisation. Source: PetaVision's `RescaleActivityBuffer.cpp`."""
    methods: dict[str, Table] = {
        "maxmin": {"method": "range"},
        "meanstd": {"method": "standard"},
        "pointmeanstd": {"method": "standard", "over": "features"},
        "softmax": {"method": "softmax", "over": "features"},
        "pointResponseNormalization": {"method": "length", "over": "features"},
        "l2": {"method": "standard"},
        "l2NoMean": {"method": "length"},
        "logreg": {"type": "sigmoid", "invert": True},
        # The last of the vertices at 0 holds there; the next positive number is above the third.
        "zerotonegative": {
            "type": "rectified",
            "vertices": [[0.0, 0.0], [0.0, -1.0], [1e-38, 1e-38]],
            "slopes": [1.0, 1.0],
        },
    }
    kind = part.choice("rescaleMethod", {name: name for name in methods})
    numbers = {
        "maxmin": (("targetMin", "low", -1.0), ("targetMax", "high", 1.0)),
        "meanstd": (("targetMean", "mean", 0.0), ("targetStd", "deviation", 1.0)),
    }
    numbers["pointmeanstd"] = numbers["meanstd"]
    found: Table = {"type": "rescale"} | methods[kind]
    for key, ours, default in numbers.get(kind, ()):
        if (value := part.finite(key)) != default:
            found[ours] = value
    if kind in ("l2", "l2NoMean"):
        size = part.whole("patchSize")
        if size < 1:
            part.refuse("patchSize", "this is not a number of units", str(size))
        units = math.prod(draft.shape(part)) if kind == "l2NoMean" else 1
        if size != units:
            found["norm" if kind == "l2NoMean" else "deviation"] = math.sqrt(units / size)
    original = draft.named(part, "originalLayerName", "layer")
    _reads(draft, part, original, {"type": "identity", "pre": original.name, "post": part.name})
    return found


def _reads(draft: Draft, part: Part, other: Part, table: Table) -> None:
    """Add the connection by which a layer reads another one, which PetaVision does without."""
    if other.whole("phase") >= part.whole("phase"):
        table["feedback"] = True
    draft.add("connections", part, table, f"{other.name}To{part.name}")


def _dropout(draft: Draft, part: Part) -> Table:
    _plain_activity(part)
    probability = part.finite("probability")
    if not 0 <= probability <= 100:
        part.refuse("probability", "this is not a probability in per cent", found=f"{probability:g}")
    return {"type": "dropout", "probability": probability / 100}


def _noise(draft: Draft, part: Part) -> Table:
    mean, deviation = part.finite("mu"), part.finite("sigma")
    found: Table = {"type": "gaussian_noise"} | ({"mean": mean} if mean else {})
    return found | ({"deviation": deviation} if deviation != 1 else {})


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


def _firm_cost(draft: Draft, part: Part) -> Table:
    """Return the keys of a cost, with the thresholds of another layer where it has none of its own."""
    of = part if "VThresh" in part.kind.keys else draft.named(part, "originalLayerName", "layer")
    if "VThresh" not in of.kind.keys:
        part.refuse("originalLayerName", "this layer has no threshold", of.keyword)
    corner = of.finite("VThresh") + of.finite("VWidth")
    if corner <= 0:
        part.refuse("VThresh", "the threshold of the cost is not positive", f"{corner:g}")
    return {"type": "firm_cost", "corner": corner}


def _bins(draft: Draft, part: Part) -> Table:
    """Return the keys of bins. Source: PetaVision's `BinningActivityBuffer.cpp`."""
    original = draft.named(part, "originalLayerName", "layer")
    if draft.shape(original) != [*draft.shape(part)[:2], 1]:
        part.refuse("originalLayerName", "bins are those of one feature", str(draft.shape(original)))
    low, high, width = part.finite("binMin"), part.finite("binMax"), part.finite("binSigma")
    if low >= high or width < 0:
        part.refuse("binMax", "this is not a range", f"{low:g} to {high:g}")
    link: Table = {"type": "conv", "pre": original.name, "post": part.name, "patch": [1, 1]}
    link["init"] = {"type": "constant", "value": 1.0}
    if delay := part.whole("delay"):
        link["delay"] = delay
    _reads(draft, part, original, link)
    found: Table = {"type": "bins"} | ({"low": low} if low else {}) | ({"high": high} if high != 1 else {})
    found |= {"width": width} if width else {}
    part.idle("normalDist", "no effect, as in PetaVision")
    if not part.flag("zeroNeg"):
        found["outside"] = -1.0
    return found | ({"zero_unknown": True} if part.flag("zeroDCR") else {})


def _lif(draft: Draft, part: Part) -> Table:
    method = part.choice(
        "method", {"arma": "arma", "beginning": "heun", "a": "arma", "b": "heun", "": "arma"}
    )
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


_KINDS: dict[str, Callable[[Draft, Part], Table]] = {
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
    "MaskLayer": _mask,
    "RescaleLayer": _rescale,
    "DropoutLayer": _dropout,
    "GaussianNoiseLayer": _noise,
    "LIF": _lif,
    "LIFGap": _lif,
    "Retina": _retina,
    "FirmThresholdCostLayer": _firm_cost,
    "DependentFirmThresholdCostLayer": _firm_cost,
    "BinningLayer": _bins,
    "ImageLayer": _input,
    "PvpLayer": _input,
}
