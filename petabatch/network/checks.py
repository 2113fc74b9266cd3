"""Consistency checks across the tables of a network: names, shapes, references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from petabatch.errors import Problem, did_you_mean
from petabatch.geometry import GeometryError
from petabatch.spec.compiled import NotSuitable
from petabatch.spec.network import SPIKES, Network
from petabatch.spec.parts import Layer, PatchOwner, Probe, Wiring
from petabatch.weight_mode import for_each_slice, over_slices

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def check_names(network: Network, problems: list[Problem]) -> None:
    """Check that names can be used as paths in the run file and in dotted keys."""
    for kind in ("layers", "connections", "probes"):
        problems += [
            Problem(f"{kind}.{name}", "this name cannot be used", name, "letters, digits, _ and -")
            for name in getattr(network, kind)
            if not _NAME.fullmatch(name)
        ]


def check_borders(network: Network, problems: list[Problem]) -> None:
    """Check that only input layers have the border `image`."""
    problems += [
        Problem(
            f"layers.{name}.border",
            "this layer has no surrounding image",
            found=f"{layer.type}",
            expected='"zero", "mirror" or a number; "image" for a layer of type input',
        )
        for name, layer in network.layers.items()
        if layer.border == "image" and layer.images is None
    ]


def check_starts(network: Network, problems: list[Problem]) -> None:
    """Check that state variables that are initialised exist, and that weights of all slices start alike."""
    for name, layer in network.layers.items():
        known = [variable.name for variable in layer.variables() if variable.dtype == "float"]
        known += [] if "V" in known or layer.images is not None else ["A"]
        for variable, (path, initial) in layer.starts.items():
            key = f"layers.{name}.{path}"
            if variable not in known:
                problems.append(unknown(key, f"state variable of {name}", variable, known))
            elif initial.of_patches:
                problems.append(
                    Problem(
                        key,
                        "this initialiser is for the weights of patches",
                        found=initial.type,
                        expected="array, constant without same_feature, file, gaussian or uniform",
                    )
                )
    for name, connection in network.connections.items():
        owner = connection.patch_owner  # single synapses look at theirs themselves
        if owner is None or not over_slices(owner.mode):
            continue
        starts = {} if owner.learn is None else dict(owner.learn.starts.values())
        given = {"init": owner.init} | {f"learn.{key}": initial for key, initial in starts.items()}
        problems += [
            Problem(
                f"connections.{name}.{key}.per_slice",
                "these weights belong to all slices",
                found=f'mode = "{owner.mode}"',
                expected=f'mode = "{for_each_slice(owner.mode)}"',
            )
            for key, initial in given.items()
            if initial.per_slice
        ]


def check_learning(network: Network, problems: list[Problem]) -> None:
    """Check that the layer each learning rule learns from exists and has the shape of the post layer."""
    for name, connection in network.connections.items():
        rule = owner.learn if (owner := connection.patch_owner) is not None else None
        if rule is None or connection.post not in network.layers:
            continue
        against = rule.against
        if against is None:
            continue
        key = f"connections.{name}.learn.{rule.against_key}"
        if against not in network.layers:
            problems.append(unknown(key, "layer", against, network.layers))
        elif network.layers[against].shape != network.layers[connection.post].shape:
            problems.append(
                Problem(
                    key,
                    "this layer does not have the shape of the post layer",
                    found=f"{against} {list(network.layers[against].shape)}",
                    expected=f"{connection.post} {list(network.layers[connection.post].shape)}",
                )
            )


def check_rules(network: Network, wirings: Mapping[str, Wiring], problems: list[Problem]) -> None:
    """Check that the weights of each learning rule are such that it learns, and that it has all it needs."""
    for name, wiring in wirings.items():
        owner, link = network.connections[name].patch_owner, wiring.link
        if owner is not None and owner.learn is not None and link is not None:
            rule = owner.learn
            rule.check(owner, link, reporter(f"connections.{name}", problems))
            if rule.sums(owner.weights(link)):
                _check_sums(network, name, rule.type, problems)


def _check_sums(network: Network, name: str, rule: str, problems: list[Problem]) -> None:
    """Check that the layers of a rule with sums of its own are whole on each rank, and its weights alone."""
    key = f"connections.{name}.learn"
    if network.parallel.parts > 1:
        message = f"the rule {rule} needs all of its layers on each rank"
        problems.append(Problem(key, message, network.parallel.split, "slices that ranks do not share"))
    problems += [
        Problem(
            key,
            f"weights that learn by the rule {rule} learn in one place only",
            found=f"{other} learns too",
            expected=f"{other} without `error`",
        )
        for other, clone in network.connections.items()
        if clone.borrows == name and clone.learns_against is not None
    ]


def check_normalisers(network: Network, problems: list[Problem]) -> None:
    """Check that connections normalised jointly exist, match in shape, and have a single normaliser."""
    weighted = {name: c.patch_owner for name, c in network.connections.items() if c.patch_owner is not None}
    seen: set[str] = set()
    for name, owner in weighted.items():
        for other in owner.normalize.together if owner.normalize is not None else ():
            key, taken = f"connections.{name}.normalize.together", other == name or other in seen
            seen.add(other)
            if other not in weighted:
                problems.append(unknown(key, "connection with patches of weights", other, weighted))
            elif taken or weighted[other].normalize is not None:
                problems.append(
                    Problem(
                        key, "this connection is normalised twice", other, "a connection without `normalize`"
                    )
                )
            elif (kernels := _kernels(network, owner)) != (found := _kernels(network, weighted[other])):
                problems.append(
                    Problem(
                        key,
                        "these connections differ in mode or number of patches",
                        found=f"{other}: {found}",
                        expected=f"{name}: {kernels}",
                    )
                )


def _kernels(network: Network, conv: PatchOwner) -> str:
    """Describe the properties that connections must share to be normalised jointly."""
    try:
        weights = conv.weights(conv.link(network.layers))
    except (GeometryError, KeyError):
        return "invalid"  # reported elsewhere
    return f"{weights.shape[:3]} for each {weights.per}"


def check_observers(network: Network, problems: list[Problem]) -> None:
    """Check that everything named by probes, outputs and time scales exists."""
    for name, probe in network.probes.items():
        problems += [
            unknown(f"probes.{name}", "layer", layer, network.layers)
            for layer in probe.layers()
            if layer not in network.layers
        ]
        problems += [
            Problem(
                f"probes.{name}",
                f"layer {mask} cannot mask {layer}: their shapes differ",
                found=str(list(network.layers[mask].shape)),
                expected=f"{list(network.layers[layer].shape)}, or the same with one feature",
            )
            for layer, mask in probe.masks()
            if layer in network.layers
            and mask in network.layers
            and network.layers[mask].shape not in _mask_shapes(network.layers[layer].shape)
        ]
        if probe.counts in network.layers:
            problems += _counting(network, name, probe)
        problems += [
            unknown(f"probes.{name}", "connection", connection, network.connections)
            for connection in probe.connections()
            if connection not in network.connections
        ]
    for name, output in network.output.layers.items():
        if name not in network.layers:
            problems.append(unknown(f"output.layers.{name}", "layer", name, network.layers))
            continue
        known = ["A", *(variable.name for variable in network.layers[name].variables())]
        known += [SPIKES] if network.layers[name].spiking else []
        problems += [
            unknown(f"output.layers.{name}.variables", "variable", variable, known)
            for variable in output.variables
            if variable not in known
        ]
    for name, layer in network.layers.items():
        if layer.controller is not None:
            energies = [n for n, probe in network.probes.items() if probe.followed in probe.quantities()]
            if layer.controller.energy not in energies:
                key = f"layers.{name}.time_scale.energy"
                problems.append(unknown(key, "energy probe", layer.controller.energy, energies))
    weighted = {name: c.owner for name, c in network.connections.items() if c.owner is not None}
    problems += [
        unknown(f"output.connections.{name}", "connection with weights", name, weighted)
        for name in network.output.connections
        if name not in weighted
    ]
    for name, wanted in network.output.connections.items():
        key, one = f"output.connections.{name}.variables", weighted.get(name)
        if one is None:
            continue
        owner, found = one.as_patches, f"{name}, of type {network.connections[name].type}"
        known = ["weights", *one.learned, "usage"]
        problems += [
            unknown(key, "variable", variable, known)
            for variable in wanted.variables
            if variable not in known
        ]
        if "usage" not in wanted.variables:
            continue
        if owner is None:
            expected = str(known[:-1]).replace("'", '"')
            problems.append(Problem(key, "only patches have a `usage`", found, expected))
        elif owner.learn is None:
            problems.append(Problem(key, "these weights do not learn", "usage", "a connection with `learn`"))


def _counting(network: Network, name: str, probe: Probe) -> Iterator[Problem]:
    """Yield why a probe cannot be told of the spikes of its layer."""
    assert probe.counts is not None
    layer, run = network.layers[probe.counts], network.run
    if not layer.spiking:
        spiking = [other for other, one in network.layers.items() if one.spiking]
        yield Problem(
            f"probes.{name}.layer",
            "this layer does not spike",
            found=f"{probe.counts}, of type {layer.type}",
            expected=", ".join(spiking) or "a layer that spikes, such as one of type neurons with `spike`",
        )
    if run.until is not None or network.parallel.split:
        found = "run.until" if run.until else network.parallel.split
        yield Problem(f"probes.{name}", "spikes are counted in all steps of whole layers", found=found)


def check_resets(network: Network, problems: list[Problem]) -> None:
    """Check that layers to be reset have state, and are reset to layers of the same shape."""
    for name, layer in network.layers.items():
        key, variables = f"layers.{name}", [variable.name for variable in layer.variables()]
        if layer.restarts.count and not variables:
            message = "this layer has no state to reset: its activity is a function of its input"
            hint = "reset layers with state variables, such as lca"
            if remembers(layer):
                message = "this layer declares no variables, which are what a reset sets"
                hint = "declare a variable for what is to be reset: the activity of the step before is not"
            problems.append(Problem(f"{key}.reset", message, found=layer.type, hint=hint))
        source = layer.reset_to
        if source is None:
            continue
        if source not in network.layers:
            problems.append(unknown(f"{key}.reset_to", "layer", source, network.layers))
        elif network.layers[source].shape != layer.shape or "V" not in variables or not layer.restarts.count:
            problems.append(
                Problem(
                    f"{key}.reset_to",
                    "this layer cannot be reset to the other",
                    found=f"{layer.type} {list(layer.shape)} from {list(network.layers[source].shape)}",
                    expected="`reset`, a layer with a potential V, and two layers of the same shape",
                )
            )


def remembers(layer: Layer) -> bool:
    """Return whether the activity of a layer may depend on the step before otherwise than by its input."""
    if layer.static:
        return False
    try:
        return layer.compiled_rule().memory
    except NotSuitable:
        return True


def unknown(key: str, what: str, found: str, choices: Iterable[str]) -> Problem:
    """Return the problem for an unknown name, with the most similar choice as a hint."""
    known = list(choices)
    return Problem(
        key,
        f"there is no {what} of this name",
        found=found,
        expected=", ".join(known) or "none is defined",
        hint=did_you_mean(found, known),
    )


def _mask_shapes(shape: tuple[int, int, int]) -> tuple[tuple[int, int, int], ...]:
    return shape, (*shape[:2], 1)


def reporter(table: str, problems: list[Problem]) -> Callable[..., None]:
    """Return the function by which a connection reports problems with the keys of its table."""

    def report(
        key: str,
        message: str,
        found: object = "",
        expected: str = "",
        hint: str = "",
        choices: Iterable[str] = (),
    ) -> None:
        problems.append(
            Problem(
                f"{table}.{key}" if key else table,
                message,
                str(found),
                expected or ", ".join(choices),
                hint or did_you_mean(str(found), choices),
            )
        )

    return report
