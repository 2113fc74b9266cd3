"""A parameter of a class of PetaVision, and a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

REQUIRED = object()
Kind = Literal["number", "whole", "flag", "text", "numbers"]


@dataclass(frozen=True)
class Key:
    """A parameter."""

    kind: Kind
    default: object
    """Value where the parameter is missing; REQUIRED where PetaVision has none."""
    becomes: str
    """Key of petabatch, or the rule; empty if the parameter changes nothing."""
    why: str = "not needed"
    """Why it changes nothing."""


@dataclass(frozen=True)
class Class:
    """A class of objects."""

    role: Literal["column", "layer", "connection", "probe"]
    becomes: str
    """Type in petabatch."""
    keys: Mapping[str, Key]


number, whole, flag, text, numbers = (
    partial(Key, kind) for kind in ("number", "whole", "flag", "text", "numbers")
)
"""A parameter of a type: its default, what it becomes, and why that is nothing."""


def idle(keys: Mapping[str, Key], why: str, *names: str) -> dict[str, Key]:
    """Return parameters that change nothing, and why: those of `names`, or all."""
    return {name: replace(keys[name], becomes="", why=why) for name in names or keys}
