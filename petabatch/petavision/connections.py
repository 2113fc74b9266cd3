"""PetaVision's connections as petabatch's."""

from __future__ import annotations

from collections.abc import Callable

from petabatch.petavision.copies import copy
from petabatch.petavision.delivery import DELIVERIES, arbor, check_features, delays_of, delivered, ends
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.layers import recorded
from petabatch.petavision.learning import learning, revived
from petabatch.petavision.part import Part
from petabatch.petavision.pooling import METHODS, largest, pool, pooled_weights, unpool
from petabatch.petavision.weights import ONE_TO_ONE, init, normalize


def connections(draft: Draft, part: Part) -> None:
    """Add the table of a connection, several for several arbors."""
    pre, post = ends(draft, part)
    KINDS[part.keyword](draft, part, pre, post)
    _gap_conductances(draft, part, pre, post)


def _plain(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    if draft.shape(pre) != draft.shape(post):
        part.refuse(
            "", "the layers have different shapes", f"{draft.shape(pre)} and {draft.shape(post)}", "the same"
        )
    scale = part.finite("scale") if part.keyword == "RescaleConn" else 1.0
    table: Table = {"type": "identity"} | delivered(draft, part, pre, post)
    scale *= table.pop("strength", 1.0)
    draft.add("connections", part, table | ({"strength": scale} if scale != 1 else {}))


def _weighted(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    if part.text("pvpatchAccumulateType").lower() in METHODS:
        pooled_weights(draft, part, pre, post)
        return
    kind = part.choice("pvpatchAccumulateType", DELIVERIES)
    check_features(part, post)
    delays = delays_of(part, part.whole("numAxonalArbors"))
    arbors = len(delays)
    own: Table = {"patch": [part.whole("nyp"), part.whole("nxp")]}
    if not part.flag("sharedWeights"):
        own["mode"] = "extra_non_shared"
    own["init"] = init(draft, part, pre, post)
    norm = normalize(draft, part, pre, post)
    learn = learning(draft, part)
    if arbors > 1:
        part.differs("each arbor is a connection")
    if norm:
        if learn is None:
            norm.pop("at_updates", None)
        own["normalize"] = norm
    if learn is not None:
        own["learn"] = learn
        own |= revived(draft, part)
    output = recorded(draft, part)
    apart = arbors == 1 or part.flag("normalizeArborsIndividually")
    for number, delay in enumerate(delays):
        name = arbor(draft, part, number)
        table: Table = {"type": "conv"} | delivered(draft, part, pre, post, delay) | own
        if kind == "stochastic":
            table["pre"] = _released(draft, part, pre)
        if arbors > 1 or own["init"]["type"] in _SPREAD:
            table["init"] = _of_arbor(own["init"], number, arbors)
        if norm and not apart:
            others = [arbor(draft, part, other) for other in range(1, arbors)]
            table["normalize"] = norm | {"together": [*norm.get("together", ()), *others]}
            if number > 0:
                del table["normalize"]
        draft.add("connections", part, table, name)
        if output and learn is not None:
            draft.connection_output[name] = output


def _released(draft: Draft, part: Part, pre: Part) -> str:
    """Add the layer of what arrives by chance: of each unit 1 with the probability of its activity times dt.

    Source: PetaVision's `PresynapticPerspectiveStochasticDelivery.cpp`, where the synapses of a unit have
    chances of their own: here it must have one.
    """
    if part.text("weightInitType") not in ONE_TO_ONE or part.flag("plasticityFlag"):
        part.refuse(
            "pvpatchAccumulateType",
            "stochastic delivery to several units is not supported",
            "stochastic",
            "convolve, or fixed one-to-one weights",
            hint="a Retina between the layers, of foregroundRate 1000, so that each unit has one chance",
        )
    if draft.dt > 1:
        part.refuse("pvpatchAccumulateType", "stochastic delivery needs a dt of at most 1", f"{draft.dt:g}")
    name = draft.unused(f"{part.name}_released")
    layer: Table = {"type": "retina", "shape": draft.shape(pre), "rate": 1000.0}
    draft.add("layers", part, layer | {"refractory": 0.0, "recovery": 0.0}, name)
    draft.add("connections", part, {"type": "identity", "pre": pre.name, "post": name}, f"{pre.name}To{name}")
    part.differs("the random numbers are others")
    return name


_SPREAD = {
    "petavision_sectors": ("sectors", "sector"),
    "petavision_one_to_one": ("connections", "number"),
}
"""Initialisers that spread weights over arbors, with the keys of how many these are, and which it is."""


def _of_arbor(start: Table, number: int, arbors: int) -> Table:
    """Return the initialiser of one of several arbors."""
    if start["type"] == "file":
        return start | {"arbor": number}
    if start["type"] in _SPREAD:
        count, place = _SPREAD[start["type"]]
        return start | {count: arbors} | ({place: number} if number else {})
    return start


def _gap_conductances(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    """Add what sums up the conductances of gap junctions: a layer of ones through the same weights.

    Source: PetaVision's `LIFGapActivityComponent.cpp`, calcGapStrength.
    """
    for where in [one for one in part.becomes if one.startswith("connections.")]:
        name = where.removeprefix("connections.")
        table = draft.connections[name]
        if table.get("channel") != "gap":
            continue
        ones = draft.unused(f"{pre.name}_ones")
        if ones not in draft.layers:
            layer: Table = {"type": "constant", "shape": draft.shape(pre), "value": 1.0, "border": 1.0}
            draft.add("layers", part, layer, ones)
        link: Table = {"type": table["type"], "pre": ones, "post": post.name, "channel": "gap_conductance"}
        if table["type"] == "conv":
            link |= {"type": "clone", "of": name}
        link |= {key: table[key] for key in ("of", "strength") if key in table}
        if "learn" in table:
            part.differs("the conductances of gap junctions follow the weights, also where these learn")
        draft.add("connections", part, link, f"{name}_conductance")


KINDS: dict[str, Callable[[Draft, Part, Part, Part], None]] = {
    "HyPerConn": _weighted,
    "MomentumConn": _weighted,
    "BatchConn": _weighted,
    "ImprintConn": _weighted,
    "CloneConn": copy("plain"),
    "CopyConn": copy("copy"),
    "PlasticCloneConn": copy("plastic"),
    "TransposeConn": copy("plain"),
    "FeedbackConn": copy("plain"),
    "IdentConn": _plain,
    "RescaleConn": _plain,
    "PoolingConn": pool,
    "TransposePoolingConn": unpool,
    "WTAConn": largest,
}
