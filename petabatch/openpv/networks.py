"""PetaVision networks by their parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from petabatch.connections import Conv, Identity, Transpose
from petabatch.errors import InputError, ParamsError, Problem
from petabatch.geometry import GeometryError
from petabatch.layers import Input, Linear
from petabatch.openpv.input import source
from petabatch.openpv.layers import border, code
from petabatch.openpv.learning import learning, normalize
from petabatch.openpv.parameters import CODE, DEEP, DEFAULTS, FORWARD, filled
from petabatch.openpv.probes import probes
from petabatch.openpv.weights import Given
from petabatch.spec.network import Network, Run


def network(
    params: Mapping[str, Any],
    weights: Any,
    input: np.ndarray | None = None,
    images: np.ndarray | None = None,
    kernel: Literal["auto", "array"] = "auto",
) -> Network:
    """Return the network that PetaVision runs with these parameters, named as in `DEFAULTS`.

    Three networks are supported, selected by their parameters: with `nxp`, `Input -> Out` (feed-forward);
    with `V1` and `V2` as tables of nf, VThresh, AShift, tau, stride, patch, the two-layer deconvolution; else
    `Input -> InputError -> V1 -> InputRecon`, the LCA of the tutorials.

    `weights` is `[nf, py, px, c]`; with `shared` false `[patches, py, px, c]` over the grid of V1 or its
    extension; feed-forward `[ky, kx, nf_in, py, px, nf]`; with two layers a table of both,
    `{"V1": ..., "V2": ...}`. They are normalised by `normMethod` before the first step.

    Give either `input` `[periods, nbatch, ny, nx, c]`, the activity of the input layer (the last period
    stays), or `images` `[n, height, width, c]`, raw pixels, from which it is computed by PetaVision's rules
    (`petabatch.openpv.input`).

    Raises ParamsError for unknown or unsupported parameters.
    """
    if "nxp" in params:
        return _checked(_forward(filled(params, FORWARD), weights, input, images, kernel))
    if "V2" in params:
        return _checked(_deep(filled(params, DEEP), weights, input, images, kernel))
    return _checked(_single(filled(params, DEFAULTS), weights, input, images, kernel))


def _checked(network: Network) -> Network:
    """Return the network; raises ParamsError if weights do not fit it."""
    problems = []
    for name, connection in network.connections.items():
        owner = connection.owner
        if owner is not None:
            try:
                owner.init.weights(owner.weights(network.layers).shape, np.random.default_rng(0))
            except InputError as error:
                problems.append(Problem(f"weights of {name}", str(error)))
            except GeometryError as error:
                problems.append(Problem(name, str(error)))
    if problems:
        raise ParamsError(problems, "openpv")
    return network


def _display(p: Mapping[str, Any]) -> int:
    """Return the display period in steps; with a period of 0, the first image stays for the whole run."""
    return round(p["D"] / p["dt"]) if p["D"] > 0 else int(p["nsteps"]) + 1


def _single(p: dict[str, Any], weights: Any, shown: Any, images: Any, kernel: Any) -> Network:
    display, steps = _display(p), int(p["nsteps"])
    image = (int(p["ny"]), int(p["nx"]), int(p["nfin"]))
    units = (image[0] // p["stride"], image[1] // p["stride"], int(p["nfeat"]))
    dictionary = Conv(
        pre="V1",
        post="InputRecon",
        patch=(p["patch"], p["patch"]),
        mode="extra_shared" if p["shared"] else "extra_non_shared",
        init=Given(data=np.asarray(weights)),
        normalize=normalize(p, math.prod(image) / math.prod(units)),
        learn=learning(p) if p["plastic"] else None,
    )
    return Network(
        title="PetaVision's LCA",
        run=Run(batch=p["nbatch"], display=display, steps=steps, dt=p["dt"], kernel=kernel),
        layers={
            "Input": Input(shape=image, source=source(p, shown, images, display, steps)),
            "InputError": Linear(shape=image, border=border(p["err_mirror"])),
            "V1": code(p, units),
            "InputRecon": Linear(shape=image, border=border(p["rec_mirror"])),
        },
        connections={
            "InputToError": Identity(pre="Input", post="InputError", strength=p["err_scale"]),
            "ReconToError": Identity(pre="InputRecon", post="InputError", channel="inh", feedback=True),
            "V1ToRecon": dictionary,
            "ErrorToV1": Transpose(pre="InputError", post="V1", of="V1ToRecon"),
        },
        probes=probes(p),
    )


def _deep(p: dict[str, Any], weights: Any, shown: Any, images: Any, kernel: Any) -> Network:
    image = (int(p["ny"]), int(p["nx"]), int(p["nfin"]))
    display, steps = _display(p), int(p["nsteps"])
    below, layers, patches = image, {}, {}
    for name in ("V1", "V2"):
        own = {**DEFAULTS, **filled(p[name], CODE, f"{name}."), "dt": p["dt"]}
        shape = (below[0] // own["stride"], below[1] // own["stride"], int(own["nf"]))
        layers[name], patches[name], below = code(own, shape), (own["patch"], own["patch"]), shape

    def dictionary(pre: str, post: str, shape: tuple[int, int, int]) -> Conv:
        data = Given(data=np.asarray(weights[pre]))
        scale = normalize(p, math.prod(shape) / math.prod(layers[pre].shape))
        return Conv(pre=pre, post=post, patch=patches[pre], init=data, normalize=scale)

    frames = source(p, shown, images, display, steps)
    return Network(
        title="PetaVision's two-layer LCA",
        run=Run(batch=p["nbatch"], display=display, steps=steps, dt=p["dt"], kernel=kernel),
        layers={
            "Input": Input(shape=image, source=frames),
            "InputError": Linear(shape=image),
            "V1": layers["V1"],
            "V1Error": Linear(shape=layers["V1"].shape),
            "V2": layers["V2"],
            "InputRecon": Linear(shape=image),
            "V1Recon": Linear(shape=layers["V1"].shape),
        },
        connections={
            "InputToError": Identity(pre="Input", post="InputError"),
            "ReconToError": Identity(pre="InputRecon", post="InputError", channel="inh", feedback=True),
            "ErrorToV1": Transpose(pre="InputError", post="V1", of="V1ToRecon"),
            "V1ErrorToV1": Identity(pre="V1Error", post="V1", channel="inh", feedback=True),
            "V1ToV1Error": Identity(pre="V1", post="V1Error"),
            "V1ReconToV1Error": Identity(pre="V1Recon", post="V1Error", channel="inh", feedback=True),
            "V1ErrorToV2": Transpose(pre="V1Error", post="V2", of="V2ToV1Recon"),
            "V1ToRecon": dictionary("V1", "InputRecon", image),
            "V2ToV1Recon": dictionary("V2", "V1Recon", layers["V1"].shape),
        },
    )


def _forward(p: dict[str, Any], weights: Any, shown: Any, images: Any, kernel: Any) -> Network:
    image = (int(p["ny"]), int(p["nx"]), int(p["nfin"]))
    out = (image[0] // p["stride"], image[1] // p["stride"], int(p["nf"]))
    if shown is not None and np.ndim(shown) == 4:
        shown = np.asarray(shown)[None]
    frames = source(p, shown, images, 1, 1)
    return Network(
        title="PetaVision's feed-forward connection",
        run=Run(batch=p["nbatch"], steps=1, kernel=kernel),
        layers={
            "Input": Input(shape=image, source=frames, border="mirror"),
            "Out": Linear(shape=out),
        },
        connections={
            "InputToOut": Conv(
                pre="Input", post="Out", patch=(p["nxp"], p["nxp"]), init=Given(data=np.asarray(weights))
            ),
        },
    )
