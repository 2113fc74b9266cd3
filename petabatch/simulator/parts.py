"""Layers, connections and probes of a simulator: what can be read and assigned, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from petabatch.arguments import checked, whole_number
from petabatch.errors import MISSING, ArgumentError, UnknownName, did_you_mean, unknown
from petabatch.network.slices import sliced
from petabatch.results.synapses import Between, SynapseTable, table_of
from petabatch.simulator import numbers
from petabatch.simulator.state_array import StateArray, assigned
from petabatch.spec.network import Network

if TYPE_CHECKING:
    from petabatch.simulator.simulator import Simulator

HISTORY = "history"
"""The activity of a layer in the last steps."""


class Part(ABC, Mapping[str, Any]):
    """A part of the network: its arrays `[batch, ...]` by name, and its numbers by key."""

    kind: str
    """The table of the network: `layers`, `connections` or `probes`."""

    def __init__(self, simulator: Simulator, name: str) -> None:
        self._simulator, self.name = simulator, name

    @property
    @abstractmethod
    def arrays(self) -> tuple[str, ...]:
        """The names of its arrays."""

    @abstractmethod
    def _read(self, name: str) -> np.ndarray:
        """Return a copy of one of `arrays`."""

    def _write(self, name: str, key: Any, value: Any) -> np.ndarray:
        """Assign `[name][key] = value`; return the whole array."""
        raise ArgumentError(
            f"{self.kind}.{self.name}.{name}", "this is measured, and cannot be assigned", MISSING
        )

    def __getitem__(self, name: str) -> Any:
        """Return an array as it is now, or a number; raises UnknownName, a KeyError."""
        if isinstance(name, str) and name in self.arrays:
            return StateArray.of(self._read(name), lambda key, value: self._write(name, key, value))
        found = numbers.number(self._simulator.network, self._path(name)) if isinstance(name, str) else None
        if found is None:
            known = list(dict.fromkeys((*self.arrays, *self._table_keys())))
            hint = did_you_mean(str(name), known) or self._elsewhere(str(name))
            raise self._unknown(f"no {name}", known, hint)
        return found

    def __contains__(self, name: object) -> bool:
        """Return whether there is an array or a number of this name, without reading it."""
        if not isinstance(name, str):
            return False
        return name in self.arrays or numbers.number(self._simulator.network, self._path(name)) is not None

    def __setitem__(self, name: str, value: Any) -> None:
        """Assign an array as numpy does, or change a number, of all slices or `[batch]` of each."""
        if not isinstance(name, str) or self._is_misspelt(name):
            self[name]  # raises UnknownName
        if name in self.arrays:
            self._write(name, ..., value)
        else:
            self._simulator._opened.change_number(self._path(name), value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return f"<{self.kind}.{self.name}: {', '.join(self.arrays)}>"

    def _ipython_key_completions_(self) -> list[str]:
        """Return what a notebook completes `sim["V1"]["` with."""
        return [*self.arrays, *self._table_keys()]

    @checked()
    def gather(self, name: str) -> np.ndarray:
        """Return an array with the slices of all ranks, on each rank; collective.

        Raises UnknownName if there is no such array: numbers have the values of all slices on each rank.
        """
        if name not in self.arrays:
            place = f'sim["{self.name}"]["{name}"]'
            hint = f"a number has the values of all slices on each rank: {place}" if name in self else ""
            hint = hint or did_you_mean(name, self.arrays) or self._elsewhere(name)
            raise self._unknown(f"no array {name}", self.arrays, hint)
        mine = np.array(self[name])
        others = self._simulator._engine.comm
        whole = others.gather(mine if self._batched(name) else None)
        found: np.ndarray = others.broadcast(
            None if whole is None else np.concatenate(whole) if whole[0] is not None else mine
        )
        return found

    def _batched(self, name: str) -> bool:
        return True

    def _unknown(self, what: str, known: Sequence[str], hint: str) -> UnknownName:
        text = f"{self.kind}.{self.name} has {what}\n    expected: {', '.join(known) or 'nothing'}"
        return UnknownName(text + (f"\n    hint:     {hint}" if hint else ""))

    def _is_misspelt(self, name: str) -> bool:
        """Return whether a name that is neither an array nor a key resembles an array."""
        table = getattr(self._simulator.network, self.kind)[self.name]
        if name in self.arrays or name.partition(".")[0] in type(table).model_fields:
            return False
        return did_you_mean(name, self.arrays) != ""

    def _elsewhere(self, name: str) -> str:
        """Return where an array of this name is, if not here."""
        return ""

    def _path(self, name: str) -> str:
        return f"{self.kind}.{self.name}.{name}"

    def _table_keys(self) -> list[str]:
        network, path = self._simulator.network, f"{self.kind}.{self.name}"
        return list(numbers.keys(network, path, getattr(network, self.kind)[self.name]))


class StatePart(Part):
    """A layer or a connection, with arrays of the state."""

    @property
    def arrays(self) -> tuple[str, ...]:
        """Variables; of layers also the `history` of the activity."""
        prefix = f"{self.kind}/{self.name}/"
        saved = self._simulator._engine.state.saved()
        found = [key.removeprefix(prefix) for key in saved if key.startswith(prefix)]
        if self.kind == "layers" and HISTORY not in found:
            found.append(HISTORY)
        return tuple(found)

    def _read(self, name: str) -> np.ndarray:
        self._simulator._engine.collect()
        array, place = self._array(name)
        found: np.ndarray = array[place].copy()
        return found

    def _write(self, name: str, key: Any, value: Any) -> np.ndarray:
        live, path = self._simulator._live, self._path(name)
        live.engine.collect()
        array, place = self._array(name)
        variable = live.engine.state.variables[self._key(name)]
        values = assigned(path, array[place], key, value, variable.infinite, variable.whole)
        array[place] = values
        live.assign(self._key(name), array)
        self._simulator._opened.note(path)
        return values

    def _key(self, name: str) -> str:
        prefix = f"{self.kind}/{self.name}"
        declared = f"{prefix}/{name}" in self._simulator._engine.state.variables
        return f"{prefix}/A" if name == HISTORY and not declared else f"{prefix}/{name}"

    def _array(self, name: str) -> tuple[np.ndarray, Any]:
        """Return a whole array of the state, and what of it `name` is."""
        engine, key = self._simulator._engine, self._key(name)
        array = self._simulator._live.whole(key)
        if self.kind != "layers" or not key.endswith("/A"):
            return array, ...
        depth = array.shape[1]
        if name == "A":
            return array, np.s_[:, engine.step % depth]
        return array, (slice(None), (engine.step - np.arange(depth)) % depth)

    def _batched(self, name: str) -> bool:
        return self._simulator._engine.state.variables[self._key(name)].per == "slice"


class ProbePart(Part):
    """A probe, measured when it is read."""

    kind = "probes"

    @property
    def arrays(self) -> tuple[str, ...]:
        """Its quantities."""
        return tuple(self._simulator.network.probes[self.name].quantities())

    def _read(self, name: str) -> np.ndarray:
        engine = self._simulator._engine
        found = []
        for group in engine.dispatch.groups:
            with engine.backend.holding(group.lanes):
                found += [
                    (lane.lanes.start, lane.observer.quantity(self.name, name, engine.step))
                    for lane in group.all
                ]
        return np.concatenate([values for _, values in sorted(found, key=lambda one: one[0])])


class LayerPart(StatePart):
    """A layer."""

    kind = "layers"


class ConnectionPart(StatePart):
    """A connection."""

    kind = "connections"

    def _elsewhere(self, name: str) -> str:
        owner = self._simulator.network.connections[self.name].borrows
        return f'its weights are those of {owner}: sim["{owner}"]["weights"]' if owner is not None else ""


def synapses_of(simulator: Simulator, name: str, number: int) -> SynapseTable:
    """Return the single synapses of a connection in a slice of this rank, as they are now.

    Raises UnknownName if the connection has none, ArgumentError for a slice of another rank.
    """
    graph, mine = simulator._engine.plan.graph, simulator.slices
    if name not in graph.synapses:
        raise unknown("connection with single synapses", name, list(graph.synapses))
    given = whole_number("slice", number)
    number = mine.stop + given if given < 0 else given
    if number not in mine:
        raise ArgumentError("slice", "this rank does not have it", given, f"{mine.start} to {mine.stop - 1}")
    connection, place = part(simulator, f"connections.{name}"), number - mine.start
    arrays = {
        key: connection[key] for key in ("starts", "targets", "weights", "delays") if key in connection.arrays
    }
    own = {key: np.asarray(array[place if len(array) > 1 else 0]) for key, array in arrays.items()}
    network = sliced(graph.network, number)
    table = network.connections[name]
    between = Between(
        network.layers[table.pre].shape, network.layers[table.post].shape, graph.synapses[name].mode
    )
    return table_of(
        between, own["starts"], own["targets"], own["weights"], own.get("delays"), network.run.dt,
        simulator.n_steps, f"connection {name}, slice {number}",
    )  # fmt: skip


_KINDS: tuple[type[Part], ...] = (LayerPart, ConnectionPart, ProbePart)


def parts(network: Network) -> dict[str, type[Part]]:
    """Return the kinds of all parts, by path, such as `layers.V1`."""
    return {f"{kind.kind}.{name}": kind for kind in _KINDS for name in getattr(network, kind.kind)}


def named(network: Network, name: object) -> list[str]:
    """Return the paths of parts that are, or end in, a name."""
    if not isinstance(name, str):
        return []
    return [path for path in parts(network) if name in (path, path.partition(".")[2])]


def part(simulator: Simulator, name: str) -> Part:
    """Return the part of a name or path.

    Raises UnknownName if there is none, ArgumentError if there are several.
    """
    network = simulator._engine.plan.graph.network  # raises once the simulator is closed
    known, found = parts(network), named(network, name)
    if len(found) == 1:
        return known[found[0]](simulator, found[0].partition(".")[2])
    if found:
        raise ArgumentError("name", "several parts have this name", name, " or ".join(found))
    raise unknown("layer, connection or probe", name, [path.partition(".")[2] for path in known])
