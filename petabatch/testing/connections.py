"""The contract of types of connections."""

from __future__ import annotations

from typing import Any

from petabatch.arguments import checked
from petabatch.connections import Identity
from petabatch.layers import Input, LeakyIntegrator, Rectified
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Connection, Layer
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
    made,
    near,
    of,
    run,
)

NAME = "checked"
"""Of the connection in its network."""
_PRE = _POST = (4, 4, 6)


@checked()
def check_connection(
    kind: type[Connection],
    *,
    pre_shape: tuple[int, int, int] = _PRE,
    post_shape: tuple[int, int, int] = _POST,
    units: Layer | None = None,
    scale: float = 1.0,
    with_: dict[str, Connection] | None = None,
    **keys: Any,
) -> Contract:
    """Check that a type of connections keeps its contract, between layers of active and of leaky units.

    Parameters
    ----------
    kind
        The class.
    pre_shape, post_shape
        Shapes of the layers `pre` and `post`.
    units
        The pre layer, by default one of type `rectified` of `pre_shape`.
    scale
        The standard deviation of the images that the pre layer sees.
    with_
        Further connections by name, such as the owner of its weights.
    **keys
        Keys of the connection, as in a params file.

    Returns
    -------
    Contract
        The properties that hold, and those that do not apply, with the reason.

    Raises
    ------
    ContractError
        If a property does not hold: all of them, with what was found.
    """
    connection = kind(pre="pre", post="post", **keys)
    contract = Contract(f"connections of type {connection.type}")

    def network(others: int | None = None, there: bool = True, **given: Any) -> Network:
        shown = Input(shape=pre_shape, source=images(pre_shape, scale, others))
        found = {"batch": SLICES, "steps": STEPS, "display": DISPLAY} | given
        return Network(
            run=Run(**found),
            layers={
                "images": shown,
                "pre": Rectified(shape=pre_shape) if units is None else units,
                "post": LeakyIntegrator(shape=post_shape, tau=5.0),
            },
            connections={
                "see": Identity(pre="images", post="pre"),
                **((with_ or {}) if there else {}),
                **({NAME: connection} if there else {}),
            },
        )

    state = common(contract, network, "layers/post/")
    if state is None:
        return contract.settled()
    with contract.asks("moves"):
        others = run(network(others=SLICES))
        if others["layers/post/A"].tobytes() == state["layers/post/A"].tobytes():
            raise Broken("with other images, it delivers the same")
    with contract.asks("leaves the pre layer"):
        without = of(run(network(there=False)), "layers/pre/")
        for key, array in without.items():
            mine = state[key]
            if key.endswith("/A"):  # as many steps as connections see
                mine, array = (one[:, STEPS % one.shape[1]] for one in (mine, array))
            if mine.tobytes() != array.tobytes():
                raise Broken(f"{key} is another than without the connection")
    with contract.asks("operation"):
        if connection.operation == "other":
            raise Skipped("its `deliver` itself is called")
        compiled, arrays = (of(run(network(kernel=kernel)), "layers/post/") for kernel in ("auto", "array"))
        near(compiled, arrays, 1e-4)
        if kind.deliver is not Connection.deliver:
            _as_delivered(network(kernel="array"))
    return contract.settled()


def _as_delivered(network: Network) -> None:
    """Compare what an operation makes of the last activities with what `deliver` does."""
    found: list[State] = []
    for by_operation in (True, False):  # each of a state of its own, since what is delayed is added up
        lane = made(network).lanes[0].deliveries
        (edge,) = (one for one in lane.graph.edges["post"] if one.name == NAME)
        arrival = lane.arrival(edge) if by_operation else lane.by_type(edge)
        found.append({f"what connections.{NAME} delivers": arrival(STEPS).copy()})
    near(found[0], found[1], 1e-4)
