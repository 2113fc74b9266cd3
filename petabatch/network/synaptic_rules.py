"""Checks of single synapses that learn: what they need of layers and of the run."""

from __future__ import annotations

from collections.abc import Iterator

from petabatch.errors import Problem
from petabatch.network.checks import unknown
from petabatch.spec.network import Network
from petabatch.spec.plasticity import Plasticity
from petabatch.weight_mode import for_each_slice, over_slices


def check_synaptic_rules(network: Network, problems: list[Problem]) -> None:
    """Check that the units of synapses that learn spike, and that the run can have events of synapses."""
    learning = False
    for name, connection in network.connections.items():
        owner = connection.owner
        ends = connection.pre, connection.post
        if owner is None or any(end not in network.layers for end in ends):
            continue
        rule = owner.plasticity
        if rule is None:
            continue
        learning = True
        problems += _ends(network, f"connections.{name}", rule, *ends)
        problems += _factors(network, f"connections.{name}.learn.factors", rule, connection.post)
        if over_slices(owner.mode):
            problems += _of_all_slices(network, f"connections.{name}", owner.mode)
    if learning:
        problems += _run(network)


def _ends(network: Network, key: str, rule: Plasticity, pre: str, post: str) -> Iterator[Problem]:
    """Yield why the layers of a connection have no events."""
    wanted = {"pre": pre} | ({"post": post} if rule.on_post is not None else {})
    for end, name in wanted.items():
        layer = network.layers[name]
        if not layer.spiking:
            spiking = [other for other, one in network.layers.items() if one.spiking]
            yield Problem(
                f"{key}.{end}",
                "synapses learn at spikes, and this layer does not spike",
                found=f"{name}, of type {layer.type}",
                expected=", ".join(spiking)
                or "a layer that spikes, such as one of type neurons with `spike`",
            )
        elif not layer.steady:
            yield Problem(
                f"{key}.{end}",
                "synapses learn at the spikes of each step",
                found=f"{name}, updated every {layer.every} and reset every {layer.restarts}",
                expected="a layer that is updated in every step and never reset",
            )


def _factors(network: Network, key: str, rule: Plasticity, post: str) -> Iterator[Problem]:
    """Yield which activities cannot be read at events."""
    for word, name in rule.factors.items():
        if name not in network.layers:
            yield unknown(f"{key}.{word}", "layer", name, network.layers)
        elif (shape := network.layers[name].shape) not in ((1, 1, 1), own := network.layers[post].shape):
            yield Problem(
                f"{key}.{word}",
                "it is not clear which unit of this layer a synapse reads",
                found=f"{name} {list(shape)}",
                expected=f"a layer of one unit, or of the shape of {post}, {list(own)}",
            )


def _of_all_slices(network: Network, key: str, mode: str) -> Iterator[Problem]:
    """Yield why changes of all slices cannot be added up."""
    own = f'mode = "{for_each_slice(mode)}", in which each slice learns alone'
    if network.run.pool:
        text = "with `run.pool`, weights are frozen or of each slice: slices are computed at different times"
        yield Problem(f"{key}.mode", text, f'mode = "{mode}"', own)
    if network.run.reduce == "overlapped":
        text = "changes of synapses are added up at the end of the step"
        yield Problem("run.reduce", text, '"overlapped"', '"exact"')


def _run(network: Network) -> Iterator[Problem]:
    """Yield what a run with events of synapses cannot have."""
    run, split = network.run, network.parallel.split
    why = "synapses learn at spikes"
    if run.device == "gpu":
        yield Problem("run.device", f"{why}, which compiled code makes on the CPU", "gpu", '"cpu"')
    if run.until is not None:
        yield Problem(
            "run.until", f"{why}, and a display that ends early makes none after", "a table", "none"
        )
    if network.evaluate is not None:
        yield Problem("evaluate", f"{why}, and cannot be frozen for an evaluation", "a table", "none")
    if split:
        yield Problem(f"parallel.{network.parallel.names[0]}", f"{why} of whole layers", split, "1")
