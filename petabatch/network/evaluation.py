"""Evaluation on held-out images, `[evaluate]`: the network that codes them, and what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from petabatch.errors import ParamsError, Problem
from petabatch.network.checks import unknown
from petabatch.spec.network import Network, Output
from petabatch.spec.parts import Connection
from petabatch.spec.schedule import DISPLAY, NEVER

NAME = "evaluate"
"""Name of the results, among the probes."""


def check_evaluate(network: Network, problems: list[Problem]) -> None:
    """Check that there is an input layer to show the images, and something that is measured."""
    wanted = network.evaluate
    if wanted is None:
        return
    inputs = [name for name, layer in network.layers.items() if layer.images is not None]
    if wanted.layer is not None and wanted.layer not in inputs:
        problems.append(unknown("evaluate.layer", "input layer", wanted.layer, inputs))
    elif wanted.layer is None and len(inputs) != 1:
        problems.append(
            Problem(
                "evaluate.layer",
                "the input layer that shows the images is not named",
                found=", ".join(inputs) or "no input layer",
                expected="the name of one of them" if inputs else "an input layer",
            )
        )
    if not network.probes:
        problems.append(Problem("evaluate", "nothing is measured", expected="a probe, such as the energy"))
    if NAME in network.probes:
        problems.append(Problem(f"probes.{NAME}", "this name is reserved for the results of `evaluate`"))


def shown_by(network: Network) -> str:
    """Return the name of the input layer that shows the held-out images."""
    assert network.evaluate is not None
    images = (name for name, layer in network.layers.items() if layer.images is not None)
    return network.evaluate.layer or next(images)


def fixed(network: Network) -> dict[str, Connection]:
    """Return the connections of a network with weights that do not learn."""
    return {
        name: connection.model_copy(update={"learn": owner.learn.model_copy(update={"every": NEVER})})
        if (owner := connection.patch_owner) is not None and owner.learn is not None
        else connection
        for name, connection in network.connections.items()
    }


def held_out(network: Network) -> Network:
    """Return the network that codes the held-out images: the same without weight updates and recordings."""
    wanted = network.evaluate
    assert wanted is not None
    shows = shown_by(network)
    layers = {
        name: layer.model_copy(update={"source": wanted.source, "every": DISPLAY} if name == shows else {})
        for name, layer in network.layers.items()
    }
    probes = {
        name: probe.model_copy(update={"every": DISPLAY, "offset": 0})
        for name, probe in network.probes.items()
    }
    run = network.run.model_copy(update={"displays": wanted.displays, "steps": None, "start_from": None})
    own = f"layers.{shows}.source."  # values of the source of the run are none of the held-out images
    return network.model_copy(
        update={
            "layers": layers,
            "connections": fixed(network),
            "probes": probes,
            "run": run,
            "output": Output(),
            "evaluate": None,
            "over_time": {path: v for path, v in network.over_time.items() if not of_updates(path)},
            "slices": {path: v for path, v in network.slices.items() if not path.startswith(own)},
            "sweep": network.sweep and network.sweep.without(own, run.seed),
        }
    )


def of_updates(path: str) -> bool:
    """Return whether a key path is that of an update of weights, of which an evaluation makes none."""
    return path.startswith("connections.") and path.split(".")[2] in ("learn", "decorrelate", "revive")


@contextmanager
def naming_evaluate(network: Network) -> Iterator[None]:
    """Have errors in the source of the held-out images name the keys of `[evaluate]`."""
    key = f"layers.{shown_by(network)}.source"
    try:
        yield
    except ParamsError as error:
        problems = [
            replace(problem, key=f"evaluate.source{problem.key.removeprefix(key)}")
            if problem.key.startswith(key)
            else problem
            for problem in error.problems
        ]
        raise type(error)(problems, error.file) from None


def quantities(network: Network) -> Iterator[tuple[str, str, str]]:
    """Yield what is recorded under `/probes/evaluate`: name, path in the evaluation, description."""
    for probe, measure in network.probes.items():
        for quantity, description in measure.quantities().items():
            yield f"{probe}_{quantity}", f"probes/{probe}/{quantity}", f"{description}, of held-out images"
