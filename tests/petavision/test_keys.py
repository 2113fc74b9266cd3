"""Every parameter of every class of PetaVision changes the params file, the report or an error."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from petabatch.errors import ParamsError
from petabatch.petavision import read
from petabatch.petavision.connections import KINDS as CONNECTIONS
from petabatch.petavision.keys import CLASSES, Key
from petabatch.petavision.layers import KINDS as LAYERS
from petabatch.petavision.pvp import write_activities
from support.petavision_groups import written

UNUSUAL = {"number": "0.75", "whole": "7", "text": '"unusual"', "numbers": "[3, 5]"}
_TRIGGER = 'triggerLayerName = "I"; '
_CURVE = "verticesV = [1]; verticesA = [1]; "
_JITTER = "jitterChangeInterval = 1; "
_LEVELS = 'weightInitType = "DiscreteUniformRandomWeight"; wMin = 0; wMax = 9; numValues = 3; '
_GAUSSIANS = 'weightInitType = "Gauss2DWeight"; '
_NORMALIZED = 'normalizeMethod = "normalizeL2"; '
COUNTS = {
    "column": {
        "checkpointWriteTriggerMode": "checkpointWrite = true; ",
        "checkpointWriteStepInterval": "checkpointWrite = true; ",
        "checkpointWriteTimeInterval": 'checkpointWrite = true; checkpointWriteTriggerMode = "time"; ',
        "deleteOlderCheckpoints": "checkpointWrite = true; ",
        "numCheckpointsKept": "checkpointWrite = true; deleteOlderCheckpoints = true; ",
    },
    "layer": {
        "triggerOffset": _TRIGGER,
        "triggerBehavior": _TRIGGER,
        "triggerResetLayerName": _TRIGGER + 'triggerBehavior = "resetStateOnTrigger"; ',
        "minV": 'InitVType = "UniformRandomV"; maxV = 9; ',
        "maxV": 'InitVType = "UniformRandomV"; ',
        "meanV": 'InitVType = "GaussianRandomV"; maxV = 9; ',
        "numValues": 'InitVType = "DiscreteUniformRandomV"; ',
        "Vfilename": 'InitVType = "InitVFromFile"; Vfilename = "images.pvp"; ',
        "frameNumber": 'InitVType = "InitVFromFile"; Vfilename = "images.pvp"; ',
        "channelIndices": "channelCoefficients = [2, 3]; ",
        "channelCoefficients": "channelIndices = [0, 1]; ",
        "slopeNegInf": _CURVE,
        "slopePosInf": _CURVE,
        "featureIdxs": 'maskMethod = "maskFeatures"; ',
        "targetMean": 'rescaleMethod = "meanstd"; ',
        "targetStd": 'rescaleMethod = "meanstd"; ',
        "patchSize": 'rescaleMethod = "l2"; ',
        "skip_frame_index": 'batchMethod = "bySpecified"; ',
        "resetToStartOnLoop": 'batchMethod = "bySpecified"; ',
        "padValue": 'autoResizeFlag = true; aspectRatioAdjustment = "pad"; ',
        "aspectRatioAdjustment": "autoResizeFlag = true; ",
        "interpolationMethod": "autoResizeFlag = true; ",
        "normalizeStdDev": "normalizeLuminanceFlag = true; ",
        "jitterChangeIntervalUnit": _JITTER,
        "maxShiftX": _JITTER,
        "maxShiftY": _JITTER,
    },
    "connection": {
        "triggerOffset": _TRIGGER,
        "maskLayerName": "useMask = true; ",
        "maskFeatureIdx": 'useMask = true; maskLayerName = "O"; ',
        "dWMaxDecayFactor": "dWMaxDecayInterval = 5; ",
        "frameNumber": 'initWeightsFile = "w.pvp"; ',
        "prev_dWFrameNumber": 'initPrev_dWFile = "w.pvp"; ',
        "postIndexLayerName": "needPostIndexLayer = true; ",
        "weightInit": 'weightInitType = "UniformWeight"; ',
        "connectOnlySameFeatures": 'weightInitType = "UniformWeight"; ',
        "wGaussMean": 'weightInitType = "GaussianRandomWeight"; ',
        "wGaussStdev": 'weightInitType = "GaussianRandomWeight"; ',
        "bowtieAngle": _GAUSSIANS + "bowtieFlag = true; ",
        **dict.fromkeys(("wMin", "wMax", "numValues"), _LEVELS),
        **dict.fromkeys(
            (
                "aspect", "sigma", "rMax", "rMin", "numOrientationsPost", "numOrientationsPre",
                "deltaThetaMax", "thetaMax", "numFlanks", "flankShift", "rotate", "bowtieFlag",
            ),
            _GAUSSIANS,
        ),
        **dict.fromkeys(
            (
                "strength", "normalizeFromPostPerspective", "normalizeOnInitialize",
                "normalizeOnWeightUpdate", "minL2NormTolerated", "rMinX", "rMinY",
                "nonnegativeConstraintFlag", "normalize_cutoff", "symmetrizeWeights",
            ),
            _NORMALIZED,
        ),
        "normalizeGroupName": 'normalizeMethod = "normalizeGroup"; normalizeGroupName = "W"; ',
        "normalizeArborsIndividually": "numAxonalArbors = 2; ",
        "minSumTolerated": 'normalizeMethod = "normalizeSum"; ',
        "minMaxTolerated": 'normalizeMethod = "normalizeMax"; ',
    },
    "probe": {"triggerOffset": _TRIGGER},
}  # fmt: skip
"""Parameters with which another one counts, as its class has them."""


def said(folder: Path, text: str) -> frozenset[str]:
    """Return the lines of the params file and of the report, or the error."""
    (folder / "net.params").write_text(text)
    try:
        found = "\n".join(f"{one.text}\n{one.report}" for one in read(folder / "net.params"))
    except ParamsError as error:
        found = str(error)
    return frozenset(line for line in found.splitlines() if "not read by PetaVision either" not in line)


def unusual(key: Key) -> str:
    if key.kind == "flag":
        return str(not key.default).lower()
    return UNUSUAL[key.kind]


def context(keyword: str, key: str) -> str:
    """Return the parameters with which `key` counts, of those that the class has."""
    given = COUNTS[CLASSES[keyword].role].get(key, "")
    parts = [part for part in given.split("; ") if part.partition(" = ")[0] in CLASSES[keyword].keys]
    return "".join(f"{part}; " for part in parts)


def silent(keyword: str, folder: Path) -> Iterator[str]:
    """Yield parameters that change nothing that is said, unless those with which they count are refused."""
    before = cache(lambda given: said(folder, written(keyword, given)))
    for key, one in CLASSES[keyword].keys.items():
        given = context(keyword, key)
        after = said(folder, written(keyword, f"{given}{key} = {unusual(one)}; "))
        refused = given and any(line.startswith("# NOT SUPPORTED: X,") for line in before(given))
        if after == before(given) and not refused:
            yield key


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("keys")
    write_activities(found / "images.pvp", (8, 8, 2), [(0.0, np.zeros((8, 8, 2)))])
    return found


@pytest.mark.sampled(19)
@pytest.mark.parametrize("keyword", CLASSES)
def test_no_parameter_is_without_a_trace(keyword: str, folder: Path) -> None:
    """Set to an unusual value where it counts, each changes the network, the report or an error.

    What the report says of all that has not been read, is not taken as a trace.
    """
    assert not any("NOT SUPPORTED" in line for line in said(folder, written(keyword)))
    assert list(silent(keyword, folder)) == []


def test_every_class_that_is_mapped_has_its_parameters() -> None:
    roles = {role: {name for name, one in CLASSES.items() if one.role == role} for role in COUNTS}
    assert set(LAYERS) == roles["layer"] - {"PoolingIndexLayer"}
    assert set(CONNECTIONS) == roles["connection"]
    known = {role: {key for name in names for key in CLASSES[name].keys} for role, names in roles.items()}
    assert all(set(COUNTS[role]) <= known[role] for role in COUNTS)
