"""The check of a network before its run: `petabatch.check`, and what `petabatch check` prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from petabatch.arguments import checked
from petabatch.errors import ResourceError, printable
from petabatch.importing import importing
from petabatch.network.advice import advice
from petabatch.network.plan import Plan
from petabatch.parallel.cores import lane_threads
from petabatch.params import check_values, first_state, given
from petabatch.params import plan as plan_of
from petabatch.report.explain import explain as whole
from petabatch.report.explain import summary
from petabatch.report.lines import field
from petabatch.report.memory import shortage
from petabatch.report.stability import step_limits
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network
from petabatch.storage.files import OUTPUTS
from petabatch.storage.format import format_of

_LEVELS = ("warning", "note")


@dataclass(frozen=True, repr=False)
class Check:
    """What is said of a valid network; `print` and notebooks show its text."""

    text: str
    """The page: shapes, levels, cost, method, and at its end warnings and notes."""
    warnings: tuple[str, ...]
    """What can hardly be meant, or that a run refuses here, such as memory that there is not."""
    notes: tuple[str, ...]
    """What is allowed, and may well be meant."""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


@checked("network")
def check(network: Loaded | Network | str | os.PathLike[str], *, explain: bool = False) -> Check:
    """Return what there is to know of a network before its run, as `petabatch check` prints it.

    Images are opened, and the state of step 0 is made, if there is memory for it. No step is made, and
    nothing is written.

    Parameters
    ----------
    network
        A params file, by its path or loaded, or a network built in Python.
    explain
        Whether the text has the full plan: operations and schedules.

    Returns
    -------
    Check
        The text, its warnings and its notes.

    Raises
    ------
    ParamsError
        With all problems, in `problems`.
    InputError
        If the input cannot be used.

    Examples
    --------
    >>> found = petabatch.check("params/natural_images.toml")
    >>> found.warnings
    ()
    >>> found.text.splitlines()[0]
    'params/natural_images.toml: valid'
    """
    loaded = given(network)
    plan, fields = _plan(loaded)
    fields += _remarks(loaded, plan)
    found = {level: tuple(text for label, text in fields if label == level) for level in _LEVELS}
    counts = [f"{len(texts)} {level}{'s' * (len(texts) > 1)}" for level, texts in found.items() if texts]
    head = f"{loaded.file}: valid{'; ' if counts else ''}{' and '.join(counts)}{' below' if counts else ''}"
    lines = [head, "", whole(plan) if explain else summary(plan)]
    for label, text in fields:
        lines += field(label, text)
    return Check(printable("\n".join(lines)), found["warning"], found["note"])


def _plan(loaded: Loaded) -> tuple[Plan, list[tuple[str, str]]]:
    """Return the plan of a network, of a sweep that of a point, and what is said of points and memory."""
    network, found = loaded.network, None
    fields: list[tuple[str, str]] = []
    if network.sweep is not None or network.run.pool:
        with importing():  # of what writes files
            from petabatch.waves.run import experiment
        found = experiment(loaded)
    if found is None:
        plan = plan_of(loaded)
        check_values(loaded, plan)
    else:
        plan = found.base
        fields.append(("pool" if network.run.pool else "sweep", str(found)))
    run = plan.graph.network.run
    held = plan.graph.network.batch if found is None else found.held(None)
    if (lacking := shortage(plan, held, lane_threads(run))) is not None:
        fields.append(("warning", f"{lacking}; `run` refuses it here"))
    return plan, fields


def _remarks(loaded: Loaded, plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield what is said of a plan: what is missing here, the images, step sizes and advice, with labels."""
    run, arrays = plan.graph.network.run, {}
    if run.device == "gpu":
        from petabatch.engine.gpu.detect import missing

        if (reason := missing()) is not None:
            yield "note", f"no GPU is found, and `run` refuses it here: {reason}"
    kind = OUTPUTS[loaded.network.output.format]
    try:
        if kind.extra:  # else the modules that write files are imported for nothing
            format_of(kind).require()
    except ResourceError as error:
        why, _, hint = str(error).partition("\n    hint:     ")
        yield "note", f"{why}; `run` refuses it here: {hint}"
    if shortage(plan, 1, 1) is None:
        state, images = first_state(loaded, plan)
        arrays = dict(state.arrays)
        yield from (("images", text) for text in images)
        for limit in step_limits(state):
            yield "note" if limit.exceeded else "step size", str(limit)
    yield from ((one.level, one.text) for one in advice(plan, arrays))
