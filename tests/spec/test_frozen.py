"""Named tables that cannot be changed."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from petabatch.errors import TableError
from petabatch.layers import Constant
from petabatch.spec.network import Network, Run


@pytest.fixture
def network() -> Network:
    return Network(run=Run(steps=1), layers={"a": Constant(shape=(1, 1, 1))})


@pytest.mark.parametrize(
    "change",
    [
        lambda tables: operator.setitem(tables, "a", None),
        lambda tables: operator.delitem(tables, "a"),
        lambda tables: operator.ior(tables, {}),
        lambda tables: tables.update(b=None),
        lambda tables: tables.pop("a"),
        lambda tables: tables.popitem(),
        lambda tables: tables.setdefault("b"),
        lambda tables: tables.clear(),
    ],
)
def test_the_tables_of_a_network_cannot_be_changed(network: Network, change: Callable[[Any], Any]) -> None:
    before = network.model_dump()
    for tables in (
        network.layers,
        network.connections,
        network.probes,
        network.slices,
        network.output.layers,
    ):
        with pytest.raises(TableError, match="cannot be changed"):
            change(tables)
    assert network.model_dump() == before


def test_a_network_can_be_copied_and_pickled(network: Network) -> None:
    assert copy.deepcopy(network) == network
    assert pickle.loads(pickle.dumps(network)) == network
    assert copy.copy(network.layers) == network.layers
    assert type(network.layers | {}) is dict
