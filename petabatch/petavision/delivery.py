"""Parameters that every connection of PetaVision has: ends, channel, delays, arbors, and whose weights."""

from __future__ import annotations

import math
import re

from petabatch.petavision.draft import DEEPEST, Draft, Table
from petabatch.petavision.part import Part, Refused
from petabatch.petavision.transfer import curve

_CHANNELS = {0: "exc", 1: "inh", 2: "inh_b", 3: "gap", -1: "none"}
DELIVERIES = {"convolve": "convolve", "stochastic": "stochastic"}
"""Ways of delivery through weights."""
_MOST_ARBORS = 1024
_CONDUCTANCES = ("LIF", "LIFGap")
"""Classes of neurons with conductances."""


def ends(draft: Draft, part: Part) -> tuple[Part, Part]:
    """Return the layers of a connection: as named, by the name `preTopost`, or those of its original."""
    if part.keyword == "FeedbackConn":
        post, pre = ends(draft, draft.named(part, "originalConnName", "connection"))
        return pre, post
    names = [part.optional_text(key) for key in ("preLayerName", "postLayerName")]
    if names == [None, None]:
        for match in re.finditer("To", part.title):
            pair = [part.title[: match.start()], part.title[match.end() :]]
            if all(one in draft.titles for one in pair):
                names = [draft.titles[one] for one in pair]
                break
    found = []
    for key, name in zip(("preLayerName", "postLayerName"), names, strict=True):
        if name is None:
            part.refuse(key, f"the parameter {key} is missing", hint="or a name as in preTopost")
        found.append(draft.find(part, key, name, "layer"))
        if found[-1].keyword == "PoolingIndexLayer":
            part.refuse(key, "the places of maxima are no activity here", name)
    return found[0], found[1]


def leaving(draft: Draft, layer: Part) -> list[tuple[Part, Part]]:
    """Return the connections from a layer, each with its post layer; of those whose ends are known."""
    if not draft.leaving:
        for part in draft.of_role("connection"):
            try:
                pre, post = ends(draft, part)
            except Refused:  # told of where the connection is translated
                continue
            draft.leaving.setdefault(pre.name, []).append((part, post))
    return draft.leaving.get(layer.name, [])


def check_features(part: Part, post: Part) -> None:
    """Raise Refused if patches do not have the features of the post layer."""
    features, expected = part.whole("nfp"), post.whole("nf")
    if features not in (-1, expected):
        part.refuse("nfp", "the post layer has another number of features", str(features), str(expected))


def channel(part: Part) -> str:
    """Return the channel of a connection."""
    code = part.whole("channelCode")
    if code not in _CHANNELS:
        what = "divisive normalisation is" if code == 4 else "this channel is"
        part.refuse("channelCode", f"{what} not supported", str(code), "0, 1, 2, 3 or -1")
    return _CHANNELS[code]


def _rates(draft: Draft, part: Part, key: str, pre: Part, post: Part) -> None:
    """Raise Refused if a conversion of rates to counts of spikes would change what arrives."""
    if pre.keyword not in _CONDUCTANCES and (post.keyword in _CONDUCTANCES or draft.dt != 1):
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
        if len(seen) > DEEPEST:
            part.refuse("originalConnName", f"more than {DEEPEST} connections are copies of each other")
        seen.append(part.name)
    return part, turned


def delivered(draft: Draft, part: Part, pre: Part, post: Part, delay: float | None = None) -> Table:
    """Return the keys of every connection."""
    found: Table = {"pre": pre.name, "post": draft.entry(post)}
    code = channel(part)
    coefficient = _coefficient(post, part.whole("channelCode"))
    strength = 1.0 if coefficient is None else coefficient
    if "errScale" in post.kind.keys and curve(post, "hard") is not None:
        strength *= post.finite("errScale")
    found |= {"strength": strength} if strength != 1 else {}
    if coefficient is not None:
        code = "exc"
    elif code in ("inh_b", "gap") and post.keyword not in _CONDUCTANCES[code == "gap" :]:
        part.differs(
            f"{post.name} has no channel {part.whole('channelCode')}: nothing arrives, as in PetaVision"
        )
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
        found["delay_steps"] = steps
    if pre.whole("phase") >= post.whole("phase"):
        found["feedback"] = True
    return found


def delays_of(part: Part, arbors: int) -> tuple[float, ...]:
    """Return the delay of each arbor of a connection."""
    if arbors > _MOST_ARBORS:
        part.refuse("numAxonalArbors", "these are too many arbors", str(arbors), f"at most {_MOST_ARBORS}")
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
