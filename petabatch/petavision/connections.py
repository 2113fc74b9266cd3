"""PetaVision's connections as petabatch's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.layers import recorded
from petabatch.petavision.learning import learning
from petabatch.petavision.part import Part
from petabatch.petavision.weights import ONE_TO_ONE, init, normalize

_CHANNELS = {0: "exc", 1: "inh", 2: "inh_b", -1: "none"}
_PLAIN_NAME = re.compile(r"(.+)To(.+)")


def connections(draft: Draft, part: Part) -> None:
    """Add the table of a connection, several for several arbors."""
    pre, post = ends(draft, part)
    _KINDS[part.keyword](draft, part, pre, post)


def ends(draft: Draft, part: Part) -> tuple[Part, Part]:
    """Return the layers of a connection: as named, by the name `preTopost`, or those of its original."""
    if part.keyword == "FeedbackConn" and not part.given("preLayerName"):
        post, pre = ends(draft, draft.named(part, "originalConnName", "connection"))
        return pre, post
    names = [part.optional_text(key) for key in ("preLayerName", "postLayerName")]
    if names == [None, None]:
        for match in re.finditer("To", part.name):
            pair = [part.name[: match.start()], part.name[match.end() :]]
            if all(one in draft.parts for one in pair):
                names = [*pair]
                break
    found = []
    for key, name in zip(("preLayerName", "postLayerName"), names, strict=True):
        if name is None:
            part.refuse(key, f"the parameter {key} is missing", hint="or a name as in preTopost")
        found.append(draft.find(part, key, name, "layer"))
    return found[0], found[1]


def channel(part: Part) -> str:
    """Return the channel of a connection."""
    code = part.whole("channelCode")
    if code not in _CHANNELS:
        what = {3: "gap junctions are", 4: "divisive normalisation is"}.get(code, "this channel is")
        part.refuse("channelCode", f"{what} not supported", str(code), "0, 1, 2 or -1")
    return _CHANNELS[code]


def _rates(draft: Draft, part: Part, key: str, pre: Part, post: Part) -> None:
    """Raise Refused if a conversion of rates to counts of spikes would change what arrives."""
    if pre.keyword != "LIF" and (post.keyword == "LIF" or draft.dt != 1):
        part.refuse(key, "the conversion of rates to counts of spikes is not supported", hint="a strength")
    part.idle(key, "nothing to convert")


def _coefficient(post: Part, code: int) -> float | None:
    """Return the factor that a layer gives a channel, None where it gives none."""
    if "channelIndices" not in post.kind.keys or code < 0:
        return None
    indices, coefficients = post.numbers("channelIndices"), post.numbers("channelCoefficients")
    if len(indices) != len(coefficients):
        post.refuse("channelIndices", "channelIndices and channelCoefficients differ in length")
    given = dict(zip(indices, coefficients, strict=True))
    return given.get(float(code))


def root(draft: Draft, part: Part) -> tuple[Part, bool]:
    """Return the connection that owns the weights of a copy, and whether the copy is transposed."""
    turned, seen = False, [part.name]
    while "originalConnName" in part.kind.keys:
        turned ^= part.keyword in ("TransposeConn", "FeedbackConn")
        part = draft.named(part, "originalConnName", "connection")
        if part.name in seen:
            part.refuse("originalConnName", "these connections are copies of each other", " -> ".join(seen))
        seen.append(part.name)
    return part, turned


def _delivered(draft: Draft, part: Part, pre: Part, post: Part, delay: float | None = None) -> Table:
    """Return the keys of every connection."""
    found: Table = {"pre": pre.name, "post": post.name}
    code = channel(part)
    coefficient = _coefficient(post, part.whole("channelCode"))
    if coefficient is not None:
        code = "exc"
        found |= {"strength": coefficient} if coefficient != 1 else {}
    elif code == "inh_b" and post.keyword != "LIF":
        part.differs(f"{post.name} has no channel 2: nothing arrives, as in PetaVision")
        code = "none"
    if code != "exc":
        found["channel"] = code
    for key in ("convertRateToSpikeCount", "preActivityIsNotRate"):
        if part.flag(key):
            _rates(draft, part, key, pre, post)
    if code == "none":
        part.numbers("delay")
        return found
    delays = part.numbers("delay")
    if delay is None:
        if len(delays) > 1:
            part.refuse("delay", "several delays need as many arbors", str(list(delays)))
        delay = delays[0] if delays else 0.0
    if delay < 0 or math.isinf(delay):
        part.refuse("delay", "this is not a delay", f"{delay:g}")
    if steps := draft.steps(part, "delay", delay):
        found["delay"] = steps
    if pre.whole("phase") >= post.whole("phase"):
        found["feedback"] = True
    return found


def _plain(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    if draft.shape(pre) != draft.shape(post):
        part.refuse(
            "", "the layers have different shapes", f"{draft.shape(pre)} and {draft.shape(post)}", "the same"
        )
    part.idle("initializeFromCheckpointFlag", "nothing to initialise")
    scale = part.finite("scale") if part.keyword == "RescaleConn" else 1.0
    table: Table = {"type": "identity"} | _delivered(draft, part, pre, post)
    scale *= table.pop("strength", 1.0)
    draft.add("connections", part, table | ({"strength": scale} if scale != 1 else {}))


def _weighted(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    kind = part.choice("pvpatchAccumulateType", {"convolve": "convolve", "stochastic": "stochastic"})
    features = part.whole("nfp")
    if features not in (-1, post.whole("nf")):
        part.refuse(
            "nfp", "the post layer has another number of features", str(features), str(post.whole("nf"))
        )
    delays = _delays(part, part)
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
    output = recorded(draft, part)
    apart = arbors == 1 or part.flag("normalizeArborsIndividually")
    for number, delay in enumerate(delays):
        name = arbor(draft, part, number)
        table: Table = {"type": "conv"} | _delivered(draft, part, pre, post, delay) | own
        if kind == "stochastic":
            table["pre"] = _released(draft, part, pre)
        if arbors > 1 or own["init"]["type"] == "petavision_sectors":
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
    name = f"{part.name}_released"
    while name in draft.parts:
        name += "_"
    layer: Table = {"type": "retina", "shape": draft.shape(pre), "rate": 1000.0}
    draft.add("layers", part, layer | {"refractory": 0.0, "recovery": 0.0}, name)
    draft.add("connections", part, {"type": "identity", "pre": pre.name, "post": name}, f"{pre.name}To{name}")
    part.differs("the random numbers are others")
    return name


def _delays(part: Part, owner: Part) -> tuple[float, ...]:
    """Return the delay of each arbor of a connection, of which the owner of its weights says the number."""
    arbors = owner.whole("numAxonalArbors")
    delays = part.numbers("delay") or (0.0,)
    delays = delays * arbors if len(delays) == 1 else delays
    if len(delays) != arbors:
        part.refuse("delay", "there is not one delay for each arbor", str(len(delays)), str(arbors))
    return delays


def arbor(draft: Draft, part: Part, number: int) -> str:
    """Return the name of the connection that an arbor becomes, which no other group has."""
    name = f"{part.name}_{number + 1}" if number else part.name
    while number and name in draft.parts:
        name += "_"
    return name


def _of_arbor(start: Table, number: int, arbors: int) -> Table:
    """Return the initialiser of one of several arbors."""
    if start["type"] == "file":
        return start | {"arbor": number}
    if start["type"] == "petavision_sectors":
        return start | {"sectors": arbors} | ({"sector": number} if number else {})
    return start


def _copy(kind: str) -> Callable[[Draft, Part, Part, Part], None]:
    def add(draft: Draft, part: Part, pre: Part, post: Part) -> None:
        owner, turned = root(draft, part)
        if "nxp" not in owner.kind.keys or owner.keyword == "PoolingConn":
            part.refuse("originalConnName", "the original has no weights", owner.name)
        if kind == "plastic" and turned:
            part.refuse("originalConnName", "a transpose cannot teach", owner.name)
        recorded(draft, part)
        part.idle("initializeFromCheckpointFlag", "the weights are those of its original")
        for number, delay in enumerate(_delays(part, owner)):
            table: Table = {"type": "transpose" if turned else "clone"}
            table |= _delivered(draft, part, pre, post, delay) | {"of": arbor(draft, owner, number)}
            if kind == "plastic" and owner.flag("plasticityFlag"):
                table["error"] = post.name
            if kind == "copy":
                table |= _scaled(draft, part, owner, table)
            draft.add("connections", part, table, arbor(draft, part, number))

    return add


def _scaled(draft: Draft, part: Part, owner: Part, table: Table) -> Table:
    """Return the strength of a copy that is normalised as its original is, to another size."""
    pre, post = (draft.named(owner, key, "layer") for key in ("preLayerName", "postLayerName"))
    mine, theirs = (normalize(draft, one, pre, post) or {} for one in (part, owner))
    strength = mine.pop("strength", 1.0) / theirs.pop("strength", 1.0)
    if mine != theirs or not mine.get("at_start", True):
        part.refuse(
            "normalizeMethod", "a copy is normalised as its original is", str(mine), str(theirs),
            hint="a HyPerConn of its own",
        )  # fmt: skip
    strength *= table.get("strength", 1.0)
    return {"strength": strength} if strength != 1 else {}


def _largest(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    if draft.shape(post) != [*draft.shape(pre)[:2], 1]:
        part.refuse("", "the post layer is not one of one feature", str(draft.shape(post)))
    draft.add("connections", part, {"type": "largest"} | _delivered(draft, part, pre, post))
    recorded(draft, part)
    part.idle("initializeFromCheckpointFlag", "nothing to initialise")


def _pool(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    kinds = {name: name for name in ("max", "sum", "avg")}
    method = part.choice("pvpatchAccumulateType", {f"{name}pooling": kind for name, kind in kinds.items()})
    part.only("needPostIndexLayer", hint="un-pooling spreads each value over its window")
    window = []
    for axis, key in enumerate(("nyp", "nxp")):
        n_pre, n_post, size = draft.shape(pre)[axis], draft.shape(post)[axis], part.whole(key)
        window.append(size * max(1, n_pre // n_post))
    blocks = [
        max(a, b) // min(a, b) for a, b in zip(draft.shape(pre)[:2], draft.shape(post)[:2], strict=True)
    ]
    table: Table = {"type": "pool"} | _delivered(draft, part, pre, post)
    table |= {"window": window} if window != blocks else {}
    part.idle("initializeFromCheckpointFlag", "nothing to initialise")
    names = {"max": "max", "sum": "sum", "avg": "average"}
    draft.add("connections", part, table | ({"method": names[method]} if method != "max" else {}))


def merge_holders(draft: Draft) -> None:
    """Let a clone hold the weights of a connection that delivers nothing, as is usual in petabatch.

    In PetaVision, weights that learn from a residual belong to a connection to it of channel -1.
    """
    for name in [name for name, table in draft.connections.items() if table["type"] == "conv"]:
        table = draft.connections[name]
        clones = [
            other
            for other, clone in draft.connections.items()
            if clone["type"] == "clone" and clone["of"] == name and clone["pre"] == table["pre"]
        ]
        shapes = [draft.shape(draft.parts[draft.connections[other]["post"]]) for other in clones]
        if (
            table.get("channel") != "none"
            or not clones
            or shapes[0] != draft.shape(draft.parts[table["post"]])
        ):
            continue
        heir = clones[0]
        if "error" in draft.connections[heir]:
            continue
        _inherit(draft, name, heir)


def _inherit(draft: Draft, name: str, heir: str) -> None:
    table = draft.connections.pop(name)
    clone = draft.connections[heir]
    own = {
        key: value for key, value in table.items() if key not in ("type", "pre", "post", "channel", "learn")
    }
    ends = {key: value for key, value in clone.items() if key not in ("type", "of")}
    if learn := table.get("learn"):
        rule, *rest = learn.items()
        own["learn"] = dict([rule, ("error", table["post"]), *rest])
    draft.connections[heir] = {"type": "conv", **ends, **own}
    for other in draft.connections.values():
        if other.get("of") == name:
            other["of"] = heir
        together = other.get("normalize", {}).get("together", [])
        if name in together:
            together[together.index(name)] = heir
    if name in draft.connection_output:
        draft.connection_output[heir] = draft.connection_output.pop(name)
    part = draft.origin.pop(("connections", name))
    draft.merged[name] = heir
    draft.origin |= {("connections", heir, key): part for key in own}
    part.becomes = [f"connections.{heir}"]
    part.differs(f"{heir} holds its weights")


_KINDS: dict[str, Callable[[Draft, Part, Part, Part], None]] = {
    "HyPerConn": _weighted,
    "MomentumConn": _weighted,
    "CloneConn": _copy("plain"),
    "CopyConn": _copy("copy"),
    "PlasticCloneConn": _copy("plastic"),
    "TransposeConn": _copy("plain"),
    "FeedbackConn": _copy("plain"),
    "IdentConn": _plain,
    "RescaleConn": _plain,
    "PoolingConn": _pool,
    "WTAConn": _largest,
}
