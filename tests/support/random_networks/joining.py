"""Random connections: of all types that fit two layers, with what these need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from petabatch.connections import Clone, Conv, Identity, Potential, Sparse
from petabatch.geometry import GeometryError, weight_shape
from petabatch.layers import Constant, Input, Quotient
from petabatch.spec.parts import NEVER, Connection, Layer, Probe
from petabatch.weights import Uniform
from support.random_networks.sources import random_source
from support.random_networks.tables import Tables, Wanted
from support.random_networks.words import words

BATCH = 3
"""Slices of a network."""
JOINED = 5
"""Most connections of a network that no layer needs."""


class Joining(Tables):
    """Draws connections between layers."""

    def __init__(self, seed: int, folder: Path, wanted: Wanted) -> None:
        """Begin with nothing; files that the network names are made in `folder`."""
        super().__init__(seed, folder, wanted)
        self.layers, self.connections = dict[str, Layer](), dict[str, Connection]()
        self.probes = dict[str, Probe]()
        self._words = dict[str, tuple[Any, set[str]]]()
        self.batch, self.most_joined = BATCH, JOINED
        self.early, self.apart = self.chance(0.2), self.chance(0.25)
        """Whether displays may end early, and whether there is a sweep, whose points learn apart."""

    def said(self, *names: str) -> set[str]:
        """Return the words of parts."""
        found = set[str]()
        for name in names:
            part = (self.layers | self.connections | self.probes)[name]
            if self._words.get(name, (None,))[0] is not part:
                self._words[name] = part, {one.word for one in words(part)}
            found |= self._words[name][1]
        return found

    def alike(self, name: str) -> list[str]:
        """Return the layers with the shape of one."""
        return [other for other, layer in self.layers.items() if layer.shape == self.layers[name].shape]

    def receives(self, name: str) -> bool:
        """Return whether connections may end at a layer; at a constant they do nothing."""
        layer = self.layers[name]
        codes = self.early and name == "recon"  # it has no other input than the code
        return bool(layer.channels) and not isinstance(layer, Input) and not codes

    def join(self) -> None:
        """Join the layers: something into each channel that needs it, and some connections more."""
        names = list(self.layers)
        for name in names:
            self.feed(name)
        pairs = [(pre, post) for pre in names for post in names if self.receives(post)]
        said = {name: self.said(name) for name in names}
        weights = [1 + self.wanted.between(said[pre], said[post]) for pre, post in pairs]
        for _ in range(int(self.rng.integers(1, self.most_joined + 1))):
            if pairs:
                self.any_connection(*self.weighted(pairs, weights))

    def feed(self, name: str) -> None:
        """Join something to each channel of a layer that needs it."""
        layer = self.layers[name]
        if name in ("image", "error", "code", "recon") or layer.static or not layer.channels:
            return
        needed = {"mask": ("exc", "mask"), "product": ("exc", "inh"), "max_unpool": ("exc", "place")}
        for channel in needed.get(layer.type, ("exc",)):
            # the image is never 0, as others may be
            pre = "image" if self.chance(0.6) else self.one_of(*self.layers)
            self.any_connection(pre, name, channel=channel)
        if layer.type == "quotient":
            ones = f"ones{len(self.layers)}"
            self.layers = {ones: Constant(shape=layer.shape, value=0.6), **self.layers}
            self.connections[f"over_{name}"] = Identity(pre=ones, post=name, channel="inh")

    def any_connection(self, pre: str, post: str, **given: Any) -> None:
        """Add a connection between two layers, of a type that fits them."""
        fits, near = self.fitting(pre, post), self.said(pre, post)
        kind = self.type_of(Connection, near, list(fits))
        name = kind.model_fields["type"].default
        self.connect(f"{name}{len(self.connections)}", kind, pre, post, **fits[name], **given)

    def fitting(self, pre: str, post: str) -> dict[str, dict[str, Any]]:
        """Return the types of connections that fit two layers, each with the keys that follow from these."""
        first, second = self.layers[pre], self.layers[post]
        same, names = first.shape == second.shape, list(self.layers)
        features, copies = first.shape[2] + 1, second.shape[2] // (first.shape[2] + 1)
        owners = [
            (name, self.layers[one.pre].shape, self.layers[one.post].shape)
            for name, one in self.connections.items()
            if isinstance(one, Conv)
        ]
        of = {
            "clone": [name for name, *ends in owners if ends == [first.shape, second.shape]],
            "transpose": [name for name, *ends in owners if ends == [second.shape, first.shape]],
        }
        variables = [
            one.name for one in first.variables() if one.shape == first.shape and one.dtype == "float"
        ]
        fits = {
            "sparse": True,
            "conv": True,
            "identity": same,
            "potential": same and bool(variables) and names.index(pre) < names.index(post),
            "background": first.shape[:2] == second.shape[:2] and second.shape[2] % features == 0,
            "largest": second.shape == (*first.shape[:2], 1),
            "pool": first.shape[2] == second.shape[2],
            **{kind: bool(found) for kind, found in of.items()},
        }
        given: dict[str, dict[str, Any]] = {name: {} for name, fit in fits.items() if fit}
        if "potential" in given and ("V" not in variables or self.chance(0.5)):
            given["potential"] = {"variable": self.one_of(*variables)}
        if "background" in given:
            given["background"] = {"copies": copies}
        return given | {kind: {"of": self.one_of(*found)} for kind, found in of.items() if found}

    def connect(self, name: str, kind: type[Connection], pre: str, post: str, **given: Any) -> None:
        """Add a connection, unless its geometry is refused."""
        given = {"pre": pre, "post": post, **given}
        ends = (pre, post, given["of"]) if "of" in given else (pre, post)
        near, layers, names = self.said(*ends), self.layers, list(self.layers)
        free = names.index(pre) >= names.index(post) and not all(
            layers[end].phase is not None for end in (pre, post)
        )
        if free and not isinstance(layers[pre], Input):
            # what goes round does not grow
            given = {"strength": self.one_of(0.2, -0.2), **given, "feedback": True}
        channels = [*layers[post].channels, *["none"] * self.chance(0.2)]
        most = np.maximum(layers[pre].shape[:2], layers[post].shape[:2])
        windows = [one for one in ((1, 2), (2, 2), (3, 3)) if (one <= most).all()]
        more: dict[str, Any] = {
            "channel": channels[1:], "window": windows, "error": self.alike(post), "revive": [], "learn": [],
        }  # fmt: skip
        if isinstance(layers[post], Constant | Input | Quotient):
            more["channel"] = []
        if layers[post].targets:
            more["channel"] = []
            given["target"] = self.one_of(*layers[post].channels)
            given.pop("channel", None)
        if kind is Conv:
            try:
                self._weights(given, more, near)
            except GeometryError:
                return
        if kind is Potential:
            more["delay_steps"] = []
        if kind is Sparse:
            self._synapses(given, more, near)
        if kind is Clone and self.connections[given["of"]].learn is None:  # type: ignore[attr-defined]
            more["error"] = []
        self.connections[name] = self.fill(kind, given, near, more)
        self.about |= self.said(name)

    def _weights(self, given: dict[str, Any], more: dict[str, Any], near: set[str]) -> None:
        """Draw what a connection with patches needs; raises GeometryError if the layers do not suit it."""
        (ny, nx, _), (rows, columns, nf) = self.layers[given["pre"]].shape, self.layers[given["post"]].shape
        up = max(1, rows // ny)
        sizes = (int(self.rng.integers(1, 4)) * up + int(self.rng.integers(2)) * (up > 1) for _ in range(2))
        given["patch"] = tuple(map(min, sizes, (rows, columns)))
        learns = self.chance(0.6)
        own, of_all = ("shared", "non_shared"), ("extra_shared", "extra_non_shared")
        modes = own if learns and self.apart else (*own, *of_all)
        given["mode"] = self.weighted(
            modes, [1 + self.weight(f"Conv.mode={mode}", set(), near) for mode in modes]
        )
        shape = weight_shape(Conv(**{**given, "init": Uniform()}).link(self.layers))
        slices = 0 if given["mode"].startswith("extra_") else self.batch
        patch = (*given["patch"], nf)
        source = random_source(self, patch, 1, False) if np.prod(patch) > 2 else None
        given["init"] = self.initial(shape, near, slices, source)
        fellows = [
            (name,) for name, one in self.connections.items()
            if isinstance(one, Conv) and one.normalize is None and one.mode == given["mode"]
            and weight_shape(one.link(self.layers))[:3] == shape[:3]
        ]  # fmt: skip
        together = "Normalize.together" in self.demanded
        if together and not fellows:
            fellow = f"fellow{len(self.connections)}"
            self.connections[fellow] = Conv(**{**given, "init": Uniform(low=-0.2, high=0.3)})
            fellows = [(fellow,)]
        if together or self.chance(0.8):
            given["normalize"] = self.normaliser(fellows, near)
        if learns:
            against = self.alike(given["post"])
            steady = {"every": [NEVER], "offset": []} if self.early else {}
            more_of_rule = {"error": against, "input": against, **steady}
            given["learn"] = self.rule(near, more_of_rule, self.initial(shape, near, slices, source))
            if self.chance(0.3) and "non_" not in given["mode"] and rows >= ny and columns >= nx:
                given["revive"] = self.revive()
        else:
            more["decorrelate"] = []

    def _synapses(self, given: dict[str, Any], more: dict[str, Any], near: set[str]) -> None:
        """Draw what single synapses need."""
        pre, post = self.layers[given["pre"]].shape, self.layers[given["post"]].shape
        modes = ["non_shared", "extra_non_shared"] + ["shared", "extra_shared"] * (pre[:2] == post[:2])
        given["mode"] = self.weighted(
            modes, [1 + self.weight(f"Sparse.mode={mode}", set(), near) for mode in modes]
        )
        inner = given["mode"] in ("shared", "extra_shared")
        units, targets = (shape[2] if inner else int(np.prod(shape)) for shape in (pre, post))
        origin = self.one_of("probability", "in_degree", "out_degree", "number", "path")
        sizes = {"in_degree": min(2, units), "out_degree": min(2, targets), "number": 2 * units}
        number = 0  # of synapses, where it is known
        if origin == "path" or given["mode"].startswith("extra_"):
            more["per_slice"] = []
        apart = given["pre"] != given["post"] and "Sparse.self_connections=False" not in self.demanded
        if origin == "path" or apart or min(units, targets) < 3:
            more["self_connections"] = []
        if inner:
            more["speed"] = []
        if origin == "path":
            path = self.folder / f"{self.rng.integers(2**60):x}.npz"
            matrix = sparse.random_array((units, targets), density=0.3, rng=self.rng) * 0.5
            sparse.save_npz(path, matrix.tocsr())
            given["path"], number = str(path), matrix.nnz
        else:
            given |= {origin: 0.4 if origin == "probability" else sizes[origin]}
            ends = {"in_degree": targets, "out_degree": units, "number": 1}
            number = sizes.get(origin, 0) * ends.get(origin, 0)
        if origin != "path" or self.chance(0.3):
            own = 0 if given["mode"].startswith("extra_") else self.batch
            given["init"] = self.initial((number,), near, own)
