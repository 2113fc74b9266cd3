"""Values and tables that the parts of accepted networks have, for other parts to be given them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from petabatch.layers.timescale import TimeScale
from petabatch.spec.model import Model, Part
from petabatch.spec.network import Network
from petabatch.spec.weights import Learning
from support.random_networks.drawing import OF_SPIKING
from support.random_networks.words import (
    Keys,
    literals,
    named,
    replaced,
    tables_of,
    type_word,
    value_at,
    word_of,
    words,
)  # fmt: skip


class Seen:
    """The latest value, or table, with each word, by key and by type of table."""

    def __init__(self) -> None:
        self._of = dict[str, dict[str, Any]]()

    def add(self, network: Network) -> None:
        """Take note of what the parts of a network have."""
        for part in (*network.layers.values(), *network.connections.values(), *network.probes.values()):
            for _, table, key in keys_of(part):
                value, name = getattr(table, key), named(type(table), key)
                if _of_names(type(table), key, value):
                    continue
                self._of.setdefault(name, {})[word_of(type(table), key, value)] = value
                inner = value.items() if isinstance(value, dict) else [(None, value)]
                for _, named_one in inner:
                    one = _without_names(named_one)
                    if isinstance(one, Part):
                        self._of.setdefault(type_word(type(one)), {}).update(
                            {said.word: one for said in words(one)}
                        )

    def fitting(self, table: Model, key: str, rng: np.random.Generator) -> Iterator[tuple[Any, str]]:
        """Yield what has been seen that a key has room for, with a word of each."""
        now = getattr(table, key)
        for word, value in self._of.get(named(type(table), key), {}).items():
            yield value, word
        for kind in tables_of(type(table), key):
            if issubclass(kind, Part) and (now or not isinstance(now, Mapping)):
                for word, value in self._of.get(type_word(kind), {}).items():
                    whole = (
                        {**now, str(rng.choice(sorted(now))): value} if isinstance(now, Mapping) else value
                    )
                    yield whole, word


def keys_of(part: Any) -> list[tuple[Keys, Any, str]]:
    """Return the keys of a part and of the tables in it, with their paths."""
    tables: dict[Keys, Any] = {(): part} | {
        one.path: value_at(part, one.path) for one in words(part) if one.of_table and one.path
    }
    return [
        ((*path, key), table, key)
        for path, table in tables.items()
        for key in type(table).model_fields
        if key not in ("type", "shape", "start")
    ]


def _without_names(table: Any) -> Any:
    """Return a table that names no parts of its network, None where it has to."""
    if isinstance(table, TimeScale):
        return None
    return replaced(table, (table.against_key,), None) if isinstance(table, Learning) else table


def _of_names(model: type[Model], key: str, value: Any) -> bool:
    """Return whether a value names other parts of its network."""
    some = value if isinstance(value, tuple) else (value,)
    names = [one for one in some if isinstance(one, str) and one not in literals(model, key)]
    return bool(names) and key not in OF_SPIKING
