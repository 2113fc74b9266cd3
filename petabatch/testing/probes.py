"""The contract of types of probes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from petabatch.arguments import checked
from petabatch.clock import fires
from petabatch.connections import Conv, Identity, Transpose
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.layers import LCA, Input, Linear, Neurons
from petabatch.parallel.comm import Serial
from petabatch.spec.compiled import NotSuitable
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Probe
from petabatch.testing.contract import (
    DISPLAY,
    SLICES,
    STEPS,
    Contract,
    Skipped,
    State,
    images,
    near,
    run,
    same,
)
from petabatch.weights import L2, Gaussian

NAME = "checked"
"""Of the probe in its network."""
_IMAGE, _CODE = (8, 8, 2), (4, 4, 5)


@checked()
def check_probe(
    kind: type[Probe], *, network: Callable[..., Network] | None = None, scale: float = 1.0, **keys: Any
) -> Contract:
    """Check that a type of probes keeps its contract, on a small network that codes random images.

    Parameters
    ----------
    kind
        The class.
    network
        The network that it measures; by default one with the layers `images`, `error`, `code`, of type `lca`,
        `recon` and `spikes`, which spike, and a connection `dictionary` from `code` to `recon`. Called as
        `network(others=None, **run)`, where `others` is a slice whose images alone stay, and `run` are keys
        of the run.
    scale
        The standard deviation of the images.
    **keys
        Keys of the probe, as in a params file.

    Returns
    -------
    Contract
        The properties that hold, and those that do not apply, with the reason.

    Raises
    ------
    ContractError
        If a property does not hold: all of them, with what was found.
    """
    probe = kind(**keys)
    contract = Contract(f"probes of type {probe.type}")
    base = network or _network(scale)

    def with_probe(others: int | None = None, **given: Any) -> Network:
        found = base(others, **given)
        return found.model_copy(update={"probes": {**found.probes, NAME: probe}})

    measured: State | None = None
    with contract.asks("runs"):
        measured = _measured(with_probe())
    if measured is None:
        return contract.settled()
    with contract.asks("observes"):
        state, without = run(with_probe()), run(base())
        same({key: state[key] for key in without}, without, why="with the probe")
    with contract.asks("repeats"):
        same(_measured(with_probe()), measured, why="in a second run")
    with contract.asks("slices apart"):
        for number in range(SLICES):
            place = np.s_[:, number : number + 1]
            others = _measured(with_probe(number))
            same(_at(others, place), _at(measured, place), why=f"where slices other than {number} see others")
    with contract.asks("batch"):
        same(_measured(with_probe(batch=1)), _at(measured, np.s_[:, :1]), why="alone")
    with contract.asks("resume"):
        half = STEPS // 2
        before = {key: array.copy() for key, array in run(with_probe(steps=half)).items()}
        _measured(with_probe(SLICES))  # which changes what is kept elsewhere than in the state
        later = _measured(with_probe(), (half, before))
        count = {key: len(array) for key, array in later.items()}
        last = {key: array[len(array) - count[key] :] for key, array in measured.items()}
        same(later, last, why=f"in a run that goes on from step {half}")
    with contract.asks("norms"):
        try:
            probe.norms(base().layers)
        except NotSuitable as reason:
            raise Skipped(str(reason)) from None
        near(_measured(with_probe(kernel="array")), measured, 1e-4)
    return contract.settled()


def _at(measured: State, place: Any) -> State:
    return {key: np.ascontiguousarray(array[place]) for key, array in measured.items()}


def _measured(network: Network, after: tuple[int, State] | None = None) -> State:
    """Return what is measured, `[times, slices]`, by quantity."""
    engine = Assembly.of(network, Serial(), 1).engine()
    engine.start()
    if after is not None:
        engine.resume(*after)
    found: dict[str, list[np.ndarray]] = {}
    for step in drive(engine):
        if not fires(engine.plan.flush, step) and step != engine.plan.length:
            continue
        for record in engine.recorder.take(step):
            if record.stream.path.startswith(f"probes/{NAME}/"):
                found.setdefault(record.stream.leaf, []).append(record.values.copy())
        engine.flushed()
    return {path: np.concatenate(values) for path, values in found.items()}


def _network(scale: float) -> Callable[..., Network]:
    """Return what makes a network that codes images, with some neurons."""

    def network(others: int | None = None, **given: Any) -> Network:
        found = {"batch": SLICES, "steps": STEPS, "display": DISPLAY} | given
        return Network(
            run=Run(**found),
            layers={
                "images": Input(shape=_IMAGE, source=images(_IMAGE, scale, others)),
                "error": Linear(shape=_IMAGE),
                "code": LCA(shape=_CODE, tau=5.0, threshold=0.05),
                "recon": Linear(shape=_IMAGE),
                "spikes": Neurons(
                    shape=_CODE, equations="dv/dt = (w - v) / 5\nw = 2", spike="v > 0.5", reset="v = 0"
                ),
            },
            connections={
                "see": Identity(pre="images", post="error"),
                "explain": Identity(pre="recon", post="error", channel="inh", feedback=True),
                "dictionary": Conv(
                    pre="code", post="recon", patch=(4, 4), init=Gaussian(std=0.3), normalize=L2()
                ),
                "drive": Transpose(pre="error", post="code", of="dictionary"),
                "excite": Identity(pre="code", post="spikes", target="v"),
            },
        )

    return network
