"""Random networks: layers of all types around a sparse code, joined in all ways and observed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from petabatch.connections import Conv, Identity, Transpose
from petabatch.layers import Constant, Input, Linear, MaxUnpool, Neurons, Rescale
from petabatch.probes import Energy, Optimality, SpikeStatistics
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run, Until
from petabatch.spec.parts import NEVER, Layer, Probe
from petabatch.spec.schedule import DISPLAY, STEP, Every
from petabatch.weights import Uniform
from support.random_networks.sources import random_source
from support.random_networks.spiking import spiking
from support.random_networks.tables import Nothing, Wanted
from support.random_networks.values import values
from support.random_networks.varying import RUN, Varying
from support.random_networks.words import word_of

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
LOOP = {"image": "image", "reconstruction": "recon", "code": "code", "drive": "drive"}
"""What is called what in the sparse code."""
STEPS, DISPLAYS = 4, 3
"""Steps of a display, and displays of a network."""
LAYERS, PROBES = (2, 4), 8
"""Least and most layers around the sparse code, and most probes."""
RESCALED = {"low": "range", "high": "range", "mean": "standard", "std": "standard", "norm": "length"}
"""Methods to rescale, by the keys that are theirs."""
BORDERS = ("mirror", 0.5, "image")
"""Borders of layers that show images, other than zeros."""


class Drawing(Varying):
    """A network that is being drawn."""

    def __init__(self, seed: int, folder: Path, wanted: Wanted | None = None, rich: bool = True) -> None:
        """Begin with nothing; files that the network names are made in `folder`.

        Unless it is `rich`, it has no parts and numbers that vary but those that something needs.
        """
        super().__init__(seed, folder, wanted or Nothing(), rich)
        self.phases = self.one_of("none", "all", "some")
        self.around, self.hubs = LAYERS, list[str]()
        """How many layers there are around the sparse code, and those that they are joined to."""
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
            alone = self.chance(0.1) and self.rich
            if self.early or (self.rich and (alone or self.chance(0.85))):
                self.loop()
            self.aim()
            for _ in range(0 if alone else self.some(*self.around)):
                self.neighbour()
            if not alone and self.rich:
                self.join()
            self.observe()
            return self.whole()

    def aim(self) -> None:
        """Draw what the network is to have, before all is joined."""

    # Layers

    def neighbour(self) -> None:
        """Add a layer, joined to the hub or, where there is none, to any."""
        beside = self.one_of(*(self.hubs or self.layers))
        near = self.said(beside)
        kind, shape = self.type_of(Layer, near), self.one_of(*self.shapes)
        name = f"{kind.model_fields['type'].default}{len(self.layers)}"
        self.layer(name, kind, shape, near=near)
        ways = [(beside, name), (name, beside)]
        free = [ends for ends in ways if self.receives(ends[1])]
        if free:
            self.any_connection(*self.one_of(*free))

    def layer(
        self,
        name: str,
        kind: type[Layer],
        shape: tuple[int, int, int],
        without: Sequence[str] = (),
        near: set[str] = frozenset(),
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
            asked = [one for one in BORDERS if word_of(kind, "border", one) in self.demanded]
            given["border"] = self.one_of(*(asked or ("zero", "zero", *BORDERS)))
            once = self.has("Layer.batch=1", 0.1)
            given["source"] = random_source(
                self, shape, 1 if once else self.batch, given["border"] == "image"
            )
            if once:
                given |= {"every": NEVER, "batch": 1}
            elif self.early:
                more |= {"every": [NEVER], "offset": []}
        if kind is Rescale:
            methods = [method for key, method in RESCALED.items() if f"Rescale.{key}" in self.demanded]
            given |= {"method": methods[0]} if methods else {}
        if kind is MaxUnpool:
            given["window"] = tuple(self.one_of(1, *[2] * (size % 2 == 0)) for size in shape[:2])
        own = spiking(self, kind, shape, self.batch)
        more |= dict.fromkeys(OF_SPIKING & kind.model_fields.keys(), ()) if own else {}
        made = self.fill(kind, given | own, near, more)
        state = {variable.name: variable for variable in made.variables() if variable.dtype == "float"}
        changed: dict[str, Any] = {}
        if any(word.startswith("Layer.reset") for word in self.demanded):
            pass  # what is refused of it is to be told
        elif not made.variables() or (made.reset_to is not None and "V" not in state):
            changed = {"reset_to": None} | ({} if made.variables() else {"reset": NEVER})
        elif made.reset_to is not None and made.reset == NEVER:
            changed = {"reset": self.one_of(Every(3), DISPLAY)}
        if made.offset and made.every in (STEP, NEVER) and changed.get("reset", made.reset) == NEVER:
            changed["offset" if isinstance(made, Input) else "every"] = (
                0 if isinstance(made, Input) else Every(2)
            )
        units = [name for name, variable in state.items() if variable.shape == shape]
        units += [] if "V" in state or (kind is Input and "Layer.start" not in self.demanded) else ["A"]
        held = made.every == NEVER and kind is not Input  # it does nothing else than start
        if units and kind is not Neurons and (held or self.has("Layer.start", 0.2)):
            start = "V" if held and "V" in state else self.one_of(*units)
            of_spikes = Uniform(low=1, high=1) if made.spiking else None  # numbers of spikes
            changed["start"] = {start: of_spikes or self.initial(shape, set(), self.batch)}
        self.layers[name] = made.model_copy(update=changed)
        self.about |= self.said(name)

    def loop(self) -> None:
        """Add a sparse code of the image, its reconstruction and its error; most can be lazily evaluated."""
        lazy = self.chance(0.75)
        code = self.type_of(Layer, among=("lca",) if lazy else CODES)
        without = ("every", "minimum", "vertices") if lazy else ()
        self.layer("error", Linear, self.fine)
        self.layer("code", code, self.coarse, without)
        self.layer("recon", Linear, self.fine)
        self.connect("image_to_error", Identity, "image", "error", channel="exc")
        self.connect("recon_to_error", Identity, "recon", "error", channel="inh", strength=1.0)
        self.connect("dictionary", Conv, "code", "recon")
        self.connect("drive", Transpose, "error", "code", of="dictionary")

    # Observers, numbers that vary, the run

    def observe(self) -> None:
        """Add probes, those that time scales follow among them."""
        for name, layer in self.layers.items():
            if layer.controller is not None:
                error, code = (
                    ("error", self.one_of("code", name)) if "code" in self.layers else ("image", name)
                )
                self.probes[f"of_{name}"] = self.fill(
                    Energy, {"error": error, "code": code, "coefficient": 0.1}, self.said(name)
                )
        for number in range(self.some(2, PROBES)):
            some = self.hubs if self.hubs and self.chance(0.5) else self.layers
            self.probe(f"probe{number}", self.one_of(*some))

    def probe(self, name: str, layer: str, kind: type[Probe] | None = None) -> None:
        """Add a probe of a layer, of any type unless it is given."""
        near = self.said(layer)
        kind = kind or self.type_of(Probe, near)
        what = kind.model_fields["type"].default
        shape, alike = self.layers[layer].shape, self.alike(layer)
        masks = [m for m, other in self.layers.items() if other.shape in (shape, (*shape[:2], 1))]
        also = ["image"]
        if kind is SpikeStatistics and self.rich:
            spiking = [other for other, one in self.layers.items() if one.spiking]
            if not spiking:
                return
            layer = layer if layer in spiking else self.one_of(*spiking)
        other = self.one_of(*alike)
        given: dict[str, Any] = {
            "energy": {"error": layer, "code": self.one_of(*self.layers), "coefficient": 0.1},
            "psnr": {"image": layer, "reconstruction": other},
            "optimality": self._lasso(layer),
            "quotient": {"numerator": self.cost(layer, masks), "denominator": self.cost("image", also)},
            "sum": {"terms": {"one": self.cost(layer, masks), "two": self.cost("image", also)}},
        }.get(what, {"layer": layer})  # fmt: skip
        if not given:
            return
        firm = what == "energy" and self.chance(0.2)
        given |= {"cost": "firm", "corner": 0.4} if firm else {}
        more = {"mask": masks} | ({} if firm or what != "energy" else {"cost": ["l0"]})
        self.probes[name] = self.fill(kind, given, near, more)
        self.about |= self.said(name)

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
            if self.demanded or self.chance(0.8):
                layers[name] = self.fill(LayerOutput, {}, self.said(name), {"variables": [tuple(variables)]})
        for name, one in self.connections.items():
            self.demanded = frozenset(self.beside.get(name, ()))
            if isinstance(one, Conv) and (self.demanded or self.chance(0.8)):
                usage = [("weights", "usage")] if one.learn is not None else []
                connections[name] = self.fill(ConnectionOutput, {}, self.said(name), {"variables": usage})
        self.demanded = frozenset(self.beside.get(RUN, ()))
        return self.fill(Output, {"layers": layers, "connections": connections})

    def whole(self) -> Network:
        """Return the network of all that has been drawn, with numbers that vary."""
        length = {"steps": STEPS * DISPLAYS} if self.chance(0.3) else {"displays": DISPLAYS}
        given: dict[str, Any] = {"batch": self.batch, "display": STEPS, **length}
        self.demanded = frozenset(self.beside.get(RUN, ()))
        given["precision"] = "float64" if self.has("Run.precision=float64", 0.05) else "float32"
        if "code" in self.layers and self.early:
            self.probes["gap"] = self.fill(Optimality, {**LOOP, "coefficient": 0.1})
            ends = {"gap": self.one_of(0.5, 0.95, 2.0), "every": self.one_of(1, 2)}
            several = sum(isinstance(one, Optimality) for one in self.probes.values()) > 1
            ends |= {"probe": "gap"} if several else {}
            given["until"] = self.fill(Until, ends, more={"probe": ["gap"]})
        network = Network(
            run=self.fill(Run, given), layers=self.layers, connections=self.connections, probes=self.probes,
            output=self.outputs(),
        )  # fmt: skip
        self.demanded = frozenset()
        return network.model_copy(update=self.varied(network))
