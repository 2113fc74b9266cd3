"""Params files: from the text to a checked plan and the state of step 0, without what only a run needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from petabatch import builtins  # noqa: F401  (makes every built-in type known)
from petabatch.arguments import checked
from petabatch.engine.features import AllFeatures
from petabatch.engine.images import found, log_notes, open_images
from petabatch.engine.start import Start
from petabatch.engine.state import State
from petabatch.errors import ArgumentError, ParamsError, Problem
from petabatch.kernels.cuda.device import Limits
from petabatch.network.build import build
from petabatch.network.capacity import check_capacity
from petabatch.network.evaluation import held_out, naming_evaluate
from petabatch.network.over_time import knots
from petabatch.network.plan import Plan, schedule
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.spec.load import Loaded, PartlyWrong, load
from petabatch.spec.network import Network


@checked("file", "overrides")
def read(file: str | os.PathLike[str], overrides: Sequence[str] = (), *, allow_code: bool = True) -> Loaded:
    """Load a params file, with every problem in its tables and in their wiring reported at once.

    Parameters
    ----------
    file
        A `.toml` file, a `.py` file that defines `network`, or a `.params` file of PetaVision, which is
        translated (see `petabatch import`).
    overrides
        Texts such as `"run.batch=4"`.
    allow_code
        Whether the file's plug-ins and a params file in Python are executed.

    Returns
    -------
    Loaded
        The network with the lines of its keys, for `run` and others; `loaded.network` is the network.

    Raises
    ------
    ParamsError
        With all problems, in `problems`.

    Examples
    --------
    >>> loaded = petabatch.load("params/natural_images.toml", ["run.displays=2"])
    >>> loaded.network.run.displays
    2
    """
    if not isinstance(file, str | os.PathLike):
        hint = "a network built in Python needs no loading" if isinstance(file, Network) else ""
        raise ArgumentError("file", "this is not a path", file, "the path of a params file", hint)
    if not _are_texts(overrides):
        pairs = overrides.items() if isinstance(overrides, dict) else ()
        texts = [overrides] if isinstance(overrides, str) else [f"{key}={value}" for key, value in pairs]
        hint = f"{texts}" if texts else ""
        expected = 'a list of texts such as "run.batch=4"'
        raise ArgumentError("overrides", "these are not overrides", overrides, expected, hint)
    try:
        if Path(file).suffix == ".params":
            from petabatch import petavision

            return petavision.load(Path(file), overrides)
        if Path(file).suffix == ".lua":
            hint = f"petabatch import {file} -o FILE.toml"
            problem = Problem("", "files in Lua are executed by import alone", hint=hint)
            raise ParamsError([problem], str(file))
        return load(Path(file), overrides, allow_code)
    except PartlyWrong as error:
        try:
            if error.sound is not None:
                build(error.sound)
        except ParamsError as wiring:
            raise error.joined(wiring.problems) from None
        raise


def _are_texts(values: object) -> bool:
    if not isinstance(values, Iterable) or isinstance(values, str | dict):
        return False
    return all(isinstance(one, str) for one in values)


def given(network: object) -> Loaded:
    """Return what a run was given as a loaded network: one already, a network built in Python, or a path."""
    if isinstance(network, Loaded):
        return network
    if isinstance(network, Network):
        return Loaded.from_network(network)
    if isinstance(network, str | os.PathLike):
        return read(network)
    hint = "petabatch.Network(**tables)" if isinstance(network, dict) else ""
    expected = "a Network, a params file loaded by petabatch.load, or its path"
    raise ArgumentError("network", "this is not a network", network, expected, hint)


def plan(loaded: Loaded, limits: Limits | None = None, hosts: int = 1) -> Plan:
    """Check the network of a params file and derive its plan; errors name the file and line.

    `limits` are those of the GPU that runs it, None where it is not known; `hosts` have the memory for it.
    """
    with loaded.placing():
        check_capacity(loaded.network, hosts)
        return schedule(build(loaded.network), limits)


def check_values(loaded: Loaded, plan: Plan) -> None:
    """Raise ParamsError, with file and line, if values per slice or over time need another kernel."""
    with loaded.placing():
        for number in range(loaded.network.batch):
            own = plan.of_slice(number)
            for step in knots(own.graph.network):
                own.at_step(step)


def first_state(loaded: Loaded, plan: Plan) -> tuple[State, list[str]]:
    """Return the state of step 0 of one slice, and which images were found.

    Raises InputFileError as a run does, with file and line.

    Transforms that are to be fitted to images, which may take long, are not: these images are not shown.
    """
    with loaded.placing():
        state = State(plan.graph, plan.graph.variables, 0, 1)
        readers = open_images(plan, BlockingIO())
        log_notes(readers)
        images = found(readers)
        Start(state, AllFeatures(plan)).fill(
            {name: read for name, read in readers.items() if not plan.inputs[name].source.unfitted}
        )
        if loaded.network.evaluate is not None:
            with naming_evaluate(loaded.network):
                open_images(schedule(build(held_out(loaded.network))), BlockingIO())
        if loaded.network.run.start_from is not None:
            from petabatch.start_from import checkpoint_of

            checkpoint_of(Path(loaded.network.run.start_from))
    return state, images
