"""PetaVision's pooling and un-pooling, and the largest feature."""

from __future__ import annotations

from itertools import pairwise

from petabatch.petavision.delivery import check_features, delays_of, delivered, ends
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.part import Part

_METHODS = {"maxpooling": "max", "sumpooling": "sum", "avgpooling": "average"}


def pool(draft: Draft, part: Part, pre: Part, post: Part) -> None:
    """Add the table of pooling, or of un-pooling that spreads each value over its window."""
    table: Table = {"type": "pool"} | delivered(draft, part, pre, post)
    window, blocks = window_of(draft, part, pre, post)
    table |= {"window": window} if window != blocks else {}
    check_features(part, post)
    method = part.choice("pvpatchAccumulateType", _METHODS)
    if part.flag("needPostIndexLayer"):
        index = draft.named(part, "postIndexLayerName", "layer")
        if draft.shape(index) != draft.shape(post):
            part.refuse("postIndexLayerName", "this layer has another shape", str(draft.shape(index)))
    draft.add("connections", part, table | ({"method": method} if method != "max" else {}))


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
    if original.choice("pvpatchAccumulateType", _METHODS) != "max":
        part.differs("negative values are spread, too")
        draft.add("connections", part, table)
        return
    # On a GPU PetaVision finds the places without an index layer.
    key = "postIndexLayerName"
    index = [draft.named(original, key, "layer")] if original.optional_text(key) is not None else []
    placed = f"{part.name}_placed"
    while placed in draft.parts:
        placed += "_"
    draft.add("layers", part, {"type": "max_unpool", "shape": draft.shape(post), "window": blocks}, placed)
    into = {key: table.pop(key) for key in ("channel", "strength") if key in table}
    draft.add("connections", part, table | {"post": placed})
    seen = [fine, coarse, *index, post]
    late = sum(one.whole("phase") >= other.whole("phase") for one, other in pairwise(seen))
    place: Table = {"type": "identity", "pre": fine.name, "post": placed, "channel": "place"}
    (pooled,) = delays_of(original, 1)
    delay = draft.steps(original, "delay", pooled) + max(0, late - 1)
    place |= ({"delay": delay} if delay else {}) | ({"feedback": True} if late else {})
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
