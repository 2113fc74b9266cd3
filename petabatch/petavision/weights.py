"""PetaVision's initial weights and their normalisation."""

from __future__ import annotations

import math

from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.keys.connections import INIT
from petabatch.petavision.part import Part

ONE_TO_ONE = ("OneToOneWeights", "IdentWeight")

_INSTEAD = {
    "CoCircWeight": "initWeightsFile, with weights that have been computed",
    "SmartWeight": "initWeightsFile, with weights that have been computed",
}
"""What to use in place of weights that are not supported."""


def init(draft: Draft, part: Part, pre: Part, post: Part) -> Table:
    """Return the initialiser of the weights."""
    if (checkpoint := draft.from_checkpoint(part, "W.pvp")) is not None:
        part.read |= INIT.keys()
        return {"type": "file", "path": checkpoint}
    if draft.files.checkpoint is not None:
        part.differs(f"{draft.files.checkpoint} has no {part.title}_W.pvp: it starts from weightInitType")
    file = part.optional_text("initWeightsFile")
    if file is not None:
        return {"type": "file", "path": draft.files.named(file), "frame": part.whole("frameNumber")}
    kinds = (
        "UniformRandomWeight", "GaussianRandomWeight", "DiscreteUniformRandomWeight", "UniformWeight",
        "Gauss2DWeight", "SpreadOverArborsWeight", "OneToOneWeightsWithDelays", "FileWeight", *ONE_TO_ONE,
    )  # fmt: skip
    kind = part.choice("weightInitType", {name: name for name in kinds}, _INSTEAD)
    if kind == "FileWeight":
        part.refuse("initWeightsFile", "the parameter initWeightsFile is missing")
    if kind == "UniformWeight":
        found: Table = {"type": "constant", "value": _weight(part, 0.0)}
        return found | ({"same_feature": True} if part.flag("connectOnlySameFeatures") else {})
    if kind in ONE_TO_ONE:
        value = 1.0 if kind == "IdentWeight" else _weight(part, 1.0)
        return {"type": "constant", "value": value, "same_feature": True}
    if kind == "OneToOneWeightsWithDelays":
        value = _weight(part, 1.0)
        found = {"type": "petavision_one_to_one"}
        return found | ({"value": value} if value != 1 else {})
    if kind == "Gauss2DWeight":
        return _gauss(draft, part, pre, post)
    if kind == "SpreadOverArborsWeight":
        value = _weight(part, 1.0)
        found = {"type": "petavision_sectors", **_directed(draft, part, pre, post)}
        return found | ({"value": value} if value != 1 else {})
    part.differs("the random weights are others")
    if kind == "DiscreteUniformRandomWeight":
        low, high, levels = part.finite("wMin"), part.finite("wMax"), part.whole("numValues")
        if high < low or levels < 2:
            part.refuse("numValues", "this is not a range of values", f"{levels} from {low:g} to {high:g}")
        return {"type": "uniform", "low": low, "high": high, "levels": levels}
    if kind == "UniformRandomWeight":
        low, high = part.finite("wMinInit"), part.finite("wMaxInit")
        if high < low:
            part.refuse("wMaxInit", "this is not a range", f"{low:g} to {high:g}")
        sparse = part.finite("sparseFraction")
        if not 0 <= sparse <= 1:
            part.refuse("sparseFraction", "this is not a fraction", f"{sparse:g}")
        if (least := part.whole("minNNZ")) > 0:
            units = part.whole("nyp") * part.whole("nxp") * post.whole("nf")
            chance = chance_of_fewer(least, units, sparse)
            if chance > 1e-6:
                part.differs(f"{chance:.1%} of patches have fewer than minNNZ = {least} weights other than 0")
            else:
                part.idle("minNNZ", "no effect, as patches have as many weights other than 0")
        found = {"type": "uniform"} | ({"low": low} if low else {}) | ({"high": high} if high != 1 else {})
        return found | ({"sparsity": sparse} if sparse else {})
    mean, std = part.finite("wGaussMean"), part.finite("wGaussStdev")
    if std < 0:
        part.refuse("wGaussStdev", "this is not a standard deviation", f"{std:g}")
    return {"type": "gaussian"} | ({"mean": mean} if mean else {}) | ({"std": std} if std != 1 else {})


def chance_of_fewer(least: int, units: int, zero: float) -> float:
    """Return the probability that fewer than `least` of `units` weights are not 0, as each is with `zero`."""
    if zero in (0.0, 1.0):
        return float(zero == 1 or units < least)
    logs = (  # of the terms of a binomial distribution, whose coefficients are beyond the range of floats
        math.lgamma(units + 1) - math.lgamma(one + 1) - math.lgamma(units - one + 1)
        + one * math.log1p(-zero) + (units - one) * math.log(zero)
        for one in range(min(least, units + 1))
    )  # fmt: skip
    return sum(map(math.exp, logs))


def _weight(part: Part, default: float) -> float:
    value = part.optional_number("weightInit")
    value = default if value is None else value
    if math.isinf(value):
        part.refuse("weightInit", "the weight is infinite")
    return value


def _gauss(draft: Draft, part: Part, pre: Part, post: Part) -> Table:
    """Return the keys of oriented Gaussians; see `petabatch.weights.petavision`."""
    part.only("bowtieFlag")
    found: Table = {"type": "petavision_gaussian"}
    for key, ours, default in (
        ("aspect", "aspect", 1.0), ("sigma", "sigma", 0.8), ("rMax", "outer", 1.4), ("rMin", "inner", 0.0),
        ("flankShift", "shift", 0.0), ("strength", "strength", 1.0),
    ):  # fmt: skip
        value = part.number(key)
        if value != default:
            found[ours] = min(value, 1e30)
    if part.whole("numFlanks") > 1:
        found["flanks"] = part.whole("numFlanks")
    return found | _directed(draft, part, pre, post)


def _directed(draft: Draft, part: Part, pre: Part, post: Part) -> Table:
    """Return the keys of weights by distance and direction."""
    ratio = [a / b for a, b in zip(draft.shape(pre)[:2], draft.shape(post)[:2], strict=True)]
    found: Table = {"units": ratio[1]} if ratio[1] != 1 else {}
    for key, ours, default in (
        ("deltaThetaMax", "within", 2 * math.pi), ("thetaMax", "angles", 1.0), ("rotate", "rotate", 0.0),
    ):  # fmt: skip
        value = part.number(key)
        if value != default:
            found[ours] = min(value, 1e30)
    for key, ours in (("numOrientationsPre", "directions_pre"), ("numOrientationsPost", "directions_post")):
        if count := part.optional_whole(key):
            found[ours] = count
    return found


def normalize(draft: Draft, part: Part, pre: Part, post: Part) -> Table | None:
    """Return the normaliser, None for none.

    Source: PetaVision's `normalizers/`.
    """
    methods = {
        "": None,
        "none": None,
        "normalizeL2": "l2",
        "normalizeMax": "max",
        "normalizeSum": "sum",
        "normalizeContrastZeroMean": "contrast_zero_mean",
        "normalizeGroup": "group",
    }
    kind = part.choice("normalizeMethod", methods)
    if kind is None:
        return None
    if kind == "group":
        draft.named(part, "normalizeGroupName", "connection")
        return None
    strength = part.finite("strength")
    if part.flag("normalizeFromPostPerspective"):
        sizes = [math.prod(draft.shape(layer)) for layer in (post, pre)]
        strength *= sizes[0] / sizes[1]
        if sizes[0] == sizes[1]:
            part.idle("normalizeFromPostPerspective", "the layers have equally many units")
    if strength <= 0:
        part.refuse("strength", "this is not a positive number", f"{strength:g}")
    trimmed = _trimmed(part) if kind in ("l2", "max") else {}
    tolerated = {"l2": "minL2NormTolerated", "max": "minMaxTolerated"}.get(kind, "minSumTolerated")
    part.only(tolerated, hint="0: only patches of zeros are left unchanged")
    if "symmetrizeWeights" in part.group.entries:
        part.only("symmetrizeWeights")
    found: Table = {"type": kind} | ({"strength": strength} if strength != 1 else {}) | trimmed
    if not part.flag("normalizeOnInitialize"):
        found["at_start"] = False
    if not part.flag("normalizeOnWeightUpdate"):
        found["at_updates"] = False
    return found


def _trimmed(part: Part) -> Table:
    """Return the keys of weights that are set to zero. Source: PetaVision's `NormalizeMultiply.cpp`."""
    found: Table = {}
    radii = [part.finite("rMinY"), part.finite("rMinX")]
    if min(radii) > 0.5:
        sizes = [part.whole("nyp"), part.whole("nxp")]
        full = [math.floor(2 * radius) for radius in radii]
        if any(width > size for width, size in zip(full, sizes, strict=True)):
            part.refuse("rMinX", "this is more than the patch", f"{radii[1]:g}, {radii[0]:g}")
        hole = [size - 2 * math.ceil((size - width) / 2) for size, width in zip(sizes, full, strict=True)]
        found |= {"hole": hole} if min(hole) > 0 else {}
    if "hole" not in found:
        for key in ("rMinX", "rMinY"):
            part.idle(key, "no effect on patches of this size, as both must be above 0.5")
    if part.flag("nonnegativeConstraintFlag"):
        found["nonnegative"] = True
    if cutoff := part.finite("normalize_cutoff"):
        if cutoff < 0:
            part.refuse("normalize_cutoff", "this is negative", f"{cutoff:g}")
        found["cutoff"] = cutoff
    return found


def join_groups(draft: Draft) -> None:
    """Add connections of the method normalizeGroup to the normaliser of their group."""
    for part in draft.of_role("connection"):
        if "normalizeMethod" not in part.kind.keys or part.name not in draft.connections:
            continue
        if (part.optional_text("normalizeMethod") or "").lower() != "normalizegroup":
            continue
        leader = draft.connections.get(part.text("normalizeGroupName"), {}).get("normalize")
        if leader is None:
            part.refuse(
                "normalizeGroupName", "this connection is not normalised", part.text("normalizeGroupName")
            )
        leader.setdefault("together", []).append(part.name)


def keep_norms(draft: Draft) -> None:
    """Leave weights that go on from a checkpoint as they are: they were normalised in the run that wrote it.

    To do so again would change weights that are not shared where patches are cut: what is beyond the edge
    counts in their norm, but is 0 in the file.
    """
    for name, table in draft.connections.items() if draft.files.checkpoint is not None else ():
        part, norm = draft.origin["connections", name], table.get("normalize")
        if norm is None or draft.from_checkpoint(part, "W.pvp") is None:
            continue
        if any("learn" in draft.connections[one] for one in (name, *norm.get("together", ()))):
            table["normalize"] = norm | {"at_start": False}
            if not part.flag("sharedWeights"):
                part.differs("norms leave out the weights beyond the edge, which are not in the checkpoint")
        else:
            del table["normalize"]
