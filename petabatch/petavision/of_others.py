"""Layers of PetaVision that are functions of another one, which they name instead of having a connection."""

from __future__ import annotations

import math

from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.images import source
from petabatch.petavision.part import Part
from petabatch.petavision.states import initial
from petabatch.petavision.transforms import frame_of

_WITH_POTENTIAL = ("lca", "momentum_lca", "ista", "leaky_integrator", "conductance_lif")
"""Types whose potential another layer can be given."""


def mask(draft: Draft, part: Part) -> Table:
    """Return the keys of a mask: by the units of another layer, or by features."""
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
        table: Table = {"type": "identity", "pre": mask.name, "post": draft.entry(part), "channel": "mask"}
        if draft.shape(mask) != draft.shape(part):
            if draft.shape(mask) != [*draft.shape(part)[:2], 1]:
                part.refuse("maskLayerName", "the mask has another shape", str(draft.shape(mask)))
            table |= {"type": "conv", "patch": [1, 1], "init": {"type": "constant", "value": 1.0}}
        _reads(draft, part, mask, table)
    return found | ({"invert": True} if invert else {})


def rescale(draft: Draft, part: Part) -> Table:
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
        "meanstd": (("targetMean", "mean", 0.0), ("targetStd", "std", 1.0)),
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
            found["norm" if kind == "l2NoMean" else "std"] = math.sqrt(units / size)
    original = draft.named(part, "originalLayerName", "layer")
    _reads(draft, part, original, {"type": "identity", "pre": original.name, "post": part.name})
    return found


def noise(draft: Draft, part: Part) -> Table:
    """Return the keys of noise that is added to the activity of another layer."""
    original = draft.named(part, "originalLayerName", "layer")
    if draft.shape(original) != draft.shape(part):
        part.refuse("originalLayerName", "the original has another shape", str(draft.shape(original)))
    _reads(draft, part, original, {"type": "identity", "pre": original.name, "post": part.name})
    part.differs("the random numbers are others")
    mean, std = part.finite("mean"), part.finite("stdDev")
    found: Table = {"type": "gaussian_noise"} | ({"mean": mean} if mean else {})
    return found | ({"std": std} if std != 1 else {})


def firm_cost(draft: Draft, part: Part) -> Table:
    """Return the keys of a cost, with the thresholds of another layer where it has none of its own."""
    of = part if "VThresh" in part.kind.keys else draft.named(part, "originalLayerName", "layer")
    if "VThresh" not in of.kind.keys:
        part.refuse("originalLayerName", "this layer has no threshold", of.keyword)
    corner = of.finite("VThresh") + of.finite("VWidth")
    if corner <= 0:
        part.refuse("VThresh", "the threshold of the cost is not positive", f"{corner:g}")
    return {"type": "firm_cost", "corner": corner}


def bins(draft: Draft, part: Part) -> Table:
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
        link["delay_steps"] = delay
    _reads(draft, part, original, link)
    found: Table = {"type": "bins"} | ({"low": low} if low else {}) | ({"high": high} if high != 1 else {})
    found |= {"width": width} if width else {}
    if not part.flag("zeroNeg"):
        found["outside"] = -1.0
    return found | ({"zero_unknown": True} if part.flag("zeroDCR") else {})


def winner(draft: Draft, part: Part) -> Table:
    """Return the keys of a layer that says which feature is the largest. Source: `WTALayer.cpp`."""
    original = draft.named(part, "originalLayerName", "layer")
    ny, nx, features = draft.shape(original)
    if draft.shape(part) != [ny, nx, 1]:
        part.refuse("originalLayerName", "the original has another size", str([ny, nx]))
    low, high = part.finite("binMin"), part.finite("binMax")
    if low >= high:
        part.refuse("binMax", "this is not a range", f"{low:g} to {high:g}")
    link: Table = {"type": "largest", "pre": original.name, "post": part.name, "number": True}
    step = (high - low) / features
    _reads(draft, part, original, link | ({"strength": step} if step != 1 else {}))
    return (
        {"type": "rectified", "vertices": [[0.0, low]], "slopes": [1.0, 1.0]} if low else {"type": "linear"}
    )


def background(draft: Draft, part: Part) -> Table:
    """Return the keys of features with one of the background. Source: `BackgroundActivityBuffer.cpp`."""
    original = draft.named(part, "originalLayerName", "layer")
    copies, (ny, nx, nf) = part.whole("repFeatureNum"), draft.shape(original)
    if copies < 1 or draft.shape(part) != [ny, nx, copies * (nf + 1)]:
        part.refuse(
            "nf" if copies >= 1 else "repFeatureNum",
            "the features do not match those of the original and its background",
            f"{draft.shape(part)}, repFeatureNum {copies}",
            str([ny, nx, max(1, copies) * (nf + 1)]),
        )
    link: Table = {"type": "background", "pre": original.name, "post": part.name}
    _reads(draft, part, original, link | ({"copies": copies} if copies != 1 else {}))
    return {"type": "linear"}


def clone(draft: Draft, part: Part) -> Table:
    """Return the keys of a copy of a potential."""
    _copies(draft, part)
    return {"type": "linear"}


def sigmoid(draft: Draft, part: Part) -> Table:
    """Return the keys of a sigmoid of a potential. Source: PetaVision's `SigmoidActivityBuffer.cpp`."""
    _copies(draft, part)
    rest, threshold, alpha = (part.finite(key) for key in ("Vrest", "VthRest", "SigmoidAlpha"))
    if not 0 < alpha < 1 or alpha == 0.5:
        part.refuse("SigmoidAlpha", "the sigmoid has no finite slope", f"{alpha:g}", "between 0 and 0.5")
    width = (threshold - rest) / 4 / math.log(1 / alpha - 1)
    line = not part.flag("SigmoidFlag")
    if line:
        width *= math.log(3)
    if width == 0:
        part.refuse("VthRest", "the threshold is the resting potential", f"{threshold:g}")
    found: Table = {"type": "sigmoid", "center": (threshold + rest) / 2, "width": abs(width)}
    if part.flag("InverseFlag") != (width < 0):
        found["invert"] = True
    return found | ({"form": "line"} if line else {})


def gap(draft: Draft, part: Part) -> Table:
    """Return the keys of a potential with spikes on it. Source: PetaVision's `GapActivityBuffer.cpp`."""
    original = draft.named(part, "originalLayerName", "layer")
    if "VthRest" not in original.kind.keys or original.keyword == "SigmoidLayer":
        part.refuse("originalLayerName", "gap junctions are between neurons that spike", original.keyword)
    late = _copies(draft, part)
    if size := part.finite("ampSpikelet"):
        spikes: Table = {"type": "identity", "pre": original.name, "post": part.name, **late}
        draft.add("connections", part, spikes | {"strength": size}, f"spikesOf{original.name}To{part.name}")
    start = initial(draft, original)
    if isinstance(start, dict) and start["type"] != "file":
        part.differs("its activity in step 0 is 0, not the random potential")
        return {"type": "linear"}
    return {
        "type": "linear",
        "start": {"A": start if isinstance(start, dict) else {"type": "constant", "value": start}},
    }


def region(draft: Draft, part: Part) -> Table:
    """Return the keys of an input layer that is 1 where another one shows its images.

    Source: PetaVision's `InputActivityBuffer.cpp`, `mInputRegion`.
    """
    original = draft.named(part, "originalLayerName", "layer")
    if not draft.is_input(original):
        part.refuse("originalLayerName", "this layer shows no images", original.keyword)
    if draft.shape(original) != draft.shape(part):
        part.refuse("originalLayerName", "the original has another shape", str(draft.shape(original)))
    found = source(draft, original)
    images: Table = found["source"]
    images.pop("normalize", None)
    steps = images.pop("transforms", [])
    if "crop" in images:
        steps = [{"type": "crop", "position": images.pop("crop")}, *steps]
        steps[0] |= {"offset": images.pop("offset")} if "offset" in images else {}
    steps = [dict(step) for step in steps if step["type"] not in ("normalize", "invert")]
    at = next((number for number, step in enumerate(steps) if step["type"] == "pad"), len(steps))
    if at < len(steps) and (images.get("order") == "shuffled" or any("jitter" in step for step in steps)):
        part.refuse("originalLayerName", "the region of images in random order or places is not supported")
    for step in steps[at:]:
        step.pop("value", None)
    images["transforms"] = [*steps[:at], {"type": "region"}, *steps[at:]]
    if original.flag("useInputBCflag") and steps:
        # The original shows its image in a frame with margins; so does this layer, which need not have any.
        frame = list(frame_of(draft, original))
        for step in images["transforms"]:
            if step["type"] in ("resize", "pad"):
                step["size"] = frame
        images["transforms"].append({"type": "crop", "position": "center"})
    return {"type": "input", **found}


def _copies(draft: Draft, part: Part) -> Table:
    """Add the connection that copies the potential of another layer; return the keys of what is copied late.

    A layer that is updated later has the potential of the step before.
    """
    original = draft.named(part, "originalLayerName", "layer")
    if draft.shape(original) != draft.shape(part):
        part.refuse("originalLayerName", "the original has another shape", str(draft.shape(original)))
    kind = draft.layers.get(original.name, {}).get("type")
    if kind is None:
        part.refuse("originalLayerName", "this layer is not supported: see its group", original.name)
    updates, own = ((one.whole("phase"), draft.place[one.name]) for one in (original, part))
    late: Table = {"feedback": True} if updates > own else {}
    source = original.name
    link: Table = {"type": "identity"}
    if kind in _WITH_POTENTIAL:
        source, link = (_potential(draft, part, original), link) if late else (source, {"type": "potential"})
    elif kind not in ("linear", "constant", "input"):
        part.refuse(
            "originalLayerName",
            f"a {original.keyword} has no potential here",
            original.name,
            hint=f"a HyPerLayer with the connections of {original.name}",
        )
    link |= {"pre": source, "post": part.name, **late}
    draft.add("connections", part, link, f"{source}To{part.name}")
    return late


def _potential(draft: Draft, part: Part, original: Part) -> str:
    """Add a layer with the potential of another one in each step; return its name."""
    name = draft.unused(f"{original.name}_V")
    if name in draft.layers:
        return name
    start = initial(draft, original)
    table: Table = {"type": "linear", "shape": draft.shape(original)}
    if start:
        table["start"] = {"A": start if isinstance(start, dict) else {"type": "constant", "value": start}}
    draft.add("layers", part, table, name)
    draft.add(
        "connections",
        part,
        {"type": "potential", "pre": original.name, "post": name},
        f"{original.name}To{name}",
    )
    return name


def _reads(draft: Draft, part: Part, other: Part, table: Table) -> None:
    """Add the connection by which a layer reads another one, which PetaVision does without."""
    if other.whole("phase") >= part.whole("phase"):
        table["feedback"] = True
    draft.add("connections", part, table, f"{other.name}To{part.name}")
