"""PetaVision's parameters supported here, by the names of the golden cases, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from petabatch.errors import ParamsError, Problem, did_you_mean

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
    # update schedule of V1
    "triggerLayerName": None, "triggerOffset": 0.0, "triggerBehavior": "updateOnlyOnTrigger",
    "triggerResetLayerName": None,
    "verticesV": None, "verticesA": None, "slopeNegInf": 1.0, "slopePosInf": 1.0,
    # borders
    "err_mirror": False, "v1_mirror": False, "rec_mirror": False,
    "err_bc": 0.0, "v1_bc": 0.0, "rec_bc": 0.0,
    # adaptive time scale
    "adaptive": False, "adaptType": "KneeTimeScaleProbe", "knee": {},
    # energy
    "l1": "L1NormLCAProbe", "coefficient": 1.0, "nnzThreshold": 0.0,
    # input
    "err_scale": 1.0, "inputPath": "", "batchMethod": "byImage",
    "start_frame_index": None, "skip_frame_index": None, "resetToStartOnLoop": False,
    "offsetX": 0, "offsetY": 0, "offsetAnchor": "tl", "padValue": 0.0,
    "normLum": True, "normStd": True, "inverse": False,
    # weights and learning
    "weights": "", "shared": True, "normMethod": "normalizeL2", "strength": 1.0,
    "normalizeFromPostPerspective": False, "normalizeOnInitialize": True, "normalizeOnWeightUpdate": True,
    "plastic": False, "conntype": "MomentumConn", "method": "viscosity", "tauConn": 100.0, "decay": 0.0,
    "useMomentumTau": False, "dWMax": 1.0, "normalizeDw": True, "immediate": True, "trigOffset": 0.0,
    "dWMaxDecayInterval": 0, "dWMaxDecayFactor": 0.0,
    # without effect on results: output intervals, and the choice of the delivery code
    "ckpt": 1, "writeStep": 1.0, "wstep": 1.0, "trans_sparse": True,
}  # fmt: skip
"""Parameters of the one-layer network, by the names of the golden cases, and their defaults."""
CONTROL = {
    "baseMin": 1.0, "baseMax": 1.0, "tauFactor": 1.0, "growthFactor": 1.0,
    "kneeThresh": 1.0, "kneeSlope": 1.0, "logThresh": 1024.0, "logSlope": 1.0,
}  # fmt: skip
"""Parameters of the table `knee`, for all time-scale probes; each uses its own and ignores the others."""
CODE = {
    "nf": 16, "stride": 2, "patch": 8,
    **{key: DEFAULTS[key] for key in (
        "v1type", "tau", "selfInteract", "LCAMomentumRate", "VThresh", "AMin", "AMax", "AShift", "VWidth",
        "initV", "valueV", "verticesV", "verticesA", "slopeNegInf", "slopePosInf",
    )},
}  # fmt: skip
"""Parameters of the tables `V1` and `V2` of the two-layer network."""
_INPUT = {key: DEFAULTS[key] for key in (
    "nx", "ny", "nfin", "nbatch", "dt", "inputPath", "batchMethod", "start_frame_index", "skip_frame_index",
    "resetToStartOnLoop", "offsetX", "offsetY", "offsetAnchor", "padValue", "normLum", "normStd", "inverse",
    "ckpt", "writeStep", "wstep", "trans_sparse",
)}  # fmt: skip
_NORMALIZE = {key: DEFAULTS[key] for key in (
    "normMethod", "strength", "normalizeFromPostPerspective", "normalizeOnInitialize",
    "normalizeOnWeightUpdate",
)}  # fmt: skip
DEEP = {**_INPUT, **_NORMALIZE, "D": 100, "nsteps": 200, "V1": {}, "V2": {}}
"""Parameters of the two-layer network."""
FORWARD = {**_INPUT, "stride": 1, "nxp": 5, "nf": 6}
"""Parameters of the feed-forward network."""


def filled(params: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the parameters, with defaults filled in; raises ParamsError for unknown names."""
    problems = []
    for key in params:
        if key not in defaults:
            problems.append(
                Problem(prefix + key, "this parameter is not supported", hint=did_you_mean(key, defaults))
            )
    if problems:
        raise ParamsError(problems, "openpv")
    return {**defaults, **params}


def one_of(key: str, value: str, known: Mapping[str, Any]) -> Any:
    """Return `known[value]`; raises ParamsError, listing the choices, if there is none."""
    if value not in known:
        problem = Problem(key, "this value is not supported", found=repr(value), expected=", ".join(known))
        raise ParamsError([problem], "openpv")
    return known[value]
