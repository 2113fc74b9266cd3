"""Displays that begin at exact codes, `run.until.solver = "homotopy"`: of which networks, and what of them.

A code of one position is that of a vector, whose minimum a path of solutions leads to (`petabatch.lasso`).
It is put in place, with what the dictionary makes of it, before the first step of a display. The steps go on
from there: it is the certificate of `run.until` that ends them, so that a code is near its minimum for what
the network says its energy is, whoever found it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from petabatch.errors import Problem
from petabatch.network.until import certificate
from petabatch.spec.compiled import NotSuitable
from petabatch.spec.network import Network
from petabatch.spec.parts import Wiring

KEY = "run.until.solver"


@dataclass(frozen=True)
class Exact:
    """A code that displays begin with, by names."""

    image: str
    reconstruction: str
    code: str
    dictionary: str
    """The connection from the code to the reconstruction."""
    penalty: float
    signed: bool


def find_exact(network: Network) -> Exact | None:
    """Return what displays begin with; None where they go on from what was before."""
    until, probe = network.run.until, certificate(network)
    if until is None or until.solver == "steps" or probe is None:
        return None
    lasso = network.probes[probe].lasso()
    own = (
        name
        for name, one in network.connections.items()
        if one.patch_owner is not None and (one.pre, one.post) == (lasso.code, lasso.reconstruction)
    )
    found = lasso.coefficient, lasso.signed
    return Exact(lasso.image, lasso.reconstruction, lasso.code, next(own, ""), *found)


def check_exact(network: Network, wirings: Mapping[str, Wiring], problems: list[Problem]) -> None:
    """Check that the code is that of a vector, with one dictionary for all slices."""
    run = network.run
    if run.until is None or run.until.solver == "steps" or problems:
        return
    from petabatch.lasso import fits  # which imports the compiler; `check` of other networks does without

    try:
        exact = find_exact(network)
    except NotSuitable as error:
        problems.append(Problem(KEY, f"its probe has no objective that is solved for: {error}"))
        return
    if exact is None:
        return
    layers = network.layers
    code, shown = layers[exact.code], layers[exact.reconstruction].shape
    wiring, what = wirings.get(exact.dictionary), f"the codes of {exact.code} cannot be solved for"

    def report(found: str, expected: str, hint: str = "") -> None:
        problems.append(Problem(KEY, what, found, expected, hint))

    if code.shape[:2] != (1, 1):
        hint = 'solver = "steps" codes layers of several positions'
        report(f"a layer of {code.shape[0]} x {code.shape[1]} positions", "a layer of one", hint)
    elif layers[exact.image].images is None:
        layer = f"{exact.image}, of type {layers[exact.image].type}"
        hint = (
            "its activity is not known before the step; name the input layer, or use transforms of its source"
        )
        report(f"{layer}, as the image", "a layer that shows images", hint)
    elif wiring is None or wiring.link is None or not wiring.link.scatter:
        report(
            "no patches", f"a connection of type conv from {exact.code} to {exact.reconstruction}, its own"
        )
    elif (wiring.link.patches.y.size, wiring.link.patches.x.size) != shown[:2]:
        size = f"{wiring.link.patches.y.size} x {wiring.link.patches.x.size}"
        report(f"patches of {size}", f"patches of {shown[0]} x {shown[1]}, as large as the image")
    elif network.connections[exact.dictionary].strength != 1:
        found = f"strength = {network.connections[exact.dictionary].strength:g} of {exact.dictionary}"
        report(found, "a dictionary that is used as it is")
    elif (key := f"connections.{exact.dictionary}.strength") in {*network.slices, *network.over_time}:
        report(f"several values of {key}", "a dictionary that is used as it is")
    elif (owner := network.connections[exact.dictionary].patch_owner) is not None and (
        owner.mode != "extra_shared"
    ):
        report(f'mode = "{owner.mode}" of {exact.dictionary}', '"extra_shared": one dictionary')
    elif code.penalty is None or code.penalty.cost != "l1":
        report(f"a layer of type {code.type} that minimises another energy", "lca, heavy_ball or fista, soft")
    elif not fits(code.shape[2]):
        report(f"{code.shape[2]} atoms", "at most 8192 atoms, whose products fit into memory")
    elif network.parallel.split:
        report(f"[parallel] {network.parallel.split}", "slices that are not split over ranks")
