"""PetaVision's copies of connections: clones, transposes, and weights that a clone holds instead."""

from __future__ import annotations

from collections.abc import Callable

from petabatch.petavision.delivery import arbor, delays_of, delivered, root
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.layers import recorded
from petabatch.petavision.part import Part
from petabatch.petavision.weights import normalize


def copy(kind: str) -> Callable[[Draft, Part, Part, Part], None]:
    """Return what adds a copy: `plain`, `plastic`, which teaches, or one of another strength, `copy`."""

    def add(draft: Draft, part: Part, pre: Part, post: Part) -> None:
        owner, turned = root(draft, part)
        if "nxp" not in owner.kind.keys or owner.keyword == "PoolingConn":
            part.refuse("originalConnName", "the original has no weights", owner.name)
        if kind == "plastic" and turned:
            part.refuse("originalConnName", "a transpose cannot teach", owner.name)
        recorded(draft, part)
        part.idle("initializeFromCheckpointFlag", "the weights are those of its original")
        for number, delay in enumerate(delays_of(part, owner.whole("numAxonalArbors"))):
            table: Table = {"type": "transpose" if turned else "clone"}
            table |= delivered(draft, part, pre, post, delay) | {"of": arbor(draft, owner, number)}
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
