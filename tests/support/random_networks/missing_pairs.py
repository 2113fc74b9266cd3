"""Keys that are given to the parts of a drawn network for pairs that are still missing, valid or not.

What `check` refuses is taken out again (`repairing.py`), and its message is why the pair is missing.
"""

from __future__ import annotations

from typing import Any

from petabatch.errors import TableError
from petabatch.spec.network import Network
from support.random_networks.coverage import Coverage
from support.random_networks.pairs import neighbours
from support.random_networks.seen import Seen, keys_of
from support.random_networks.tables import Tables
from support.random_networks.values import drawn, values
from support.random_networks.words import Keys, replaced, type_word, word_of, words

_KEYS = 3
"""Most keys that a part is given."""


def with_missing_pairs(network: Network, coverage: Coverage, seen: Seen, tables: Tables) -> Network:
    """Return a network whose parts have keys more, those with most pairs that are missing."""
    said = {
        (kind, name): {one.word for one in words(part)}
        for kind in ("layers", "connections", "probes")
        for name, part in getattr(network, kind).items()
    }
    beside: dict[tuple[str, str], set[str]] = {place: set() for place in said}
    for one, other in map(tuple, neighbours(network)):
        for place, near in ((one, other), (other, one)):
            at, by = (tuple(end.split(".", 1)) for end in (place, near))
            if at in beside and by in said:
                beside[at] |= said[by]
    for (kind, name), mine in said.items():
        part = getattr(network, kind)[name]
        for _ in range(int(tables.rng.integers(_KEYS + 1))):
            given = _with_a_key(part, mine, beside[kind, name], coverage, seen, tables)
            if given is not None:
                part, word = given
                mine.add(word)
        network = network.model_copy(update={kind: {**getattr(network, kind), name: part}})
    return network


def _with_a_key(
    part: Any, mine: set[str], near: set[str], coverage: Coverage, seen: Seen, tables: Tables
) -> tuple[Any, str] | None:
    """Return a part with the key that is wanted most, and its word; None where there is none."""
    own = type_word(type(part))
    options: list[tuple[Keys, Any, str]] = []
    weights: list[float] = []
    for path, table, key in keys_of(part):
        usual = ((value, word_of(type(table), key, value)) for value in values(type(table), key))
        for value, word in (*usual, *seen.fitting(table, key, tables.rng)):
            again = word in mine and not coverage.wanted_twice(word)
            if drawn(word) and not again and not coverage.useless(own, word):
                options.append((path, value, word))
                weights.append(coverage.weight(word, mine, near, tables.about))
    if not any(weights):
        return None
    path, value, word = options[tables.weighted(range(len(options)), weights)]
    try:
        return replaced(part, path, value), word
    except TableError as error:
        coverage.refuse_in(own, word, mine, error.problems[0].message.partition("\n")[0])
        return None
