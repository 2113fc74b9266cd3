"""PetaVision's copies of connections: clones, transposes, and connections merged with their clone."""

from __future__ import annotations

from collections.abc import Callable

from petabatch.petavision.delivery import DELIVERIES, arbor, delays_of, delivered, root
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.part import Part
from petabatch.petavision.pooling import METHODS
from petabatch.petavision.weights import normalize


def copy(kind: str) -> Callable[[Draft, Part, Part, Part], None]:
    """Return what adds a copy: `plain`, `plastic`, which teaches, or one of another strength, `copy`."""

    def add(draft: Draft, part: Part, pre: Part, post: Part) -> None:
        owner, turned = root(draft, part)
        if "nxp" not in owner.kind.keys or owner.keyword == "PoolingConn":
            part.refuse("originalConnName", "the original has no weights", owner.name)
        if owner.text("pvpatchAccumulateType").lower() in METHODS:
            part.refuse("originalConnName", "a copy of a connection that pools is not supported", owner.name)
        if kind == "plastic" and turned:
            part.refuse("originalConnName", "a transpose cannot teach", owner.name)
        if part.choice("pvpatchAccumulateType", DELIVERIES) == "stochastic":
            part.refuse(
                "pvpatchAccumulateType", "stochastic delivery of a copy is not supported", "stochastic",
                hint="a HyPerConn of its own",
            )  # fmt: skip
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
    if owner.whole("numAxonalArbors") > 1:
        mine["apart"], theirs["apart"] = (one.flag("normalizeArborsIndividually") for one in (part, owner))
    if mine != theirs or not mine.get("at_start", True):
        part.refuse(
            "normalizeMethod", "a copy is normalised as its original is", str(mine), str(theirs),
            hint="a HyPerConn of its own",
        )  # fmt: skip
    strength *= table.get("strength", 1.0)
    return {"strength": strength} if strength != 1 else {}


def merge_holders(draft: Draft) -> None:
    """Join a connection that delivers nothing with the clone that delivers its weights, as one connection.

    In PetaVision, weights that learn from a residual belong to a connection to it of channel -1. Its name is
    kept, as its files have it.
    """
    clones: dict[str, list[str]] = {}
    for name, table in draft.connections.items():
        if table["type"] == "clone":
            clones.setdefault(table["of"], []).append(name)
    joined: dict[str, str] = {}
    for name, table in draft.connections.items():
        if table["type"] == "conv" and table.get("channel") == "none":
            alike = [one for one in clones.get(name, ()) if draft.connections[one]["pre"] == table["pre"]]
            if alike and _joins(draft, table, draft.connections[alike[0]]):
                joined[alike[0]] = name
    holders = set(joined.values())
    draft.connections = {
        joined.get(name, name): _join(draft, joined[name], name) if name in joined else table
        for name, table in draft.connections.items()
        if name not in holders
    }


def _joins(draft: Draft, table: Table, clone: Table) -> bool:
    """Return whether a clone that does not teach delivers to a layer as large as that of what it clones."""
    posts = [draft.layers.get(one["post"], {}) for one in (table, clone)]
    return posts[0].get("shape") == posts[1].get("shape") and "error" not in clone


def _join(draft: Draft, name: str, clone: str) -> Table:
    """Return the table of a connection and its clone, which has its place."""
    table, delivers = draft.connections[name], draft.connections[clone]
    own = {
        key: value for key, value in table.items() if key not in ("type", "pre", "post", "channel", "learn")
    }
    ends = {key: value for key, value in delivers.items() if key not in ("type", "of")}
    if learn := table.get("learn"):
        rule, *rest = learn.items()
        own["learn"] = dict([rule, ("error", table["post"]), *rest])
    if (output := draft.connection_output.pop(clone, None)) is not None:
        draft.connection_output.setdefault(name, output)
    part = draft.origin.pop(("connections", clone))
    draft.origin |= {("connections", name, key): part for key in ends}
    part.becomes = [f"connections.{name}"]
    draft.origin["connections", name].differs(f"delivers as its clone {clone} does")
    return {"type": "conv", **ends, **own}
