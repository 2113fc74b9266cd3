"""Random networks: layers of all types around a sparse code, joined in all ways and observed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.connections import Conv, Identity, Transpose
from petabatch.layers import Constant, Input, Linear, MaxUnpool, Neurons
from petabatch.network.numbers import problem_of_values
from petabatch.probes import Energy, Optimality, SpikeStatistics
from petabatch.spec.model import Model
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run, Until
from petabatch.spec.over_time import OverTime
from petabatch.spec.parts import NEVER, Layer, Probe
from petabatch.spec.schedule import DISPLAY, STEP, Every
from petabatch.spec.sweep import Range, Sweep
from support.random_networks.joining import Joining
from support.random_networks.sources import random_source
from support.random_networks.spiking import spiking
from support.random_networks.tables import Nothing, Wanted
from support.random_networks.values import values
from support.random_networks.words import keys

CODES = ("lca", "lca", "lca", "ista", "heavy_ball", "momentum_lca", "fista")
OF_SPIKING = {
    "equations",
    "parameters",
    "currents",
    "spike",
    "refractory",
    "activity",
    "rate",
    "spikes",
    "path",
}
"""Keys of spiking layers that are drawn together."""
RUN = "run"
"""What is `beside` the parts of a network."""
LOOP = {"image": "image", "reconstruction": "recon", "code": "code", "drive": "drive"}
"""What is called what in the sparse code."""
STEPS, DISPLAYS = 4, 3
"""Steps of a display, and displays of a network."""


class Drawing(Joining):
    """A network that is being drawn."""

    def __init__(self, seed: int, folder: Path, wanted: Wanted | None = None) -> None:
        """Begin with nothing; files that the network names are made in `folder`."""
        super().__init__(seed, folder, wanted or Nothing())
        self.phases = self.one_of("none", "all", "some")
        self.most = 5
        """Layers around the sparse code, at most."""
        self.beside = dict[str, set[str]]()
        """Words that are to be said of parts when these are drawn: of their output, and how they vary."""
        down, channels = int(self.rng.integers(1, 4)), int(self.rng.integers(1, 4))
        ny, nx = (int(n) for n in self.rng.integers(1, 6, 2))
        features = int(self.rng.integers(1, self.one_of(8, 8, 40)))
        self.fine, self.coarse = (ny * down, nx * down, channels), (ny, nx, features)
        self.shapes = [self.fine, self.fine, self.coarse, self.coarse, (ny, nx, channels), (ny, nx, 1)]
        self.shapes += [(ny, nx, channels + 1), (ny, nx, 2 * channels + 2)]

    def network(self) -> Network:
        """Return the network, which `check` may refuse; raises TableError where a table is refused."""
        with warnings.catch_warnings(action="ignore"):  # of the momentum, and of values that do little
            self.layer("image", Input, self.fine)
            alone = self.chance(0.1)
            if alone or self.chance(0.85):
                self.loop()
            if not alone:
                for _ in range(int(self.rng.integers(1, self.most + 1))):
                    kind, shape = self.type_of(Layer), self.one_of(*self.shapes)
                    self.layer(f"{kind.model_fields['type'].default}{len(self.layers)}", kind, shape)
                self.join()
            self.observe()
            return self.whole()

    # Layers

    def layer(
        self, name: str, kind: type[Layer], shape: tuple[int, int, int], without: Sequence[str] = ()
    ) -> None:
        """Add a layer; keys of `without` stay at their defaults."""
        given: dict[str, Any] = {"shape": shape}
        if self.phases == "all" or (self.phases == "some" and self.chance(0.3)):
            given["phase"] = int(self.rng.integers(4)) if self.phases == "all" else 2 * len(self.layers)
        twins = [other for other, layer in self.layers.items() if layer.shape == shape]
        more: dict[str, Any] = {
            "phase": [], "start": [], "batch": [1] if kind is Constant else [],
            "border": ["mirror", 0.5], "features": [(0,), (0, shape[2] - 1)],
            "reset_to": twins, "every": values(kind, "every")[: None if self.chance(0.1) else -1],
            "time_scale": [self.time_scale(f"of_{name}", set())],
        }  # fmt: skip
        more |= dict.fromkeys(without, ())
        if kind is Input:
            given["border"] = self.one_of("zero", "zero", "mirror", 0.5, "image")
            given["source"] = random_source(self, shape, self.batch, given["border"] == "image")
            if self.chance(0.1):
                given |= {"every": NEVER, "batch": 1}
        if kind is MaxUnpool:
            given["window"] = tuple(self.one_of(1, *[2] * (size % 2 == 0)) for size in shape[:2])
        own = spiking(self, kind, shape, self.batch)
        more |= dict.fromkeys(OF_SPIKING & kind.model_fields.keys(), ()) if own else {}
        made = self.fill(kind, given | own, more=more)
        state = {variable.name: variable for variable in made.variables() if variable.dtype == "float"}
        changed: dict[str, Any] = {}
        if not made.variables() or (made.reset_to is not None and "V" not in state):
            changed = {"reset_to": None} | ({} if made.variables() else {"reset": NEVER})
        elif made.reset_to is not None and made.reset == NEVER:
            changed = {"reset": self.one_of(Every(3), DISPLAY)}
        if made.offset and made.every in (STEP, NEVER) and changed.get("reset", made.reset) == NEVER:
            changed["offset" if isinstance(made, Input) else "every"] = (
                0 if isinstance(made, Input) else Every(2)
            )
        units = [name for name, variable in state.items() if variable.shape == shape]
        units += [] if "V" in state or kind is Input else ["A"]
        if units and kind is not Neurons and self.chance(0.2):
            changed["start"] = {self.one_of(*units): self.initial(shape, set(), self.batch)}
        self.layers[name] = made.model_copy(update=changed)

    def loop(self) -> None:
        """Add a sparse code of the image, its reconstruction and its error; most can be lazily evaluated."""
        lazy = self.chance(0.75)
        code = self.type_of(Layer, among=("lca",) if lazy else CODES)
        without = ("every", "minimum", "vertices") if lazy else ()
        self.layer("error", Linear, self.fine)
        self.layer("code", code, self.coarse, without)
        self.layer("recon", Linear, self.fine)
        self.connect("image_to_error", Identity, "image", "error", channel="exc")
        self.connect("recon_to_error", Identity, "recon", "error", channel="inh", feedback=True)
        self.connect("dictionary", Conv, "code", "recon")
        self.connect("drive", Transpose, "error", "code", of="dictionary")

    # Observers, numbers that vary, the run

    def observe(self) -> None:
        """Add probes, those that time scales follow among them."""
        for name, layer in self.layers.items():
            if layer.controller is not None:
                error = "error" if "error" in self.layers else "image"
                self.probes[f"of_{name}"] = self.fill(
                    Energy, {"error": error, "code": name, "coefficient": 0.1}, self.said(name)
                )
        for number in range(int(self.rng.integers(0, 5))):
            self.probe(f"probe{number}", self.one_of(*self.layers))

    def probe(self, name: str, layer: str, kind: type[Probe] | None = None) -> None:
        """Add a probe of a layer, of any type unless it is given."""
        near = self.said(layer)
        kind = kind or self.type_of(Probe, near)
        what = kind.model_fields["type"].default
        shape, alike = self.layers[layer].shape, self.alike(layer)
        masks = [m for m, other in self.layers.items() if other.shape in (shape, (*shape[:2], 1))]
        if kind is SpikeStatistics:
            spiking = [other for other, one in self.layers.items() if one.spiking]
            if not spiking:
                return
            layer = layer if layer in spiking else self.one_of(*spiking)
        other = self.one_of(*alike)
        given: dict[str, Any] = {
            "energy": {"error": layer, "code": self.one_of(*self.layers), "coefficient": 0.1},
            "psnr": {"image": layer, "reconstruction": other},
            "optimality": self._lasso(layer),
            "quotient": {"numerator": self.cost(layer, masks), "denominator": self.cost("image", [])},
            "sum": {"terms": {"one": self.cost(layer, masks), "two": self.cost("image", [])}},
        }.get(what, {"layer": layer})  # fmt: skip
        if not given:
            return
        firm = what == "energy" and self.chance(0.2)
        given |= {"cost": "firm", "corner": 0.4} if firm else {}
        more = {"mask": masks} | ({} if firm or what != "energy" else {"cost": ["l0"]})
        self.probes[name] = self.fill(kind, given, near, more)

    def _lasso(self, layer: str) -> dict[str, Any]:
        """Return what an optimality probe is of, with a layer as code or image; nothing without a drive."""
        drives = [(name, one) for name, one in self.connections.items()
                  if layer == one.post or self.layers[one.pre].shape == self.layers[layer].shape]  # fmt: skip
        if not drives:
            return {}
        name, drive = self.one_of(*drives)
        image = self.one_of(*self.alike(drive.pre)) if layer == drive.post else layer
        loop = {"image": image, "reconstruction": self.one_of(*self.alike(image)), "code": drive.post}
        return {**loop, "drive": name, "coefficient": 0.1}

    def outputs(self) -> Output:
        """Draw what is recorded."""
        layers, connections = {}, {}
        for name, layer in self.layers.items():
            variables = ["A", *(variable.name for variable in layer.variables())]
            self.demanded = frozenset(self.beside.get(name, ()))
            if self.demanded or self.chance(0.5):
                layers[name] = self.fill(LayerOutput, {}, self.said(name), {"variables": [tuple(variables)]})
        for name, one in self.connections.items():
            self.demanded = frozenset(self.beside.get(name, ()))
            if isinstance(one, Conv) and (self.demanded or self.chance(0.5)):
                usage = [("weights", "usage")] if one.learn is not None else []
                connections[name] = self.fill(ConnectionOutput, {}, self.said(name), {"variables": usage})
        self.demanded = frozenset(self.beside.get(RUN, ()))
        return self.fill(Output, {"layers": layers, "connections": connections})

    def whole(self) -> Network:
        """Return the network of all that has been drawn, with numbers that vary."""
        length = {"steps": STEPS * DISPLAYS} if self.chance(0.3) else {"displays": DISPLAYS}
        given: dict[str, Any] = {"batch": self.batch, "display": STEPS, **length}
        given["precision"] = "float64" if self.chance(0.05) else "float32"
        shown = [layer for layer in self.layers.values() if isinstance(layer, Input)]
        steady = all(one.every in (DISPLAY, NEVER) for one in shown)
        self.demanded = frozenset(self.beside.get(RUN, ()))
        until = any(word.startswith("Until.") for word in self.demanded)
        if "code" in self.layers and (until or (self.chance(0.3) and steady)):
            self.probes["gap"] = self.fill(Optimality, {**LOOP, "coefficient": 0.1})
            given["until"] = self.fill(Until, {"gap": self.one_of(0.05, 0.5)}, more={"probe": ["gap"]})
        network = Network(
            run=self.fill(Run, given), layers=self.layers, connections=self.connections, probes=self.probes,
            output=self.outputs(),
        )  # fmt: skip
        self.demanded = frozenset()
        paths = [
            (path, value)
            for path, value in self._numbers()
            if problem_of_values(network, path, path, [value]) is None
        ]
        varied: dict[str, Any] = {"slices": {}, "over_time": {}}
        for way in varied:
            for part in [None] * int(self.rng.integers(0, 4)) + self._varied(way):
                free = [one for one in paths if not any(one[0] in found for found in varied.values())]
                free = [one for one in free if part in (None, one[0].split(".")[1])]
                if not free:
                    continue
                said = [(path, self.said(path.split(".")[1])) for path, _ in free]
                path, value = self.weighted(free, [1 + self._vary(way, one, parts) for one, parts in said])
                varied[way][path] = self._slices(value) if way == "slices" else self._course(path, value)
        together = any(
            isinstance(one, Conv) and one.learn is not None and one.mode.startswith("extra_")
            for one in self.connections.values()
        )
        of = self._varied("sweep")
        swept = [one for one in paths if one[0].split(".")[1] in of] or paths
        if swept and (of or (not together and self.chance(0.3))):
            varied["sweep"] = self._sweep(swept)
        return network.model_copy(update=varied)

    def _varied(self, way: str) -> list[str]:
        """Return the parts of which a number is to vary in a way."""
        more = {"over_time": ("OverTime.",), "sweep": ("Sweep.", "Range.")}.get(way, ())
        return [name for name, words in self.beside.items() if any(w.startswith((way, *more)) for w in words)]

    def _numbers(self) -> Iterator[tuple[str, float]]:
        """Yield the numbers of parts and of tables in them, by key path."""
        for kind in ("layers", "connections"):
            for name, part in getattr(self, kind).items():
                yield from numbers_of(f"{kind}.{name}", part)

    def _vary(self, way: str, path: str, said: set[str]) -> float:
        """Return how much it is wanted that a number varies."""
        ways = [way] + ["OverTime.by=update"] * (way == "over_time" and ".learn." in path)
        return sum(self.weight(word, said, set()) for word in ways)

    def _slices(self, value: float) -> tuple[float, ...]:
        return tuple(value * (1 - 0.1 * number) if value else 0.05 * number for number in range(self.batch))

    def _course(self, path: str, value: float) -> OverTime:
        units = ["display", "step", "step of display", *["update"] * (".learn." in path)]
        self.demanded = frozenset(self.beside.get(path.split(".")[1], ()))
        by = self.one_of(*([one for one in units if f"OverTime.by={one}" in self.demanded] or units))
        values = (value, value * 0.8 if value else 0.05, value * 0.9)
        course = self.fill(OverTime, {"at": (1, 2, 4), "values": values}, more={"by": [by]})
        self.demanded = frozenset()
        return course

    def _sweep(self, paths: Sequence[tuple[str, float]]) -> Sweep:
        said = [self.said(path.split(".")[1]) for path, _ in paths]
        path, value = self.weighted(paths, [1 + self.weight("sweep", one, set()) for one in said])
        columns: dict[str, Any] = {path: (value, value * 0.8 if value else 0.05)}
        if self.chance(0.5):
            columns["run.dt"] = Range(start=0.4, stop=0.6, count=2, spacing=self.one_of("linear", "log"))
        return self.fill(Sweep, {"values": columns})


def numbers_of(path: str, table: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a table that are said, and of tables in it, by key path."""
    for key in keys(type(table)) if isinstance(table, Model) else table:
        value = getattr(table, key) if isinstance(table, Model) else table[key]
        if isinstance(value, Model | Mapping):
            yield from numbers_of(f"{path}.{key}", value)
        elif isinstance(value, float) and np.isfinite(value):
            default = type(table).model_fields[key].default if isinstance(table, Model) else None
            if key == "strength" or value != default:
                yield f"{path}.{key}", value
