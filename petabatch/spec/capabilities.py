"""What can be done with layers of a type, declared by each class for itself."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What can be done with layers of a type beyond making their steps; `petabatch.testing` checks it.

    A class has those that it declares, and none of its base class: what it overrides may make them wrong.
    """

    graph_safe: bool = False
    """`update` launches the same kernels on the same arrays in each step, so that steps can be captured and
    replayed as CUDA graphs."""
    local: bool = False
    """A unit depends on its own input and state alone, so that each rank can have some rows of the layer; and
    on sums over all units, and random numbers for each of these, that `update` makes with
    `StepContext.tile`."""
    splittable: bool = False
    """A unit depends on no other of its layer, of which each rank of `[parallel] features` has a part."""


NAMES = tuple(field.name for field in fields(Capabilities))


def capabilities_of(kind: type) -> Capabilities:
    """Return what a class declares itself."""
    found = kind.__dict__.get("capabilities", Capabilities())
    assert isinstance(found, Capabilities)
    return found


def check_declared(kind: type) -> None:
    """Raise TypeError where a class declares capabilities in another way."""
    found = kind.__dict__.get("capabilities", Capabilities())
    if not isinstance(found, Capabilities):
        raise TypeError(f"{kind.__name__}.capabilities is {found!r}, and not made by Capabilities(...)")
    for name in NAMES:
        if name in kind.__dict__:
            raise TypeError(f"{kind.__name__}.{name}: declare it by capabilities = Capabilities({name}=True)")
