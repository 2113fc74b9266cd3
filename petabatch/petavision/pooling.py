"""PetaVision's pooling and un-pooling, and the largest feature."""

from __future__ import annotations

import math
from itertools import pairwise

from petabatch.petavision.delivery import check_features, delays_of, delivered, ends
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.part import Part
from petabatch.petavision.weights import ONE_TO_ONE

METHODS = {"maxpooling": "max", "sumpooling": "sum", "avgpooling": "average"}
"""What pooling does with the activities of a window."""


def pool(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    """Add the table of pooling, or of un-pooling that spreads each value over its window."""
    table: Table = {"type": "pool"} | delivered(draft, part, pre, post)
    window, blocks = window_of(draft, part, pre, post)
    table |= {"window": window} if window != blocks else {}
    check_features(part, post)
    method = part.choice("pvpatchAccumulateType", METHODS)
    if "needPostIndexLayer" in part.kind.keys and part.flag("needPostIndexLayer"):
        index = draft.named(part, "postIndexLayerName", "layer")
        if draft.shape(index) != draft.shape(post):
            part.refuse("postIndexLayerName", "this layer has another shape", str(draft.shape(index)))
    draft.add("connections", part, table | ({"method": method} if method != "max" else {}))


def pooled_weights(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    """Add the table of a connection with weights that pools, as before there was PoolingConn."""
    features = draft.shape(pre)[2], draft.shape(post)[2]
    kind = part.text("weightInitType")
    apart = part.flag("connectOnlySameFeatures") or features == (1, 1) or kind in ONE_TO_ONE
    fixed = not part.flag("plasticityFlag") and part.optional_text("normalizeMethod") in (None, "none")
    weight = part.optional_number("weightInit")
    weight = float(kind in ONE_TO_ONE) if weight is None else weight
    if kind not in ("UniformWeight", *ONE_TO_ONE) or not (fixed and apart and 0 < weight < math.inf):
        part.refuse(
            "pvpatchAccumulateType",
            "pooling through other than fixed, equal weights of each feature to itself is not supported",
            part.text("pvpatchAccumulateType"),
            hint="a PoolingConn",
        )
    if kind in ONE_TO_ONE and (part.whole("nxp"), part.whole("nyp")) != (1, 1):
        part.refuse("nxp", "one-to-one weights pool one unit alone", str(part.whole("nxp")), "1")
    part.only("numAxonalArbors", hint="a PoolingConn for each delay")
    part.read.add("sharedWeights")
    pool(draft, part, pre, post)
    if weight != 1:
        table = draft.connections[part.name]
        table["strength"] = table.get("strength", 1.0) * weight
    if draft.connections[part.name].get("method", "max") == "max":
        part.differs("the maximum of the window, also where it is negative, and not at least 0")


def unpool(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    """Add what returns values to the places of the maxima of another connection.

    Source: PetaVision's `TransposePoolingDelivery.cpp`; the last of equal units has the index of the maximum,
    as in `accumulate_functions.cpp`.
    """
    original = draft.named(part, "originalConnName", "connection")
    if original.keyword != "PoolingConn":
        part.refuse("originalConnName", "the original does not pool", original.keyword)
    fine, coarse = ends(draft, original)
    if (draft.shape(pre), draft.shape(post)) != (draft.shape(coarse), draft.shape(fine)):
        part.refuse(
            "originalConnName",
            "the layers are not those of the original, exchanged",
            f"{draft.shape(pre)} to {draft.shape(post)}",
            f"{draft.shape(coarse)} to {draft.shape(fine)}",
        )
    window, blocks = window_of(draft, original, fine, coarse)
    if window != blocks:
        part.refuse("originalConnName", "un-pooling of windows that overlap is not supported", str(window))
    table: Table = {"type": "pool"} | delivered(draft, part, pre, post)
    if original.choice("pvpatchAccumulateType", METHODS) != "max":
        part.differs("negative values are spread, too")
        draft.add("connections", part, table)
        return
    # On a GPU PetaVision finds the places without an index layer.
    key = "postIndexLayerName"
    index = [draft.named(original, key, "layer")] if original.optional_text(key) is not None else []
    placed = draft.unused(f"{part.name}_placed")
    draft.add("layers", part, {"type": "max_unpool", "shape": draft.shape(post), "window": blocks}, placed)
    into = {key: table.pop(key) for key in ("channel", "strength") if key in table}
    draft.add("connections", part, table | {"post": placed})
    seen = [fine, coarse, *index, post]
    late = sum(one.whole("phase") >= other.whole("phase") for one, other in pairwise(seen))
    place: Table = {"type": "identity", "pre": fine.name, "post": placed, "channel": "place"}
    (pooled,) = delays_of(original, 1)
    delay = draft.steps(original, "delay", pooled) + max(0, late - 1)
    place |= ({"delay_steps": delay} if delay else {}) | ({"feedback": True} if late else {})
    draft.add("connections", part, place, f"{fine.name}To{placed}")
    link: Table = {"type": "identity", "pre": placed, "post": post.name}
    draft.add("connections", part, link | into, f"{placed}To{post.name}")


def window_of(draft: Draft, part: Part, pre: Part, post: Part) -> tuple[list[int], list[int]]:
    """Return the sizes of a window and of a block, in units of the larger layer."""
    window, blocks = [], []
    for axis, key in enumerate(("nyp", "nxp")):
        n_pre, n_post = draft.shape(pre)[axis], draft.shape(post)[axis]
        window.append(part.whole(key) * max(1, n_pre // n_post))
        blocks.append(max(n_pre, n_post) // min(n_pre, n_post))
    return window, blocks


def largest(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    """Add the table of the largest feature of each position."""
    if draft.shape(post) != [*draft.shape(pre)[:2], 1]:
        part.refuse("", "the post layer is not one of one feature", str(draft.shape(post)))
    draft.add("connections", part, {"type": "largest"} | delivered(draft, part, pre, post))
