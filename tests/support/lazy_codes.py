"""Random networks of sparse-coding loops joined in many ways, for lazy evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.connections import Conv, Identity, Pool, Transpose
from petabatch.geometry import weight_shape
from petabatch.layers import LCA, BaseTimeScale, Input, LeakyIntegrator, Linear, Mask, Rectified
from petabatch.learning import Hebbian
from petabatch.probes import Energy
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import NEVER, Connection, Layer, Probe
from petabatch.spec.schedule import Every
from petabatch.weights import L2
from support.networks import GivenImages, GivenWeights, images


class _Parts:
    """The parts of a network, loop by loop."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.layers: dict[str, Layer] = {}
        self.connections: dict[str, Connection] = {}

    def one_of(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def join(self, pre: str, post: str, **keys: Any) -> None:
        self.connections[f"{pre}_to_{post}"] = Identity(pre=pre, post=post, **keys)

    def loop(self, name: str, seen: str, code: str, learn: bool = False) -> None:
        """Let `code` code `seen`: an error, maybe masked, and a reconstruction."""
        shape, features = self.layers[seen].shape, self.layers[code].shape
        stride = shape[0] // features[0]
        error, recon, dictionary = f"error_{name}", f"recon_{name}", f"dictionary_{name}"
        self.layers[error] = Linear(shape=shape, border=self.one_of("zero", "zero", "mirror", 0.3))
        self.layers[recon] = Linear(shape=shape)
        self.join(recon, error, channel="inh", feedback=True)
        self.join(seen, error)
        masked = not learn and self.one_of(True, False, False)
        if masked:
            self.layers[f"masked_{name}"] = Mask(shape=shape, features=(0,), invert=True)
            self.join(error, f"masked_{name}")
        size = self.one_of(1, 2, 3) * stride
        mode = self.one_of("extra_shared", "shared", "non_shared", "extra_non_shared")
        conv = Conv(
            pre=code, post=recon, patch=(min(size, shape[0]), min(size, shape[1])),
            mode=mode, init=GivenWeights(data=np.zeros(1)),
            normalize=self.one_of(L2(), None), learn=Hebbian(error=error, rate=0.2) if learn else None,
        )  # fmt: skip
        room = weight_shape(conv.link(self.layers))
        weights = GivenWeights(data=self.rng.normal(size=room) / np.sqrt(np.prod(room[3:])))
        self.connections[dictionary] = conv.model_copy(update={"init": weights})
        self.connections[f"drive_{name}"] = Transpose(
            pre=f"masked_{name}" if masked else error, post=code, of=dictionary,
            delay_steps=self.one_of(0, 0, 2), strength=self.one_of(1.0, 0.7),
        )  # fmt: skip

    def code(self, shape: tuple[int, int, int], threshold: float, scaled: bool) -> LCA:
        one_of = self.one_of
        firm = {"transfer": "firm", "width": 0.1} if one_of(True, False) else {}
        scale = BaseTimeScale(energy="energy", minimum=0.5, maximum=0.9, factor=0.2, growth=0.1)
        return LCA(
            shape=shape, tau=one_of(5.0, 15.0), threshold=threshold, signed=one_of(True, False),
            self_interact=one_of(True, True, False), initial=one_of(0.0, 0.3),
            reset=one_of(NEVER, NEVER, Every(1, "displays"), Every(7)), border=one_of("zero", "mirror"),
            time_scale=scale if scaled else None, **firm,
        )  # fmt: skip


def random_loops(seed: int, learn: bool = False, scales: bool = True, batch: int = 2) -> Network:
    """Return one or two codes of one or two images, joined in random ways, lazily evaluated.

    With `scales`, some adapt their time scale.
    """
    parts = _Parts(seed)
    rng, one_of = parts.rng, parts.one_of
    stride, channels = one_of(1, 2), int(rng.integers(1, 4))
    ny, nx = (int(n) for n in rng.integers(2, one_of(5, 5, 9, 20), 2))
    fine = (ny * stride, nx * stride, channels)
    V1 = (ny, nx, int(rng.integers(1, one_of(10, 80))))
    scaled = one_of(True, False, False) and scales
    for eye in range(one_of(1, 1, 2)):
        parts.layers[f"image{eye}"] = Input(
            shape=fine, source=GivenImages(data=images(batch, 3, fine, seed + eye))
        )
    parts.layers["V1"] = parts.code(V1, one_of(0.3, 0.6), scaled)
    for eye in [name for name in parts.layers if name.startswith("image")]:
        parts.loop(eye, eye, "V1", learn)
    if one_of(True, False):
        parts.layers["V2"] = parts.code((ny, nx, int(rng.integers(1, 40))), 0.1, False)
        parts.loop("V1", "V1", "V2")
        if one_of(True, False):
            parts.join("error_V1", "V1", channel="inh", feedback=True)
        if one_of(True, False):
            parts.layers["trace"] = LeakyIntegrator(shape=parts.layers["V2"].shape, tau=4.0)
            parts.join("V2", "trace")
            parts.join("trace", "V2", strength=0.1, feedback=True)
    if one_of(True, False):
        parts.layers["readout"] = Rectified(shape=(1, 1, V1[2]))
        parts.connections["pool"] = Pool(pre="V1", post="readout")
    probes: dict[str, Probe] = {"energy": Energy(error="error_image0", code="V1", coefficient=0.3)}
    return Network(
        run=Run(batch=batch, display=13, displays=3, kernel="lazy"), layers=parts.layers,
        connections=parts.connections, probes=probes if scaled else {},
    )  # fmt: skip


def two_layers(display: int = 50, displays: int = 1, learn: float = 0.0, **keys: Any) -> Network:
    """Return a code of the code of an image, as in `params/two_layer.toml` but small.

    `keys` are V1's, `learn` is the rate.
    """
    rng, fine = np.random.default_rng(5), (16, 16, 3)
    layers: dict[str, Layer] = {
        "image": Input(shape=fine, source=GivenImages(data=images(1, 2, fine))),
        "error": Linear(shape=fine), "recon": Linear(shape=fine),
        "V1": LCA(**{"shape": (8, 8, 40), "tau": 15.0, "threshold": 0.8, **keys}),
        "V1error": Linear(shape=(8, 8, 40)), "V1recon": Linear(shape=(8, 8, 40)),
        "V2": LCA(shape=(4, 4, 70), tau=15.0, threshold=0.3),
    }  # fmt: skip
    connections: dict[str, Connection] = {
        "image_to_error": Identity(pre="image", post="error"),
        "recon_to_error": Identity(pre="recon", post="error", channel="inh", feedback=True),
        "drive": Transpose(pre="error", post="V1", of="dictionary"),
        "V1_to_V1error": Identity(pre="V1", post="V1error"),
        "recon_to_V1error": Identity(pre="V1recon", post="V1error", channel="inh", feedback=True),
        "code_error": Identity(pre="V1error", post="V1", channel="inh", feedback=True),
        "drive2": Transpose(pre="V1error", post="V2", of="dictionary2"),
    }
    for name, pre, post, size in (("dictionary", "V1", "recon", 6), ("dictionary2", "V2", "V1recon", 4)):
        features, channels = layers[pre].shape[2], layers[post].shape[2]
        weights = rng.normal(size=(1, 1, features, size, size, channels))
        error = "error" if post == "recon" else "V1error"
        connections[name] = Conv(
            pre=pre, post=post, patch=(size, size), mode="extra_shared", init=GivenWeights(data=weights),
            normalize=L2(), learn=Hebbian(error=error, rate=learn) if learn else None,
        )  # fmt: skip
    run = Run(batch=1, display=display, displays=displays, kernel="lazy")
    probes: dict[str, Probe] = {"energy": Energy(error="error", code="V1", coefficient=0.8)}
    return Network(run=run, layers=layers, connections=connections, probes=probes)
