"""Random networks of all built-in types, and their steps by their program and layer by layer, in float64."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from petabatch.connections import Background, Clone, Conv, Identity, Largest, Pool, Potential, Transpose
from petabatch.engine.engine import Engine
from petabatch.engine.group import Group
from petabatch.geometry import GeometryError, weight_shape
from petabatch.layers import (
    FISTA,
    ISTA,
    LCA,
    Bins,
    ConductanceLIF,
    Constant,
    Dropout,
    GaussianNoise,
    HeavyBall,
    Input,
    LeakyIntegrator,
    Linear,
    Mask,
    MaxUnpool,
    MomentumLCA,
    Product,
    Rectified,
    Rescale,
    Sigmoid,
    Squared,
)
from petabatch.network.build import build
from petabatch.network.lazy_codes import lazy_codes
from petabatch.network.method import Method
from petabatch.network.plan import schedule
from petabatch.network.program import find_program
from petabatch.network.readers import measured_layers
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import NEVER, STEP, Connection, Layer
from petabatch.spec.schedule import Every
from petabatch.weights import L2
from support.networks import GivenImages, GivenWeights
from support.row_functions import Adaptive

State = dict[str, np.ndarray]
DISPLAY, BATCH = 4, 2
"""Steps and slices of random networks."""


class PeriodicImages(GivenImages):
    """Images handed over in Python, with margins in which they are continued periodically."""

    type: Literal["periodic_images"] = "periodic_images"  # type: ignore[assignment]

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Any:
        read = super().open(shape, batch, seed)

        def with_margin(number: int, item: int) -> np.ndarray:
            image = read(number, item)
            pads = [((n - m) // 2, (n - m) // 2) for n, m in zip(shape, image.shape, strict=True)]
            return np.pad(image, pads, mode="wrap")

        return with_margin


LAYERS: dict[str, Any] = {
    "linear": lambda c, one_of: Linear(**c, scale=one_of(1.0, 0.7)),
    "rectified": lambda c, one_of: Rectified(**c, threshold=0.1, transfer="soft", maximum=0.8),
    "leaky": lambda c, one_of: LeakyIntegrator(**c, tau=2.0),
    "product": lambda c, one_of: Product(**c),
    "squared": lambda c, one_of: Squared(**c),
    "sigmoid": lambda c, one_of: Sigmoid(
        **c, center=0.2, width=0.5, form=one_of("logistic", "line"), invert=one_of(True, False)
    ),
    "mask": lambda c, one_of: Mask(**c, features=one_of(None, (0, 2)), invert=one_of(True, False)),
    # Other methods amplify the rounding of an input that is flat.
    "rescale": lambda c, one_of: Rescale(**c, method="softmax", over=one_of("slice", "features")),
    "constant": lambda c, one_of: Constant(**c, value=0.6),
    "lca": lambda c, one_of: LCA(
        **c, tau=3.0, threshold=0.2, initial=0.4, self_interact=one_of(True, False),
        signed=one_of(True, False),
    ),
    "firm": lambda c, one_of: LCA(
        **c, tau=4.0, threshold=0.1, transfer="firm", width=0.3, minimum=0.05, shift=0.05, maximum=0.7
    ),
    "heavy": lambda c, one_of: HeavyBall(**c, tau=6.0, threshold=0.2, beta=0.5, initial=0.1),
    "momentum": lambda c, one_of: MomentumLCA(**c, tau=3.0, threshold=0.1, rate=0.2, self_interact=False),
    "ista": lambda c, one_of: ISTA(**c, tau=8.0, threshold=0.1, initial=0.5),
    "lif": lambda c, one_of: ConductanceLIF(
        **c, method=one_of("arma", "heun"), tau=5.0, threshold=-60.0, noise=one_of((0, 0, 0), (2.0, 0, 0.5))
    ),
    "noise": lambda c, one_of: GaussianNoise(**c, std=0.2),
    "dropout": lambda c, one_of: Dropout(**c, probability=0.4),
    "bent": lambda c, one_of: Rectified(**c, vertices=((-0.5, 0.2), (0.4, -0.3)), slopes=(-0.2, 0.6)),
    "polyline": lambda c, one_of: LCA(**c, tau=3.0, vertices=((0.1, 0.0), (0.1, 0.2), (0.5, 0.4))),
    "row": lambda c, one_of: Adaptive(**c, tau=4.0, rise=one_of(1, 2), signed=one_of(True, False)),
    "fista": lambda c, one_of: FISTA(**c, step=0.1, threshold=0.1, signed=one_of(True, False)),
}  # fmt: skip


RARE: dict[str, Any] = {
    # Bins whose edges no round number meets.
    "bins": lambda c, one_of: Bins(
        **c, low=-1.37, high=1.91, width=one_of(0.0, 0.0, 0.6), outside=one_of(0.0, -1.0),
        zero_unknown=one_of(True, False),
    ),
    "unpool": lambda c, one_of: MaxUnpool(**c, window=one_of((1, 1), (c["shape"][0], 1), c["shape"][:2])),
}  # fmt: skip
"""Layers that are drawn by a generator of their own, which leaves the others of a seed as they are."""


def random_network(seed: int, batch: int = BATCH) -> Network:
    """Return layers of all types in random phases and on random schedules, joined in random ways."""
    rng, rare = np.random.default_rng(seed), np.random.default_rng((seed, 1))

    def one_of(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    down, channels, features = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 40))
    ny, nx = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    coarse, fine = (ny, nx, features), (ny * down, nx * down, channels)
    pooled = (ny, nx, channels)
    data = rng.normal(size=(batch, 3, *fine)).astype(np.float32)
    border = one_of("zero", "mirror", 0.5, "image")
    layers: dict[str, Layer] = {
        "image": Input(shape=fine, source=PeriodicImages(data=data), phase=0, border=border)
    }
    for number in range(int(rng.integers(2, 7))):
        kind = one_of(*LAYERS)
        if kind in ("linear", "squared", "product") and rare.random() < 0.4:
            kind = str(rare.choice(list(RARE)))
        simple = one_of(True, True, False)
        shape = one_of(coarse, fine, fine, pooled)
        has_potential = kind in (
            "lca",
            "firm",
            "heavy",
            "momentum",
            "ista",
            "lif",
            "polyline",
            "row",
            "leaky",
        )
        twins = [name for name, layer in layers.items() if layer.shape == shape]
        common: dict[str, Any] = {
            "shape": shape,
            "phase": int(rng.integers(4)),
            "border": "zero" if kind == "fista" else one_of("zero", "mirror", 0.5),
            "every": STEP if simple else one_of(Every(2), Every(3), Every(1, "displays"), NEVER),
            "offset": 0 if simple else int(rng.integers(-1, 2)),
            "reset": NEVER
            if simple or not (has_potential or kind == "fista")
            else one_of(NEVER, Every(3), Every(1, "displays")),
        }
        if has_potential and common["reset"] != NEVER and twins and one_of(True, False):
            common["reset_to"] = one_of(*twins)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the momentum
            layers[f"{kind}{number}"] = (LAYERS | RARE)[kind](common, one_of)
    connections: dict[str, Connection] = {}
    for number in range(int(rng.integers(2, 9))):
        _connect(f"c{number}", layers, connections, rng, one_of, rare)
    run = Run(batch=batch, steps=100, display=DISPLAY, dt=0.5, kernel="array")
    return Network(run=run, layers=layers, connections=connections)


def _connect(
    name: str,
    layers: Mapping[str, Layer],
    connections: dict[str, Connection],
    rng: Any,
    one_of: Any,
    rare: Any,
) -> None:
    names = list(layers)
    pre, post = one_of(*names), one_of(*names[1:])
    common: dict[str, Any] = {
        "pre": pre,
        "post": post,
        "delay_steps": one_of(0, 0, 1, 3),
        # Conductances far below -1 would make a membrane amplify rounding.
        "strength": one_of(1.0, -0.4) * (0.05 if isinstance(layers[post], ConductanceLIF) else 1),
        "channel": one_of(*layers[post].channels),
    }
    (ny, nx, nf), ends = layers[pre].shape, layers[post].shape
    if layers[pre].shape == ends and one_of(True, False):
        levels = [layers[one].phase for one in (pre, post)]
        held = any(variable.name == "V" for variable in layers[pre].variables()) and levels[0] < levels[1]
        if held and rare.random() < 0.5:
            connections[name] = Potential(**common | {"delay_steps": 0})
        else:
            connections[name] = Identity(**common)
        return
    if (ny, nx, 1) == ends and rare.random() < 0.5:
        connections[name] = Largest(**common)
        return
    if (ny, nx) == ends[:2] and ends[2] % (nf + 1) == 0 and rare.random() < 0.5:
        connections[name] = Background(**common, copies=ends[2] // (nf + 1))
        return
    if nf == ends[2] and one_of(True, False):
        window = one_of(None, (min(2, max(ny, ends[0])), min(3, max(nx, ends[1]))))
        connections[name] = Pool(**common, window=window, method=one_of("max", "sum", "average"))
        return
    owners = [n for n, c in connections.items() if isinstance(c, Conv)]
    for owner in owners:
        conv = connections[owner]
        shapes = (layers[conv.pre].shape, layers[conv.post].shape)
        if shapes == (ends, layers[pre].shape) and one_of(True, False):
            connections[name] = Transpose(**common, of=owner)
            return
        if shapes == (layers[pre].shape, ends) and one_of(True, False):
            connections[name] = Clone(**common, of=owner)
            return
    up, down = max(1, ends[0] // ny), max(1, ny // ends[0])
    size = int(rng.integers(1, 4)) * up + one_of(0, 1) * (up > 1)
    mode = one_of("extra_shared", "extra_shared", "shared", "non_shared", "extra_non_shared")
    if layers[pre].border != "zero" and ny > ends[0]:
        mode = "extra_shared"
    conv = Conv(
        **common,
        patch=(min(size, ends[0]), min(size, ends[1])),
        mode=mode,
        init=GivenWeights(data=np.zeros(1)),
        normalize=L2(strength=0.6 / down),
    )
    try:
        shape = weight_shape(conv.link(layers))
    except GeometryError:
        return
    weights = rng.normal(size=shape)
    connections[name] = conv.model_copy(update={"init": GivenWeights(data=weights)})


class Runs:
    """A network's slices: the reference, layer by layer in float64, and the same by its program."""

    def __init__(self, network: Network) -> None:
        graph = build(network)
        lazily = {} if network.run.kernel == "array" else lazy_codes(graph)
        program = find_program(graph, measured_layers(graph), lazily)
        moving = tuple(name for name, layer in network.layers.items() if not layer.static)
        by_program = Method("program", moving, "it is tested", found=program)
        self.program = program
        precise = network.run.model_copy(update={"kernel": "array", "precision": "float64"})
        reference = schedule(build(network.model_copy(update={"run": precise})))
        by_layers = Method("layers", moving, "it is the reference", compiled_operators=False)
        self.reference = Engine(replace(reference, method=by_layers), Serial(), 1)
        self.mine = Engine(replace(schedule(graph), method=by_program), Serial(), 1)
        self.reference.start()
        self.mine.start()
        for engine in (self.reference, self.mine):
            engine.recorder.open(0, engine.plan.length, False)

    def expected(self, step: int) -> State:
        """Make the next step of the reference, and return its state."""
        for lane in self.reference.lanes:
            Group([lane]).run(step - 1, step)
        return {key: array.copy() for key, array in self.reference.state.arrays.items()}

    def synchronise(self) -> None:
        """Put the reference in the state of the program."""
        arrays = self.reference.state.arrays
        for key, array in self.state.items():
            if key in arrays:
                arrays[key] = array.astype(arrays[key].dtype)

    def run(self, first: int, last: int) -> None:
        """Run the program's slices in turns, each up to new images and on."""
        step = first
        while step < last:
            stop = self.mine.plan.next_event(step, last)
            for lane in self.mine.lanes:
                lane.stepper.load_weights()
                lane.images.show(step + 1)
                with np.errstate(over="ignore", invalid="ignore"):  # as a lane does
                    lane.stepper.run(step, stop, lane.images.new_at(step + 1))
            step = stop

    @property
    def state(self) -> State:
        """The state of the program's slices."""
        for lane in self.mine.lanes:
            lane.stepper.materialise()
        return {key: array.copy() for key, array in self.mine.state.arrays.items()}
