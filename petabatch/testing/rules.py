"""The contract of learning rules."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from petabatch.arguments import checked
from petabatch.connections import Conv, Identity, Transpose
from petabatch.layers import LCA, Input, Linear
from petabatch.network.build import build
from petabatch.spec.network import Network, Run
from petabatch.spec.weights import Learning
from petabatch.testing.contract import (
    DISPLAY,
    SLICES,
    STEPS,
    Broken,
    Contract,
    Skipped,
    State,
    common,
    images,
    near,
    run,
)
from petabatch.weights import L2, Gaussian

NAME = "checked"
"""Of the connection that learns in its network."""
_ROUNDED = 1e-5
_IMAGE, _CODE = (8, 8, 2), (4, 4, 6)


@checked()
def check_rule(
    kind: type[Learning],
    *,
    mode: Literal["shared", "non_shared"] = "shared",
    patch: tuple[int, int] = (4, 4),
    scale: float = 1.0,
    **keys: Any,
) -> Contract:
    """Check that a learning rule keeps its contract, on a dictionary that codes random images.

    Slices learn apart in it. The layers of the network are `images`, `error`, `code` and `recon`, for keys
    such as `error`.

    Parameters
    ----------
    kind
        The class.
    mode
        The mode of the weights.
    patch
        Rows and columns of their patches, at strides of 2.
    scale
        The standard deviation of the images.
    **keys
        Keys of the rule, as in a params file.

    Returns
    -------
    Contract
        The properties that hold, and those that do not apply, with the reason.

    Raises
    ------
    ContractError
        If a property does not hold: all of them, with what was found.
    """
    rule = kind(**keys)
    contract = Contract(f"learning rules of type {rule.type}")

    def network(others: int | None = None, learn: bool = True, **given: Any) -> Network:
        found = {"batch": SLICES, "steps": STEPS, "display": DISPLAY} | given
        return Network(
            run=Run(**found),
            layers={
                "images": Input(shape=_IMAGE, source=images(_IMAGE, scale, others)),
                "error": Linear(shape=_IMAGE),
                "code": LCA(shape=_CODE, tau=2.0, threshold=0.05),
                "recon": Linear(shape=_IMAGE),
            },
            connections={
                "see": Identity(pre="images", post="error"),
                "explain": Identity(pre="recon", post="error", channel="inh", feedback=True),
                NAME: Conv(
                    pre="code", post="recon", patch=patch, init=Gaussian(std=0.3), normalize=L2(),
                    mode=mode, learn=rule if learn else None,
                ),
                "drive": Transpose(pre="error", post="code", of=NAME),
            },
        )  # fmt: skip

    state = common(contract, network, f"connections/{NAME}/")
    if state is None:
        return contract.settled()
    with contract.asks("learns"):
        before = run(network(learn=False))[f"connections/{NAME}/weights"]
        changes = np.abs(state[f"connections/{NAME}/weights"] - before)
        if changes.max() <= _ROUNDED * np.abs(before).max():  # they are normalised again
            raise Broken("the weights are those of a network that does not learn")
    with contract.asks("featurewise"):
        if not rule.featurewise:
            raise Skipped("it is not said to be `featurewise`")
        _featurewise(rule, network(), state)
    return contract.settled()


def _featurewise(rule: Learning, network: Network, state: State) -> None:
    """Compare changes of halves of the pre features with those of all."""
    graph = build(network)
    link, owner = graph.wirings[NAME].link, graph.patched[NAME]
    assert link is not None
    variable = owner.weights(link)
    if rule.sums(variable):
        raise Skipped("it needs sums of its own")
    rng = np.random.default_rng(7)
    weights = state[f"connections/{NAME}/weights"].copy()
    own = {one.name: state[f"connections/{NAME}/{one.name}"].copy() for one in rule.variables(variable)}
    product = rng.normal(size=weights.shape).astype(weights.dtype)
    counts = rng.integers(1, 9, (*weights.shape[:-1], 1)).astype(weights.dtype) if rule.counted else None

    def changed(place: slice) -> State:
        cut = {key: array[:, :, :, place].copy() for key, array in own.items()}
        mine = weights[:, :, :, place].copy()
        of_all = None if counts is None else counts[:, :, :, place].copy()
        rule.change(mine, product[:, :, :, place].copy(), of_all, cut, 3, 1, np)
        return {"weights": mine, **cut}

    half = weights.shape[3] // 2
    first, second, whole = changed(slice(half)), changed(slice(half, None)), changed(slice(None))
    near({key: np.concatenate([first[key], second[key]], 3) for key in whole}, whole, 1e-6)
