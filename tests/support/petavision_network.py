"""PetaVision's networks of the golden cases, as parameter files that are imported; their arrays by its names.

`network` writes a parameter file, `.pvp` files of input and weights, and loads it as a user does.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import petabatch
from petabatch import in_memory
from petabatch.petavision.pvp import write_activities, write_weights
from petabatch.spec.network import LayerOutput, Network, Output
from petabatch.spec.schedule import Every

_FOLDERS = tempfile.TemporaryDirectory()
DEFAULTS: dict[str, Any] = {
    "nx": 32, "ny": 32, "nfin": 3, "nbatch": 1, "patch": 8, "stride": 2, "nfeat": 128, "dt": 1.0, "D": 400,
    "nsteps": 400, "v1type": "HyPerLCALayer", "tau": 100.0, "selfInteract": True, "LCAMomentumRate": 0.0,
    "VThresh": 0.55, "AMin": 0.0, "AMax": "infinity", "AShift": 0.55, "VWidth": 0.0, "initV": "ConstantV",
    "valueV": None, "triggerLayerName": None, "triggerOffset": 0.0, "triggerBehavior": "updateOnlyOnTrigger",
    "triggerResetLayerName": None, "verticesV": None, "verticesA": None, "slopeNegInf": 1.0,
    "slopePosInf": 1.0, "err_mirror": False, "v1_mirror": False, "rec_mirror": False, "err_bc": 0.0,
    "v1_bc": 0.0, "rec_bc": 0.0, "adaptive": False, "adaptType": "KneeTimeScaleProbe", "knee": {},
    "l1": "L1NormLCAProbe", "coefficient": 1.0, "nnzThreshold": 0.0, "err_scale": 1.0,
    "batchMethod": "byImage", "start_frame_index": None, "skip_frame_index": None,
    "resetToStartOnLoop": False, "offsetX": 0, "offsetY": 0, "offsetAnchor": "tl", "padValue": 0.0,
    "normLum": True, "normStd": True, "inverse": False, "shared": True, "normMethod": "normalizeL2",
    "strength": 1.0, "normalizeFromPostPerspective": False, "normalizeOnInitialize": True,
    "normalizeOnWeightUpdate": True, "plastic": False, "conntype": "MomentumConn", "method": "viscosity",
    "tauConn": 100.0, "decay": 0.0, "useMomentumTau": False, "dWMax": 1.0, "normalizeDw": True,
    "immediate": True, "trigOffset": 0.0, "dWMaxDecayInterval": 0, "dWMaxDecayFactor": 0.0,
}  # fmt: skip
"""Parameters of the one-layer network, by the names of the golden cases."""


def network(
    params: Mapping[str, Any], weights: Any, input: Any = None, images: Any = None, kernel: str = "auto"
) -> Network:
    """Return the network that PetaVision runs with these parameters.

    Three networks: with `nxp` a feed-forward connection, with `V1` and `V2` as tables two layers of code,
    else the LCA of the tutorials. `input` is `[periods, batch, ny, nx, c]`, `images` are raw pixels.
    """
    folder = Path(tempfile.mkdtemp(dir=_FOLDERS.name))
    p = {**DEFAULTS, **params}
    if "nxp" in params:
        groups = _forward(folder, {**p, "stride": 1, "nf": 6, **params}, weights, input, images)
    elif "V2" in params:
        groups = _deep(folder, {**p, "D": 100, "nsteps": 200, **params}, weights, input, images)
    else:
        groups = [*_single(folder, p, weights), _input(folder, p, input, images)]
    file = folder / "net.params"
    file.write_text("\n".join(groups))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # momentum_lca is asked for
        return petabatch.load(file, [f"run.kernel={kernel}"]).network


def group(keyword: str, name: str, **parameters: Any) -> str:
    """Return a group of a parameter file; None leaves out a parameter."""
    lines = [f"    {key} = {_value(value)};" for key, value in parameters.items() if value is not None]
    return "\n".join([f'{keyword} "{name}" = {{', *lines, "};"])


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if value == "infinity" else f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(float(value))


def _column(p: Mapping[str, Any], steps: int) -> str:
    return group(
        "HyPerCol", "column", nx=p["nx"], ny=p["ny"], nbatch=p["nbatch"], dt=p["dt"],
        stopTime=steps * p["dt"], randomSeed=12345678,
    )  # fmt: skip


def _layer(keyword: str, name: str, scale: float, nf: int, phase: int, **own: Any) -> str:
    own = {"InitVType": "ZeroV", **own}
    return group(keyword, name, nxScale=scale, nyScale=scale, nf=nf, phase=phase, writeStep=-1.0, **own)


def _input(folder: Path, p: Mapping[str, Any], input: Any, images: Any = None, **own: Any) -> str:
    """Write what the input layer shows; return its group."""
    own |= {"nf": p["nfin"], "phase": 0, "displayPeriod": p["D"], "writeStep": -1.0}
    if images is None:
        frames = np.asarray(input, np.float32).reshape(-1, p["ny"], p["nx"], p["nfin"])
        write_activities(folder / "input.pvp", frames.shape[1:], enumerate(frames))
        return group("PvpLayer", "Input", inputPath="input.pvp", **own)
    names = [f"{number:03}.png" for number in range(len(images))]
    for name, image in zip(names, images, strict=True):
        Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(folder / name)
    (folder / "images.txt").write_text("\n".join(names))
    return group(
        "ImageLayer", "Input", inputPath="images.txt", batchMethod=p["batchMethod"],
        start_frame_index=p["start_frame_index"], skip_frame_index=p["skip_frame_index"],
        resetToStartOnLoop=p["resetToStartOnLoop"], offsetX=p["offsetX"], offsetY=p["offsetY"],
        offsetAnchor=p["offsetAnchor"], padValue=p["padValue"], normalizeLuminanceFlag=p["normLum"],
        normalizeStdDev=p["normStd"], inverseFlag=p["inverse"], **own,
    )  # fmt: skip


def _code(p: Mapping[str, Any], name: str, scale: float, nf: int, phase: int, **own: Any) -> str:
    value = p["VThresh"] if p["valueV"] is None else p["valueV"]
    shared = ("VThresh", "AMin", "AMax", "AShift", "VWidth", "verticesV", "verticesA", "slopeNegInf")
    own |= {key: p[key] for key in (*shared, "slopePosInf")}
    own |= {"timeConstantTau": p["tau"], "InitVType": p["initV"], "valueV": value}
    if p["v1type"] != "ISTALayer":
        own["selfInteract"] = p["selfInteract"]
    if p["v1type"] == "MomentumLCALayer":
        own["LCAMomentumRate"] = p["LCAMomentumRate"]
    return _layer(p["v1type"], name, scale, nf, phase, **own)


def _single(folder: Path, p: dict[str, Any], weights: Any) -> list[str]:
    scale, size = 1 / p["stride"], (p["ny"] // p["stride"], p["nx"] // p["stride"])
    learned = {"plasticityFlag": p["plastic"]}
    if p["plastic"]:
        learned |= {
            "triggerLayerName": "Input", "triggerOffset": p["trigOffset"], "dWMax": p["dWMax"],
            "normalizeDw": p["normalizeDw"], "immediateWeightUpdate": p["immediate"],
            "dWMaxDecayInterval": p["dWMaxDecayInterval"], "dWMaxDecayFactor": p["dWMaxDecayFactor"],
        }  # fmt: skip
    if p["conntype"] == "MomentumConn":
        tau = "momentumTau" if p["useMomentumTau"] else "timeConstantTau"
        learned |= {"momentumMethod": p["method"], tau: p["tauConn"], "momentumDecay": p["decay"]}
    trigger = {
        key: p[key]
        for key in ("triggerLayerName", "triggerOffset", "triggerBehavior", "triggerResetLayerName")
    }
    if p["adaptive"]:
        trigger["adaptiveTimeScaleProbe"] = "scale"
    low, width = p["VThresh"] + min(p["VWidth"], 0.0), abs(p["VWidth"])
    firm = {"VThresh": low, "VWidth": width}
    raw = {"L1": "L1NormProbe", "L0": "L0NormProbe", "Fi": "FirmThresholdCostFnProbe"}[p["l1"][:2]]
    plain = {"L1": {}, "L0": {"nnzThreshold": low if "LCA" in p["l1"] else p["nnzThreshold"]}, "Fi": firm}
    given = {} if "LCA" in p["l1"] else {"coefficient": p["coefficient"], **plain[p["l1"][:2]]}
    groups = [
        _column(p, int(p["nsteps"])),
        _layer("HyPerLayer", "InputError", 1, p["nfin"], 1, mirrorBCflag=p["err_mirror"]),
        _code(p, "V1", scale, p["nfeat"], 2, mirrorBCflag=p["v1_mirror"], **trigger),
        _layer("HyPerLayer", "InputRecon", 1, p["nfin"], 3, mirrorBCflag=p["rec_mirror"]),
        _joined("RescaleConn", "InputToError", "Input", "InputError", scale=p["err_scale"]),
        _joined("IdentConn", "ReconToError", "InputRecon", "InputError", channelCode=1),
        _dictionary(
            folder, p, p["conntype"], "V1ToError", "V1", "InputError", p["patch"], weights, size,
            channelCode=-1, **learned,
        ),
        _joined("CloneConn", "V1ToRecon", "V1", "InputRecon", originalConnName="V1ToError"),
        _joined("TransposeConn", "ErrorToV1", "InputError", "V1", originalConnName="V1ToError"),
        group("ColumnEnergyProbe", "energy"),
        group(
            "L2NormProbe", "residual", targetLayer="InputError", energyProbe="energy", coefficient=0.5,
            exponent=2,
        ),
        group(p["l1"], "price", targetLayer="V1", energyProbe="energy", **given),
        group("ColumnEnergyProbe", "sparsity_cost"),
        group(raw, "cost", targetLayer="V1", energyProbe="sparsity_cost", **plain[p["l1"][:2]]),
        group("L2NormProbe", "err_sumsq", targetLayer="InputError", exponent=2),
        group("L1NormProbe", "l1", targetLayer="V1"),
        group("L0NormProbe", "l0", targetLayer="V1"),
    ]  # fmt: skip
    if p["adaptive"]:
        names = ("baseMin", "baseMax", "tauFactor", "growthFactor")
        names += {"K": ("kneeThresh", "kneeSlope"), "L": ("logThresh", "logSlope"), "A": ()}[
            p["adaptType"][0]
        ]
        own = {key: value for key, value in p["knee"].items() if key in names}
        groups.append(group(p["adaptType"], "scale", targetName="energy", triggerLayerName="Input", **own))
    return groups


def _joined(keyword: str, name: str, pre: str, post: str, **own: Any) -> str:
    own = {"channelCode": 0, **own}
    return group(keyword, name, preLayerName=pre, postLayerName=post, **own)


def _dictionary(
    folder: Path, p: Mapping[str, Any], keyword: str, name: str, pre: str, post: str, patch: int,
    weights: Any, size: tuple[int, int], **own: Any,
) -> str:  # fmt: skip
    given = np.asarray(weights, np.float32)
    given = given.reshape(-1, *given.shape[-3:])
    features = p["nfeat"] if name == "V1ToError" else len(given)
    if p["shared"]:
        write_weights(folder / f"{name}.pvp", [(0.0, given[None, None])])
    else:
        margin = next(m for m in range(99) if (size[0] + 2 * m) * (size[1] + 2 * m) * features == len(given))
        grid = given.reshape(size[0] + 2 * margin, size[1] + 2 * margin, features, *given.shape[1:])
        write_weights(folder / f"{name}.pvp", [(0.0, grid)], units=size)
    keys = (
        "strength", "normalizeFromPostPerspective", "normalizeOnInitialize", "normalizeOnWeightUpdate",
    )  # fmt: skip
    own |= {key: p[key] for key in keys}
    return _joined(
        keyword, name, pre, post, nxp=patch, nyp=patch, sharedWeights=p["shared"],
        weightInitType="FileWeight", initWeightsFile=f"{name}.pvp", normalizeMethod=p["normMethod"],
        writeStep=-1.0, **own,
    )  # fmt: skip


def _deep(folder: Path, p: dict[str, Any], weights: Any, shown: Any, images: Any) -> list[str]:
    codes = [{**DEFAULTS, "nf": 16, **p[name]} for name in ("V1", "V2")]
    first, second = 1 / codes[0]["stride"], 1 / codes[0]["stride"] / codes[1]["stride"]
    nf, c = codes[0]["nf"], p["nfin"]
    return [
        _column(p, p["nsteps"]),
        _input(folder, p, shown, images),
        _layer("HyPerLayer", "InputError", 1, c, 1),
        _code(codes[0], "V1", first, nf, 2),
        _layer("HyPerLayer", "V1Error", first, nf, 3),
        _layer("HyPerLayer", "InputRecon", 1, c, 3),
        _code(codes[1], "V2", second, codes[1]["nf"], 4),
        _layer("HyPerLayer", "V1Recon", first, nf, 5),
        _joined("IdentConn", "InputToError", "Input", "InputError"),
        _joined("IdentConn", "ReconToError", "InputRecon", "InputError", channelCode=1),
        _joined("TransposeConn", "ErrorToV1", "InputError", "V1", originalConnName="V1ToRecon"),
        _joined("IdentConn", "V1ErrorToV1", "V1Error", "V1", channelCode=1),
        _joined("IdentConn", "V1ToV1Error", "V1", "V1Error"),
        _joined("IdentConn", "V1ReconToV1Error", "V1Recon", "V1Error", channelCode=1),
        _joined("TransposeConn", "V1ErrorToV2", "V1Error", "V2", originalConnName="V2ToV1Recon"),
        *(
            _dictionary(
                folder, p, "HyPerConn", name, pre, post, code["patch"], weights[pre], (1, 1),
                plasticityFlag=False,
            )
            for name, pre, post, code in (
                ("V1ToRecon", "V1", "InputRecon", codes[0]), ("V2ToV1Recon", "V2", "V1Recon", codes[1]),
            )
        ),
    ]  # fmt: skip


def _forward(folder: Path, p: dict[str, Any], weights: Any, shown: Any, images: Any) -> list[str]:
    given = np.asarray(weights, np.float32)
    kernels = given if given.ndim == 6 else given[None, None]
    write_weights(folder / "w.pvp", [(0.0, kernels)])
    return [
        _column({**p, "dt": 1.0}, 1),
        _input(folder, {**p, "D": 0}, shown, images, mirrorBCflag=True),
        _layer("HyPerLayer", "Out", 1 / p["stride"], p["nf"], 1),
        _joined(
            "HyPerConn", "InputToOut", "Input", "Out", nxp=p["nxp"], nyp=p["nxp"], plasticityFlag=False,
            weightInitType="FileWeight", initWeightsFile="w.pvp", normalizeMethod="none",
        ),
    ]  # fmt: skip


_PROBED = {
    "energy": "probes/energy/total",
    "err_sumsq": "probes/err_sumsq/squares",
    "sparsity_cost": "probes/sparsity_cost/total",
    "l1": "probes/l1/sum",
    "l0": "probes/l0/active",
    "timescale": "layers/V1/time_scale",
    "timescale_max": "layers/V1/time_scale_max",
    "timescale_true": "layers/V1/energy_before",
}


def simulate(net: Network, at: Sequence[int], threads: int | None = None) -> dict[str, np.ndarray]:
    """Run a network of `network` in memory; return its arrays under PetaVision's names.

    At each step in `at`: `V1_V`, `V1_A`, `InputError` and so on `[len(at), nbatch, y, x, f]`, weights `W`
    (`W1`, `W2`) and `prev_dW`. At every step from 1, `[steps, nbatch]`: energies and norms. The run ends
    after its steps, or at the last of `at`.
    """
    run = net.run.model_copy(update={"steps": max(net.run.length, *at, 0), "displays": None})
    net = net.model_copy(update={"run": run, "output": Output()})
    if "V1" in net.layers and net.layers["V1"].controller is not None:
        scales = LayerOutput(every=Every(1), variables=("time_scale", "time_scale_max", "energy_before"))
        net = net.model_copy(update={"output": Output(layers={"V1": scales})})
    done = in_memory.run(net, at, threads)
    found: dict[str, np.ndarray] = {}
    for name, layer in net.layers.items():
        coded = any(variable.name == "V" for variable in layer.variables())
        found[f"{name}_A" if coded else name] = done.states[f"layers/{name}/A"]
        if coded:
            found[f"{name}_V"] = done.states[f"layers/{name}/V"]
    owned = [name for name, connection in net.connections.items() if connection.owner is not None]
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
    assert math.isfinite(found.get("energy", np.zeros(1)).sum())
    return found
