"""A parameter of a class of PetaVision, and a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from petabatch.petavision.grammar import Value

REQUIRED = object()
Kind = Literal["number", "whole", "flag", "text", "numbers"]


@dataclass(frozen=True)
class Key:
    """A parameter."""

    kind: Kind
    default: object
    """Value where the parameter is missing; REQUIRED where PetaVision has none."""
    becomes: str
    """Key of petabatch, or the rule; empty if nothing needs it."""


@dataclass(frozen=True)
class Class:
    """A class of objects."""

    role: Literal["column", "layer", "connection", "probe"]
    becomes: str
    """Type in petabatch."""
    keys: Mapping[str, Key]


def number(default: Value | object, becomes: str) -> Key:
    """Return a numeric parameter."""
    return Key("number", default, becomes)


def whole(default: Value | object, becomes: str) -> Key:
    """Return an integer parameter."""
    return Key("whole", default, becomes)


def flag(default: Value | object, becomes: str) -> Key:
    """Return a parameter that is true or false."""
    return Key("flag", default, becomes)


def text(default: Value | object, becomes: str) -> Key:
    """Return a text parameter."""
    return Key("text", default, becomes)


def numbers(default: Value | object, becomes: str) -> Key:
    """Return a parameter that is an array."""
    return Key("numbers", default, becomes)
