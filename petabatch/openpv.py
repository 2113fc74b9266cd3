"""PetaVision's networks from PetaVision's numbers: what its parameters mean here, rule by rule.

`network` takes the parameters of a run of the original under its own names (see `DEFAULTS`) and returns the
same network in petabatch's terms; `simulate` runs it and returns its arrays under the original's names.
What differs between the two programs is in `docs/coming-from-petavision.md`.
"""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from petabatch import memory
from petabatch.connections import Conv, Identity, Transpose
from petabatch.errors import ParamsError, Problem
from petabatch.layers import (
    ISTA,
    LCA,
    BaseTimeScale,
    Input,
    KneeTimeScale,
    Linear,
    LogTimeScale,
    MomentumLCA,
)
from petabatch.learning import Hebbian, RateDecay
from petabatch.openpv_input import Frames, frames
from petabatch.probes import L0, L1, L2, Energy
from petabatch.sources.memory import Data
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import Initial, Layer, Normalize
from petabatch.spec.schedule import Every
from petabatch.weights import L2 as UnitLength
from petabatch.weights import ContrastZeroMean, Max, Sum

INFINITY = "infinity"
DEFAULTS: dict[str, Any] = {
    # the network's size, and the shape of the patches
    "nx": 32, "ny": 32, "nfin": 3, "nbatch": 1, "patch": 8, "stride": 2, "nfeat": 128,
    # time
    "dt": 1.0, "D": 400, "nsteps": 400,
    # the layer V1
    "v1type": "HyPerLCALayer", "tau": 100.0, "selfInteract": True, "LCAMomentumRate": 0.0,
    "VThresh": 0.55, "AMin": 0.0, "AMax": INFINITY, "AShift": 0.55, "VWidth": 0.0,
    "initV": "ConstantV", "valueV": None,
    # borders
    "err_mirror": False, "v1_mirror": False, "rec_mirror": False,
    "err_bc": 0.0, "v1_bc": 0.0, "rec_bc": 0.0,
    # adaptive time scale
    "adaptive": False, "adaptType": "KneeTimeScaleProbe", "knee": {}, "log": {},
    # energy
    "l1": "L1NormLCAProbe", "coefficient": 1.0, "nnzThreshold": 0.0,
    # input
    "err_scale": 1.0, "inputPath": "", "batchMethod": "byImage",
    "start_frame_index": None, "skip_frame_index": None,
    "offsetX": 0, "offsetY": 0, "normLum": True, "normStd": True, "inverse": False,
    # weights and learning
    "weights": "", "shared": True, "normMethod": "normalizeL2", "strength": 1.0,
    "plastic": False, "conntype": "MomentumConn", "method": "viscosity", "tauConn": 100.0, "decay": 0.0,
    "useMomentumTau": False, "dWMax": 1.0, "normalizeDw": True, "immediate": True, "trigOffset": 0.0,
    "dWMaxDecayInterval": 0, "dWMaxDecayFactor": 0.0,
    # without effect on any number: intervals of output, and which delivery code runs
    "ckpt": 1, "writeStep": 1.0, "wstep": 1.0, "trans_sparse": True,
}  # fmt: skip
"""Every parameter of the one-layer network, by the name the golden cases use, and what it is if not given."""
DEEP = {"nx": 32, "ny": 32, "nfin": 3, "nbatch": 1, "D": 100, "nsteps": 200, "V1": {}, "V2": {}, "dt": 1.0}
FORWARD = {"nx": 32, "ny": 32, "nfin": 3, "nbatch": 1, "stride": 1, "nxp": 5, "nf": 6}
_CONTROLLERS = {
    "KneeTimeScaleProbe": KneeTimeScale,
    "LogTimeScaleProbe": LogTimeScale,
    "AdaptiveTimeScaleProbe": BaseTimeScale,
}
_CONTROL = {
    "baseMin": "minimum",
    "baseMax": "maximum",
    "tauFactor": "factor",
    "growthFactor": "growth",
}
_OWN_CONTROL: dict[Any, dict[str, str]] = {
    KneeTimeScale: {"kneeThresh": "knee", "kneeSlope": "slope"},
    LogTimeScale: {"logThresh": "threshold", "logSlope": "slope"},
}


class Given(Initial):
    """Weights handed over in Python, in the layout of PetaVision's files."""

    type: Literal["openpv_weights"] = "openpv_weights"
    data: Data

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return them; patches of the extended grid are cut to the units this connection has."""
        given = self.data.array.astype(float)
        if given.size == math.prod(shape):
            return given.reshape(shape)
        features, patch = shape[2], shape[3:]
        side = given.size // (features * math.prod(patch))
        # The grid is extended by the same margin on all sides: (ky + 2 m)(kx + 2 m) = side.
        for margin in range(1, max(shape[:2])):
            if (shape[0] + 2 * margin) * (shape[1] + 2 * margin) == side:
                grid = given.reshape(shape[0] + 2 * margin, shape[1] + 2 * margin, features, *patch)
                return grid[margin:-margin, margin:-margin]
        raise ValueError(f"weights {list(given.shape)} do not fill a connection of {list(shape)}")


def network(
    params: Mapping[str, Any],
    weights: Any,
    input: np.ndarray | None = None,
    images: np.ndarray | None = None,
    kernel: Literal["auto", "array"] = "auto",
) -> Network:
    """Return the network that the original runs with these parameters, named as in `DEFAULTS`.

    Three networks are known, by their parameters: with `nxp`, `Input -> Out` (feed-forward); with `V1` and
    `V2` as tables of nf, VThresh, AShift, tau, stride, patch, the two-layer deconvolution; else
    `Input -> InputError -> V1 -> InputRecon`, the LCA of the tutorials.

    `weights` is `[nf, py, px, c]`; with `shared` false `[patches, py, px, c]` over the grid of V1 or its
    extension; feed-forward `[ky, kx, nf_in, py, px, nf]`; with two layers a table of both,
    `{"V1": ..., "V2": ...}`. They are normalised by `normMethod` before the first step.

    `input` `[periods, nbatch, ny, nx, c]` is what the input layer shows (the last period stays), or
    `images` `[n, height, width, c]` are raw pixels, from which it follows by the original's rules
    (`petabatch.openpv_input`).

    Raises ParamsError for a parameter that is not known or not supported.
    """
    if "nxp" in params:
        return _forward(_filled(params, FORWARD), weights, input, images, kernel)
    if "V2" in params:
        return _deep(_filled(params, DEEP), weights, input, images, kernel)
    return _single(_filled(params, DEFAULTS), weights, input, images, kernel)


def simulate(net: Network, at: Sequence[int], threads: int | None = None) -> dict[str, np.ndarray]:
    """Run a network of `network` in memory; return its arrays under the original's names.

    At each step in `at` (0 is the initial state): `V1_V`, `V1_A`, `InputError` and so on
    `[len(at), nbatch, y, x, f]`; weights `W` (`W1`, `W2`) and, with momentum, `prev_dW`
    `[len(at), nf, py, px, c]` or `[len(at), ky, kx, nf, py, px, c]`. Of every step from 1: `energy`,
    `err_sumsq`, `sparsity_cost`, `l1`, `l0`, and with adaptive time scale `timescale` and `timescale_max`,
    `[steps, nbatch]`.
    """
    code = net.layers.get("V1")
    if isinstance(code, LCA) and code.time_scale is not None:
        scales = LayerOutput(every=Every(1), variables=("time_scale", "time_scale_max"))
        net = net.model_copy(update={"output": Output(layers={"V1": scales})})
    done = memory.run(net, at, threads)
    found: dict[str, np.ndarray] = {}
    for name, layer in net.layers.items():
        coded = isinstance(layer, LCA)
        found[f"{name}_A" if coded else name] = done.states[f"layers/{name}/A"]
        if coded:
            found[f"{name}_V"] = done.states[f"layers/{name}/V"]
    owned = [name for name, connection in net.connections.items() if isinstance(connection, Conv)]
    for number, name in enumerate(owned, start=1):
        suffix = str(number) if len(owned) > 1 else ""
        for array, key in (("W", "weights"), ("prev_dW", "momentum")):
            values = done.states.get(f"connections/{name}/{key}")
            if values is not None:
                values = values[:, 0]
                found[array + suffix] = values[:, 0, 0] if values.shape[1:3] == (1, 1) else values
    for name, path in _PROBED.items():
        if path in done.recorded:
            found[name] = done.recorded[path]
    return found


_PROBED = {
    "energy": "probes/energy/total",
    "err_sumsq": "probes/err_sumsq/squares",
    "sparsity_cost": "probes/sparsity_cost/sparsity",
    "l1": "probes/l1/sum",
    "l0": "probes/l0/active",
    "timescale": "layers/V1/time_scale",
    "timescale_max": "layers/V1/time_scale_max",
}


def _single(p: dict[str, Any], weights: Any, shown: Any, images: Any, kernel: Any) -> Network:
    display, steps = round(p["D"] / p["dt"]), int(p["nsteps"])
    image = (int(p["ny"]), int(p["nx"]), int(p["nfin"]))
    code = (image[0] // p["stride"], image[1] // p["stride"], int(p["nfeat"]))
    source = _source(p, shown, images, display, steps)
    price = _price(p)
    probes = {
        "energy": Energy(error="InputError", code="V1", **price),
        "sparsity_cost": Energy(error="InputError", code="V1", **{**price, "coefficient": 1.0}),
        "err_sumsq": L2(layer="InputError"),
        "l1": L1(layer="V1"),
        "l0": L0(layer="V1"),
    }
    dictionary = Conv(
        pre="V1",
        post="InputRecon",
        patch=(p["patch"], p["patch"]),
        mode="extra_shared" if p["shared"] else "extra_non_shared",
        init=Given(data=np.asarray(weights)),
        normalize=_normalize(p),
        learn=_learning(p) if p["plastic"] else None,
    )
    return Network(
        title="as the original's LCA",
        run=Run(batch=p["nbatch"], display=display, steps=steps, dt=p["dt"], kernel=kernel),
        layers={
            "Input": Input(shape=image, source=source, every=Every(1, "displays")),
            "InputError": Linear(shape=image, border=_border(p["err_mirror"])),
            "V1": _code(p, code),
            "InputRecon": Linear(shape=image, border=_border(p["rec_mirror"])),
        },
        connections={
            "InputToError": Identity(pre="Input", post="InputError", strength=p["err_scale"]),
            "ReconToError": Identity(pre="InputRecon", post="InputError", channel="inh", feedback=True),
            "V1ToRecon": dictionary,
            "ErrorToV1": Transpose(pre="InputError", post="V1", of="V1ToRecon"),
        },
        probes=probes,
    )


def _code(p: Mapping[str, Any], shape: tuple[int, int, int]) -> Layer:
    """Return V1: every kind of it has the same parameters but for its momentum.

    Without a time scale the original decays by exp(-dt^2 / tau), with one by exp(-scale dt / tau)
    (`HyPerLCAInternalStateBuffer.cpp:110, 168-176`).
    """
    kinds: dict[str, tuple[type[LCA], dict[str, Any]]] = {
        "HyPerLCALayer": (LCA, {"self_interact": p["selfInteract"]}),
        "MomentumLCALayer": (
            MomentumLCA,
            {"self_interact": p["selfInteract"], "rate": p["LCAMomentumRate"]},
        ),
        "ISTALayer": (ISTA, {}),
    }
    kind, own = _one_of("v1type", p["v1type"], kinds)
    tau = p["tau"] if p["adaptive"] else float(np.float32(p["tau"] / p["dt"]))
    # A negative width lowers the threshold instead (`ANNActivityBuffer.cpp:229-239`).
    width = float(p["VWidth"])
    with warnings.catch_warnings():
        # Whoever asks for the original's momentum gets it; the docs say what it does.
        warnings.simplefilter("ignore")
        layer: LCA = kind(
            shape=shape,
            tau=tau,
            threshold=p["VThresh"] + min(width, 0.0),
            transfer="firm" if width else "hard",
            width=abs(width),
            shift=p["AShift"],
            minimum=p["AMin"],
            maximum=math.inf if p["AMax"] == INFINITY else p["AMax"],
            initial=_initial(p),
            time_scale=_time_scale(p) if p["adaptive"] else None,
            border=_border(p["v1_mirror"]),
            **own,
        )
    return layer


def _initial(p: Mapping[str, Any]) -> float:
    known = {"ConstantV": p["VThresh"] if p["valueV"] is None else p["valueV"], "ZeroV": 0.0}
    return float(_one_of("initV", p["initV"], known))


def _time_scale(p: Mapping[str, Any]) -> Any:
    kind = _one_of("adaptType", p["adaptType"], _CONTROLLERS)
    names = {**_CONTROL, **_OWN_CONTROL.get(kind, {})}
    given = {**p["knee"], **p["log"]}
    return kind(energy="energy", **{ours: given[key] for key, ours in names.items() if key in given})


def _price(p: Mapping[str, Any]) -> dict[str, Any]:
    """Return cost and coefficient of a sparsity probe (`VThreshEnergyProbeComponent.cpp:40` and others)."""
    threshold = p["VThresh"]
    corner = threshold + p["VWidth"]
    known: dict[str, dict[str, Any]] = {
        "L1NormLCAProbe": {"cost": "l1", "coefficient": threshold},
        "L0NormLCAProbe": {"cost": "l0", "coefficient": threshold**2 / 2, "above": threshold},
        "FirmThresholdCostFnLCAProbe": {"cost": "firm", "coefficient": threshold, "corner": corner},
        "L1NormProbe": {"cost": "l1", "coefficient": p["coefficient"]},
        "L0NormProbe": {"cost": "l0", "coefficient": p["coefficient"], "above": p["nnzThreshold"]},
        "FirmThresholdCostFnProbe": {"cost": "firm", "coefficient": p["coefficient"], "corner": corner},
    }
    return dict(_one_of("l1", p["l1"], known))


def _learning(p: Mapping[str, Any]) -> Hebbian:
    """Return the learning rule: dW = (1 - f) dW + f dW_before - g W (`MomentumUpdater.cpp:292-349`)."""
    rate, momentum, decay = float(p["dWMax"]), 0.0, 0.0
    if p["conntype"] == "MomentumConn":
        tau, decay = p["tauConn"], p["decay"]
        viscous = math.exp(-1 / tau) if tau else 0.0
        momentum = _one_of("method", p["method"], {"viscosity": viscous, "simple": tau, "alex": tau})
        if p["useMomentumTau"]:
            rate /= 1 - momentum  # the old parameter drops the factor 1 - f
            decay *= 1 - momentum if p["method"] == "alex" else 1
    interval = int(p["dWMaxDecayInterval"])
    # The counter starts at 0: after the first update, and then after every interval + 1 updates.
    slower = (
        RateDecay(every=interval + 1, fraction=p["dWMaxDecayFactor"], phase=interval) if interval else None
    )
    return Hebbian(
        error="InputError",
        rate=rate,
        average="active" if p["normalizeDw"] and p["shared"] else "sum",
        momentum=momentum,
        decay=decay,
        decay_follows_rate=p["method"] == "alex",
        delayed=not p["immediate"],
        rate_decay=slower,
        every=Every(1, "displays"),
        # The trigger, an input that changes at steps k D + 1, is asked trigOffset later.
        offset=1 - round(p["trigOffset"] / p["dt"]),
    )


def _normalize(p: Mapping[str, Any]) -> Normalize | None:
    known: dict[str, Any] = {
        "none": None,
        "normalizeL2": UnitLength,
        "normalizeMax": Max,
        "normalizeSum": Sum,
        "normalizeContrastZeroMean": ContrastZeroMean,
    }
    kind = _one_of("normMethod", p["normMethod"], known)
    return kind(strength=p["strength"]) if kind is not None else None


def _deep(p: dict[str, Any], weights: Any, shown: Any, images: Any, kernel: Any) -> Network:
    image = (int(p["ny"]), int(p["nx"]), int(p["nfin"]))
    display, steps = round(p["D"] / p["dt"]), int(p["nsteps"])
    below, layers, patches = image, {}, {}
    for name in ("V1", "V2"):
        own = _filled({**p[name], "dt": p["dt"]}, {**DEFAULTS, "nf": 16, "stride": 2}, f"{name}.")
        shape = (below[0] // own["stride"], below[1] // own["stride"], int(own["nf"]))
        layers[name], patches[name], below = _code(own, shape), (own["patch"], own["patch"]), shape
    scale = _normalize(_filled({}, DEFAULTS))

    def dictionary(pre: str, post: str) -> Conv:
        data = np.asarray(weights[pre])
        return Conv(pre=pre, post=post, patch=patches[pre], init=Given(data=data), normalize=scale)

    source = _source(_filled({"nbatch": p["nbatch"]}, DEFAULTS) | p, shown, images, display, steps)
    return Network(
        title="as the original's two-layer LCA",
        run=Run(batch=p["nbatch"], display=display, steps=steps, dt=p["dt"], kernel=kernel),
        layers={
            "Input": Input(shape=image, source=source),
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
            "V1ToRecon": dictionary("V1", "InputRecon"),
            "V2ToV1Recon": dictionary("V2", "V1Recon"),
        },
    )


def _forward(p: dict[str, Any], weights: Any, shown: Any, images: Any, kernel: Any) -> Network:
    image = (int(p["ny"]), int(p["nx"]), int(p["nfin"]))
    out = (image[0] // p["stride"], image[1] // p["stride"], int(p["nf"]))
    if shown is not None and np.ndim(shown) == 4:
        shown = np.asarray(shown)[None]
    source = _source(_filled({"nbatch": p["nbatch"]}, DEFAULTS) | p, shown, images, 1, 1)
    return Network(
        title="as the original's feed-forward connection",
        run=Run(batch=p["nbatch"], steps=1, kernel=kernel),
        layers={
            "Input": Input(shape=image, source=source, border="mirror"),
            "Out": Linear(shape=out),
        },
        connections={
            "InputToOut": Conv(
                pre="Input", post="Out", patch=(p["nxp"], p["nxp"]), init=Given(data=np.asarray(weights))
            ),
        },
    )


def _source(p: Mapping[str, Any], shown: Any, images: Any, display: int, steps: int) -> Frames:
    if (shown is None) == (images is None):
        raise ParamsError([Problem("", "give either `input` or `images`")], "openpv")
    if shown is None:
        return frames(p, np.asarray(images), periods=-(-steps // display))
    periods, batch = np.shape(shown)[:2]
    data = np.asarray(shown, np.float32).reshape(periods * batch, *np.shape(shown)[2:])
    return Frames(data=data, index=np.arange(periods * batch).reshape(periods, batch))


def _border(mirror: bool) -> Literal["mirror", "zero"]:
    return "mirror" if mirror else "zero"


def _filled(params: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the parameters with defaults for the others; raises ParamsError for names that are not known."""
    problems = []
    for key in params:
        if key not in defaults:
            near = difflib.get_close_matches(key, defaults, n=1)
            hint = f"did you mean {near[0]}?" if near else ""
            problems.append(Problem(prefix + key, "this parameter is not known here", hint=hint))
    if problems:
        raise ParamsError(problems, "openpv")
    return {**defaults, **params}


def _one_of(key: str, value: str, known: Mapping[str, Any]) -> Any:
    if value not in known:
        problem = Problem(key, "this is not supported", found=repr(value), expected=", ".join(known))
        raise ParamsError([problem], "openpv")
    return known[value]
