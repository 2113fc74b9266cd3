"""PetaVision's parameters in many combinations, against its rules in plain loops (`petavision_model`).

In float64 the two agree to rounding; the fast kernels, in float32, to what single precision allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support import petavision_model as model
from support import petavision_network as openpv

PARAMS: dict[str, Any] = {
    "nx": 16, "ny": 8, "nfin": 2, "nbatch": 2, "patch": 4, "stride": 2, "nfeat": 4, "dt": 1.0, "D": 5,
    "nsteps": 17, "v1type": "HyPerLCALayer", "tau": 8.0, "selfInteract": True, "LCAMomentumRate": 0.0,
    "VThresh": 0.2, "AMin": 0.0, "AMax": "infinity", "AShift": 0.2, "VWidth": 0.0, "initV": "ConstantV",
    "err_mirror": False, "v1_mirror": False, "err_scale": 1.0, "l1": "L1NormLCAProbe", "adaptive": False,
    "adaptType": "KneeTimeScaleProbe", "shared": True, "normMethod": "normalizeL2", "strength": 1.0,
    "plastic": False, "conntype": "MomentumConn", "method": "viscosity", "tauConn": 2.0, "decay": 0.0,
    "useMomentumTau": False, "dWMax": 0.5, "normalizeDw": True, "immediate": True, "trigOffset": 1.0,
    "dWMaxDecayInterval": 0, "dWMaxDecayFactor": 0.0,
    "normalizeFromPostPerspective": False, "normalizeOnInitialize": True, "normalizeOnWeightUpdate": True,
    "triggerLayerName": None, "triggerOffset": 0.0, "triggerBehavior": "updateOnlyOnTrigger",
    "knee": {"baseMax": 0.6, "baseMin": 0.5, "tauFactor": 0.3, "growthFactor": 0.25, "kneeThresh": 0.9,
             "kneeSlope": 0.1, "logThresh": 2.0, "logSlope": 0.1},
}  # fmt: skip
FIRM = {"AShift": 0.0, "VWidth": 0.3, "l1": "FirmThresholdCostFnLCAProbe"}
LEARN = {"plastic": True}
LOCAL = {"shared": False, "tau": 30.0, "dWMax": 0.05}
MIRROR = {"err_mirror": True, "v1_mirror": True}

CODES: list[dict[str, Any]] = [
    {},
    {"selfInteract": False},
    {"initV": "ZeroV", "nbatch": 1},
    {"valueV": 0.35},
    {"AShift": 0.0, "initV": "ZeroV"},
    {"AShift": 0.0, "l1": "L0NormLCAProbe", "nsteps": 3},
    {"AShift": 0.1, "VWidth": 0.3, "AMin": 0.05},
    {"AMax": 0.3, "AMin": -0.1},
    {**FIRM, "AMax": 0.4},
    {"VWidth": -0.1, "l1": "FirmThresholdCostFnLCAProbe"},
    {"v1type": "MomentumLCALayer", "LCAMomentumRate": 0.3},
    {"v1type": "MomentumLCALayer", "LCAMomentumRate": 0.5, "selfInteract": False, **FIRM},
    {"v1type": "ISTALayer", "nsteps": 8},
    {"v1type": "ISTALayer", "dt": 0.5, "nsteps": 8},
    {"dt": 0.5},
    {"dt": 2.0, "D": 10.0, "tau": 20.0},
    {"err_scale": 0.5, "nbatch": 3},
    {"D": 0, "adaptive": True, **LEARN, "trigOffset": 0.0},
    {"D": 0, **LEARN},
    {"triggerLayerName": "Input", "tau": 2.0},
    {"triggerLayerName": "Input", "triggerOffset": 2.0, "tau": 2.0, "plastic": True},
    {"triggerLayerName": "Input", "triggerBehavior": "ignore"},
]
TIME_SCALES: list[dict[str, Any]] = [
    {"adaptive": True},
    {"adaptive": True, "adaptType": "AdaptiveTimeScaleProbe", "selfInteract": False},
    {"adaptive": True, "adaptType": "LogTimeScaleProbe", **FIRM},
    {"adaptive": True, "v1type": "MomentumLCALayer", "LCAMomentumRate": 0.3, "dt": 0.5},
    {"adaptive": True, "v1type": "ISTALayer", "nsteps": 8},
    {"adaptive": True, **LEARN, **MIRROR},
]
PATCHES: list[dict[str, Any]] = [
    {**LEARN, **border, **size}
    for border in ({}, {"err_mirror": True}, {"v1_mirror": True}, MIRROR)
    for size in ({"patch": 8}, {"patch": 6}, {"stride": 4}, {"stride": 1, "patch": 3, "tau": 20.0})
]
MOMENTA: list[dict[str, Any]] = [
    {"method": "viscosity", "decay": 0.01},
    {"method": "viscosity", "tauConn": 0.0},
    {"method": "simple", "tauConn": 0.6},
    {"method": "alex", "tauConn": 0.9, "decay": 0.02},
    {"conntype": "HyPerConn"},
    {"method": "alex", "tauConn": 0.5, "decay": 0.02, "useMomentumTau": True},
]
UPDATES: list[dict[str, Any]] = [
    {"immediate": False},
    {"trigOffset": 0},
    {"normalizeDw": False, "dWMax": 0.01},
    {"dWMaxDecayInterval": 1, "dWMaxDecayFactor": 0.5, "D": 3},
    {**LOCAL},
    {**LOCAL, **MIRROR, "patch": 8},
]
LEARNING = [{**LEARN, **how, **when} for how in MOMENTA for when in UPDATES]
NORMALISER_OPTIONS: list[dict[str, Any]] = [
    {**LEARN, "tau": 30.0, "normalizeFromPostPerspective": True, "strength": 0.5, "nfeat": 6},
    {**LEARN, "tau": 30.0, "normalizeOnInitialize": False, "normMethod": "normalizeMax", "strength": 0.2},
    {**LEARN, "tau": 30.0, "normalizeOnWeightUpdate": False, "strength": 0.7},
]
NORMALISERS: list[dict[str, Any]] = [
    {**LEARN, "tau": 30.0, "normMethod": method, "strength": strength, **where}
    for method, strength in (
        ("none", 1.0),
        ("normalizeL2", 0.7),
        ("normalizeMax", 0.2),
        ("normalizeSum", 3.0),
        ("normalizeContrastZeroMean", 0.1),
    )
    for where in ({}, {**LOCAL, "dWMax": 0.005})
]


def ident(params: dict[str, Any]) -> str:
    return "-".join(f"{key}={value}" for key, value in params.items()) or "plain"


@pytest.mark.sampled(31)
@pytest.mark.parametrize(
    "params", [*CODES, *TIME_SCALES, *PATCHES, *LEARNING, *NORMALISERS, *NORMALISER_OPTIONS], ids=ident
)
def test_every_state_norm_and_weight_follows_the_originals_rules(params: dict[str, Any]) -> None:
    p = {**PARAMS, **params}
    rng = np.random.default_rng(0)
    shape = (p["nfeat"], p["patch"], p["patch"], p["nfin"])
    halo = (p["patch"] // p["stride"]) // 2
    grid = () if p["shared"] else tuple(p[n] // p["stride"] + 2 * halo for n in ("ny", "nx"))
    # Unit patches, so that no combination grows without bound; all positive where they are to be summed.
    weights = rng.normal(size=(*grid, *shape)) + (2.0 if p["normMethod"] == "normalizeSum" else 0.0)
    weights /= np.sqrt((weights**2).sum((-3, -2, -1), keepdims=True))
    weights = weights.astype(np.float32)
    periods = -(-p["nsteps"] // round(p["D"] / p["dt"])) if p["D"] else 1
    shown = rng.normal(size=(periods, p["nbatch"], p["ny"], p["nx"], p["nfin"])).astype(np.float32)
    expected = model.run({"valueV": p["VThresh"], **p}, weights, shown)
    for kernel, precision, limit in (("array", "float64", 1e-6), ("auto", "float32", 5e-5)):
        net = openpv.network(p, weights.reshape(-1, *shape[1:]), input=shown, kernel=kernel)
        net = net.model_copy(update={"run": net.run.model_copy(update={"precision": precision})})
        found = openpv.simulate(net, range(p["nsteps"] + 1), threads=1)
        assert {"V1_V", "V1_A", "InputError", "InputRecon", "W", "energy", "l0"} <= found.keys()
        for name in found.keys() & expected.keys():
            mine, theirs = found[name], expected[name]
            if mine.shape != theirs.shape:  # without a mirror, patches beyond the edge of V1 do nothing
                theirs = theirs[:, halo:-halo, halo:-halo]
            size = max(1.0, float(np.abs(theirs).max()))
            np.testing.assert_allclose(mine / size, theirs / size, rtol=0, atol=limit, err_msg=name)


@pytest.mark.parametrize("own", [{}, {"stride": 1, "patch": 3}, {"stride": 4, "patch": 4, "AShift": 0.1}])
def test_two_layers_follow_petavisions_rules(own: dict[str, Any]) -> None:
    first = {"nf": 4, "VThresh": 0.3, "AShift": 0.3, "tau": 10.0, "stride": 2, "patch": 8}
    second = {"nf": 5, "VThresh": 0.2, "AShift": 0.2, "tau": 20.0, "stride": 2, "patch": 4, **own}
    p = {"nx": 16, "ny": 16, "nfin": 2, "nbatch": 2, "D": 6, "nsteps": 14, "V1": first, "V2": second}
    rng = np.random.default_rng(1)
    weights = {"V1": rng.normal(size=(4, 8, 8, 2)), "V2": rng.normal(size=(5, *2 * (second["patch"],), 4))}
    shown = rng.normal(size=(3, 2, 16, 16, 2)).astype(np.float32)
    expected = model.run_deep(p, weights, shown)
    found = openpv.simulate(openpv.network(p, weights, input=shown), range(15))
    for name, theirs in expected.items():
        np.testing.assert_allclose(found[name], theirs, rtol=0, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(
    ("stride", "size"), [(1, 1), (1, 3), (1, 5), (2, 1), (2, 2), (2, 3), (2, 4), (4, 2), (4, 3)]
)
def test_a_feed_forward_connection_follows_the_originals_geometry(stride: int, size: int) -> None:
    p = {"nx": 16, "ny": 16, "nfin": 2, "nbatch": 2, "stride": stride, "nxp": size, "nf": 3}
    rng = np.random.default_rng(2)
    weights = rng.normal(size=(stride, stride, 2, size, size, 3))
    image = rng.normal(size=(2, 16, 16, 2)).astype(np.float32)
    found = openpv.simulate(openpv.network(p, weights, input=image), [1])["Out"][0]
    np.testing.assert_allclose(found, model.forward(p, weights, image), rtol=0, atol=2e-5)
