"""PetaVision's probes: energies and their terms, norms, statistics, time scales."""

from __future__ import annotations

import math
from typing import NoReturn

from petabatch.clock import fires
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.part import Part

_SCALES = {"AdaptiveTimeScaleProbe": "base", "KneeTimeScaleProbe": "knee", "LogTimeScaleProbe": "log"}
_COSTS = {
    "L2NormProbe": "squares",
    "L1NormProbe": "l1",
    "L1NormLCAProbe": "l1",
    "L0NormProbe": "l0",
    "L0NormLCAProbe": "l0",
    "FirmThresholdCostFnProbe": "firm",
    "FirmThresholdCostFnLCAProbe": "firm",
}


def probes(draft: Draft, part: Part) -> None:
    """Add the table of a probe."""
    if part.keyword in _SCALES:
        return
    if part.keyword == "ColumnEnergyProbe":
        _energy(draft, part)
    elif part.keyword == "QuotientProbe":
        terms = {
            key: term(draft, draft.named(part, key, "probe"), inside=part)
            for key in ("numerator", "denominator")
        }
        draft.add("probes", part, {"type": "quotient", **terms, **_when(draft, part)})
    else:
        _layer_probe(draft, part)


def _layer_probe(draft: Draft, part: Part) -> None:
    """Add a probe of one layer, unless an energy records it."""
    energy = part.optional_text("energyProbe")
    if energy is not None:
        owner = draft.named(part, "energyProbe", "probe")
        if owner.keyword != "ColumnEnergyProbe":
            part.refuse("energyProbe", "this is not a ColumnEnergyProbe", owner.keyword)
        part.becomes.append(f"probes.{owner.name}")
        if _when(draft, part) != _when(draft, owner):
            part.differs(f"recorded whenever {owner.name} is")
        return
    layer = draft.named(part, "targetLayer", "layer")
    common = {"layer": layer.name}
    if mask := part.optional_text("maskLayerName"):
        common["mask"] = draft.find(part, "maskLayerName", mask, "layer").name
    if part.keyword in ("StatsProbe", "RequireAllZeroActivityProbe"):
        kinds = {"Activity": False, "A": False, "MembranePotential": True, "V": True}
        if part.choice("buffer", kinds) and not _identity(draft, layer):
            part.differs("statistics of the activity, not of the membrane potential")
        above = part.finite("nnzThreshold")
        if "mask" in common and part.keyword == "StatsProbe":
            part.refuse("maskLayerName", "statistics with a mask are not supported", hint="L1NormProbe")
        if part.keyword != "StatsProbe":
            part.differs("units that are not zero are counted; they do not end the run")
        kind = "statistics" if part.keyword == "StatsProbe" else "l0"
        found: Table = {"type": kind, **common} | ({"above": above} if above else {})
    else:
        found = _norm(draft, part, common)
    draft.add("probes", part, found | _when(draft, part))


def _norm(draft: Draft, part: Part, common: Table) -> Table:
    cost = term(draft, part)
    part.idle("coefficient", "a factor in energies alone")
    if part.keyword.startswith("FirmThreshold"):
        return {
            "type": "sum",
            "terms": {"cost": {**cost, "coefficient": 1.0 if cost["coefficient"] else 0.0}},
        }
    if cost["norm"] == "squares" and part.finite("exponent") != 2:
        part.differs(f"the sum of squares, not its power {part.finite('exponent') / 2:g}")
    kind = "l2" if cost["norm"] == "squares" else cost["norm"]
    return {"type": kind, **common} | ({"above": cost["above"]} if "above" in cost else {})


def term(draft: Draft, part: Part, inside: Part | None = None) -> Table:
    """Return the cost that a probe measures, with its coefficient.

    Source: PetaVision's `CostFunctions.hpp:32-49`, `VThreshEnergyProbeComponent.cpp:40`.
    """
    if part.keyword not in _COSTS:
        what = inside or part
        what.refuse("", f"{part.name} of class {part.keyword} cannot be a term of {what.name}")
    layer = draft.named(part, "targetLayer", "layer")
    found: Table = {
        "layer": layer.name,
        "norm": _COSTS[part.keyword],
        "coefficient": part.finite("coefficient"),
    }
    if mask := part.optional_text("maskLayerName"):
        found["mask"] = draft.find(part, "maskLayerName", mask, "layer").name
    if part.keyword in ("L0NormProbe", "FirmThresholdCostFnProbe"):
        if part.keyword == "L0NormProbe":
            found["above"] = part.finite("nnzThreshold")
        else:
            found |= _corner(part, part.finite("VThresh") + part.finite("VWidth"))
    if part.keyword.endswith("LCAProbe"):
        low, width = _threshold(part, layer)
        found["coefficient"] = low
        part.idle("coefficient", "the threshold of the layer is the factor")
        if part.keyword == "L0NormLCAProbe":
            found |= {"coefficient": low**2 / 2, "above": low}
        if part.keyword == "FirmThresholdCostFnLCAProbe" and width == math.inf:
            found["norm"] = "l1"  # below a corner that is never reached
        elif part.keyword == "FirmThresholdCostFnLCAProbe":
            found |= _corner(part, low + width)
    if inside is not None and found["norm"] == "squares" and part.finite("exponent") != 2:
        part.refuse("exponent", "norms in a sum are squared", f"{part.finite('exponent'):g}", "2")
    return {key: value for key, value in found.items() if (key, value) != ("above", 0.0)}


def _corner(part: Part, corner: float) -> Table:
    """Return the keys of a cost that is constant from a corner on; where that is 0, nothing has a cost."""
    if corner < 0:
        part.refuse("VThresh", "the threshold of the cost is negative", f"{corner:g}")
    if corner == 0:
        part.differs("it is 0, as the corner of its cost is")
        return {"norm": "l1", "coefficient": 0.0}
    return {"corner": corner}


def _threshold(part: Part, layer: Part) -> tuple[float, float]:
    if "VThresh" not in layer.kind.keys:
        part.refuse("targetLayer", "this layer has no threshold", layer.keyword)
    low, width = layer.finite("VThresh"), layer.number("VWidth")
    return low + min(width, 0.0), abs(width)


def _energy(draft: Draft, part: Part) -> None:
    """Add an energy: the sum of its terms, as `energy` where there is one of a residual and one of a code."""
    terms = {one.name: term(draft, one, inside=part) for one in draft.terms.get(part.name, ())}
    if not terms:
        part.left_out.append("no probe is a term of it")
        part.idle("triggerLayerName", "nothing to record")
        return
    squares = [cost for cost in terms.values() if cost["norm"] == "squares"]
    costs = [cost for cost in terms.values() if cost["norm"] != "squares"]
    plain = len(squares) == len(costs) == 1 and squares[0]["coefficient"] == 0.5
    if plain and not any("mask" in cost for cost in terms.values()):
        code = costs[0]
        found: Table = {"type": "energy", "error": squares[0]["layer"], "code": code["layer"]}
        found |= {"cost": code["norm"]} if code["norm"] != "l1" else {}
        found |= {key: code[key] for key in ("coefficient", "above", "corner") if key in code}
    else:
        found = {"type": "sum", "terms": {name: _short(cost) for name, cost in terms.items()}}
    draft.add("probes", part, found | _when(draft, part))


def _short(cost: Table) -> Table:
    defaults = {"norm": "squares", "coefficient": 1.0}
    return {key: value for key, value in cost.items() if defaults.get(key) != value}


def _when(draft: Draft, part: Part) -> Table:
    """Return the schedule of a probe."""
    if part.optional_text("triggerLayerName") is None:
        return {}
    period, offset = draft.trigger(part)
    if period == 1:
        return {}
    found: Table = {"every": draft.every(period)}
    return found | ({"offset": offset + 1} if period and not fires(period, offset + 1) else {})


def _identity(draft: Draft, layer: Part) -> bool:
    """Return whether the activity of a layer is its potential."""
    return draft.layers.get(layer.name, {}).get("type") in ("linear", "constant", "leaky_integrator")


def time_scales(draft: Draft) -> None:
    """Give layers their adaptive time scales."""
    for name in list(draft.layers):
        layer = draft.origin["layers", name]
        key = "adaptiveTimeScaleProbe"
        if key in layer.kind.keys and layer.optional_text(key) is not None:
            probe = draft.named(layer, key, "probe")
            draft.layers[name]["time_scale"] = _scale(draft, layer, probe)
            probe.becomes.append(f"layers.{name}.time_scale")


def _scale(draft: Draft, layer: Part, part: Part) -> Table:
    if part.keyword not in _SCALES:
        layer.refuse("adaptiveTimeScaleProbe", "this probe is no time scale", part.keyword)
    energy = draft.named(part, "targetName", "probe")
    if energy.keyword != "ColumnEnergyProbe" or energy.name not in draft.probes:
        _no_energy(part, energy)
    found: Table = {"type": _SCALES[part.keyword], "energy": energy.name}
    if part.optional_text("triggerLayerName") is not None:
        period, offset = draft.trigger(part)
        if period not in (draft.display, draft.length + 2) or offset:
            part.differs("reset when a new image appears")
    elif draft.display:
        part.differs("reset when a new image appears, as with triggerLayerName")
    for key, ours, default in (
        ("baseMin", "minimum", 0.05), ("baseMax", "maximum", 0.06), ("tauFactor", "factor", 0.03),
        ("growthFactor", "growth", 0.025), ("kneeThresh", "knee", 3.4), ("kneeSlope", "slope", 0.01),
        ("logThresh", "threshold", 1.0), ("logSlope", "slope", 0.01),
    ):  # fmt: skip
        if key in part.kind.keys and (value := part.finite(key)) != default:
            if value < 0 or (value == 0 and key != "growthFactor"):
                part.refuse(key, "this is not a positive number", f"{value:g}")
            found[ours] = value
    return found


def _no_energy(part: Part, energy: Part) -> NoReturn:
    part.refuse(
        "targetName",
        "time scales follow the energy of a ColumnEnergyProbe",
        f"{energy.name}, a {energy.keyword}",
    )
