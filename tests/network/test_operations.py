"""Every built-in layer and connection has its compiled operation: none is interpreted step by step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest

import petabatch.builtins  # noqa: F401  (all types are registered)
from petabatch.connections import Conv, Identity, Potential, Sparse, Transpose
from petabatch.errors import ParamsError
from petabatch.layers import LCA, Constant, FirmCost, Input, MaxUnpool, Neurons, Rescale, SpikeTimes
from petabatch.layers.timescale import TimeScale
from petabatch.network.build import build
from petabatch.network.program import find_program
from petabatch.probes import Energy
from petabatch.spec.model import Part
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Connection, Layer
from petabatch.spec.schedule import Every
from support.networks import GivenImages, GivenWeights

SHAPE = (8, 8, 2)
IMAGE = GivenImages(data=np.zeros((1, 1, *SHAPE), np.float32))
INIT = GivenWeights(data=np.zeros(1))
BORDERS = ("zero", "mirror", 0.5, "image")
FEATURES = {"Largest": 1, "Background": 3}
"""Features of the post layer, where they are not those of the pre layer."""


def builtin_types(base: type[Part]) -> list[type[Any]]:
    """Return the types that a table of a params file can name, and no others."""
    found = [base] if isinstance(getattr(base.model_fields.get("type"), "default", None), str) else []
    for sub in base.__subclasses__():
        found += builtin_types(sub)
    return [one for one in found if one.__module__.startswith("petabatch.")]


VALUES: dict[str, list[Any]] = {
    "border": list(BORDERS),
    "channel": [],
    "energy": [],
    "every": [Every(2), Every(1, "displays")],
    "features": [(0,)],
    "noise": [(1.0, 0.0, 2.0)],
    "reset": [Every(1, "displays")],
    "reset_to": ["image"],
    "signed": [True],
    "time_scale": [scale(energy="energy") for scale in builtin_types(TimeScale)],
    "vertices": [((0.0, 0.0), (0.0, 0.5), (1.0, 1.0))],
    "window": [(2, 2)],
}
"""Values of keys that a layer or connection may do something else for; in addition, all named choices."""
REQUIRED = {"shape": SHAPE, "source": IMAGE}


def variants(kind: type[Any], given: dict[str, Any]) -> Iterator[Any]:
    """Yield a part with its defaults, then with one other key at a time."""
    fields = kind.model_fields
    given = {**{key: value for key, value in REQUIRED.items() if key in fields}, **given}
    choices: list[dict[str, Any]] = [{}]
    for key, field in fields.items():
        if kind is Neurons and key in ("every", "reset", "reset_to", "method"):
            continue  # they advance in each step, and are reset by spikes; tests/equations has the methods
        named = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        choices += [{key: value} for value in VALUES.get(key, named if key != "type" else ())]
    for choice in choices:
        if "reset_to" in choice:
            choice["reset"] = Every(1, "displays")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the momentum
            yield kind(**{**given, **choice})


def interpreted(layers: dict[str, Layer], connections: dict[str, Connection]) -> dict[str, str] | None:
    """Return what a network's program interprets, None where the network is not valid."""
    probes = {"energy": Energy(error="image", code="image", coefficient=0.1)}
    run = Run(steps=8, display=4)
    try:
        graph = build(Network(run=run, layers=layers, connections=connections, probes=probes))
    except ParamsError:
        return None
    return dict(find_program(graph).interpreted)


@pytest.mark.parametrize("kind", builtin_types(Layer), ids=lambda kind: kind.__name__)
def test_every_built_in_layer_has_an_operation(kind: type[Any]) -> None:
    tried = 0
    required: dict[type[Any], dict[str, Any]] = {
        Rescale: {"method": "range"},
        Neurons: {"equations": "dv/dt = 1 - g * v\ndg/dt = -g"},
        SpikeTimes: {"spikes": [[0.0, 0]]},
        FirmCost: {"corner": 1.0},
        MaxUnpool: {"window": (2, 4)},
    }
    for layer in variants(kind, required.get(kind, {})):
        layers = {"image": Input(shape=SHAPE, source=IMAGE), "layer": layer, "after": Constant(shape=SHAPE)}
        joined: dict[str, Connection] = {
            channel: Identity(
                pre="image",
                post="layer",
                delay_steps=1,
                **{"target" if layer.targets else "channel": channel},
            )
            for channel in (layer.channels if not layer.static else ())
        }
        target = next(iter(layer.channels)) if layer.targets else None
        joined["back"] = Conv(
            pre="layer", post="layer", patch=(3, 3), init=INIT, feedback=True, delay_steps=2, target=target
        )
        if layer.static or not layer.channels:
            del joined["back"]
        found = interpreted(layers, joined)
        tried += found is not None
        assert not found, repr(layer)
    assert tried


@pytest.mark.sampled(12)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("kind", builtin_types(Connection), ids=lambda kind: kind.__name__)
def test_every_built_in_connection_has_an_operation(kind: type[Any], border: Any) -> None:
    """From a layer with this border to one as large, smaller or larger, in every mode and method."""
    if kind is Potential and border == "image":
        pytest.skip("an input layer has no potential")
    tried = 0
    for ny in (4, 8, 16):
        post = (ny, ny, FEATURES.get(kind.__name__, 2))
        pre: Layer = (
            LCA(shape=SHAPE, border=border)
            if border != "image"
            else Input(shape=SHAPE, source=IMAGE, border=border)
        )
        layers = {
            "image": Input(shape=SHAPE, source=IMAGE),
            "pre": pre,
            "post": LCA(shape=post),
            "other": LCA(shape=post, border=border if border != "image" else "mirror"),
            "end": LCA(shape=SHAPE),
        }
        for mode in get_args(Conv.model_fields["mode"].annotation):
            # Owners of weights in both directions; the second has units beyond the edge of `other`.
            owners: dict[str, Connection] = {
                "there": Conv(pre="pre", post="post", patch=(4, 4), mode=mode, init=INIT),
                "back": Conv(pre="other", post="end", patch=(4, 4), mode=mode, init=INIT),
            }
            keys: dict[str, Any] = {"pre": "pre", "post": "post"}
            if kind is Conv:
                keys |= {"patch": (4, 4), "mode": mode, "init": INIT}
            if kind is Sparse:
                keys |= {"probability": 0.1, "mode": mode, "init": INIT}
            if "of" in kind.model_fields:
                keys["of"] = "back" if kind is Transpose else "there"
            for connection in variants(kind, keys):
                for used in (owners, {}):
                    found = interpreted(layers, {**used, "connection": connection})
                    tried += found is not None
                    assert not found, repr(connection)
    assert tried
