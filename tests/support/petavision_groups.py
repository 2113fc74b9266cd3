"""A group of each class of PetaVision, among others that it needs."""

from __future__ import annotations

import re

from petabatch.petavision.keys import CLASSES

CONTEXT = """
HyPerCol "column" = { nx = 8; ny = 8; dt = 1; stopTime = 20; };
PvpLayer "I" = { nf = 2; phase = 0; inputPath = "images.pvp"; displayPeriod = 5; };
HyPerLCALayer "C" = { nf = 2; phase = 2; VThresh = 0.3; AMin = 0; AShift = 0.3; InitVType = "ZeroV"; };
HyPerLayer "O" = { nf = 2; phase = 3; InitVType = "ZeroV"; };
HyPerLayer "Grey" = { nf = 1; phase = 4; InitVType = "ZeroV"; };
HyPerLayer "Half" = { nxScale = 0.5; nyScale = 0.5; nf = 2; phase = 4; InitVType = "ZeroV"; };
PoolingIndexLayer "Places" = { nxScale = 0.5; nyScale = 0.5; nf = 2; phase = 5; };
LIFGap "Spiking" = { nf = 2; phase = 1; };
HyPerConn "W" = {
    preLayerName = "C"; postLayerName = "O"; channelCode = 0; nxp = 3; nyp = 3; plasticityFlag = false;
    weightInitType = "UniformWeight"; weightInit = 0.5; normalizeMethod = "none";
};
PoolingConn "Max" = {
    preLayerName = "O"; postLayerName = "Half"; channelCode = 0; nxp = 1; nyp = 1;
    needPostIndexLayer = true; postIndexLayerName = "Places";
};
ColumnEnergyProbe "E" = { };
L2NormProbe "N" = { targetLayer = "O"; energyProbe = "E"; exponent = 2; coefficient = 0.5; };
L1NormLCAProbe "S" = { targetLayer = "C"; energyProbe = "E"; };
L1NormProbe "L" = { targetLayer = "O"; };
"""
"""Groups around one that is looked at."""
_NEEDED: dict[str, str] = {
    "MaskLayer": 'maskMethod = "layer"; maskLayerName = "O"; phase = 5;',
    "FirmThresholdCostFnProbe": "VThresh = 0.3;",
    "RescaleLayer": 'rescaleMethod = "maxmin"; originalLayerName = "O"; phase = 5;',
    "FirmThresholdCostLayer": "VThresh = 0.3;",
    "DependentFirmThresholdCostLayer": 'originalLayerName = "C"; phase = 5;',
    "BinningLayer": 'originalLayerName = "Grey"; phase = 5;',
    "NoiseLayer": 'originalLayerName = "O"; phase = 5;',
    "GapLayer": 'originalLayerName = "Spiking"; phase = 2;',
    "CloneVLayer": 'originalLayerName = "C"; phase = 3;',
    "SigmoidLayer": 'originalLayerName = "C"; phase = 3;',
    "BackgroundLayer": 'originalLayerName = "Grey"; phase = 5;',
    "InputRegionLayer": 'originalLayerName = "I";',
    "WTALayer": 'originalLayerName = "O"; phase = 5;',
    "FilenameParsingLayer": 'inputLayerName = "Listed"; classList = "Classes.txt";',
    "LabelLayer": 'movieLayerName = "Listed"; labelStart = 0; labelLength = 1;',
    "ImprintConn": "imprintTimeThresh = 10;",
    "TransposePoolingConn": 'originalConnName = "Max"; preLayerName = "Half"; postLayerName = "O";',
    "ImageLayer": 'inputPath = "images.txt";',
    "PvpLayer": 'inputPath = "images.pvp";',
    "MomentumConn": 'momentumMethod = "simple"; timeConstantTau = 0.5;',
    "CloneConn": 'originalConnName = "W";',
    "CopyConn": 'originalConnName = "Two"; normalizeMethod = "normalizeL2";',
    "PlasticCloneConn": 'originalConnName = "W";',
    "TransposeConn": 'originalConnName = "W"; preLayerName = "O"; postLayerName = "C";',
    "FeedbackConn": 'originalConnName = "W"; channelCode = 0;',
    "QuotientProbe": 'numerator = "N"; denominator = "L";',
    "AdaptiveTimeScaleProbe": 'targetName = "E";',
    "KneeTimeScaleProbe": 'targetName = "E";',
    "LogTimeScaleProbe": 'targetName = "E";',
}
_CONNECTION = 'preLayerName = "C"; postLayerName = "O"; channelCode = 0; '
_PATCH = "nxp = 3; nyp = 3; "
_WEIGHTS = 'weightInitType = "UniformRandomWeight"; normalizeMethod = "normalizeL2"; '


def written(keyword: str, given: str = "") -> str:
    """Return a file with a group "X" of the class, and parameters of it, as `key = value; `."""
    if keyword == "HyPerCol":
        head, _, rest = CONTEXT.partition("= {")
        return f"{head}= {_with(rest, given)}"
    one, needed = CLASSES[keyword], _NEEDED.get(keyword, "")
    if one.role == "layer":
        needed += ("nf = 1; " if keyword == "WTALayer" else "nf = 2; ") + (
            "phase = 1; " if "phase" not in needed else ""
        )
    elif one.role == "connection" and keyword not in (
        "TransposeConn",
        "TransposePoolingConn",
        "FeedbackConn",
    ):
        needed += _CONNECTION.replace('"O"', '"Grey"') if keyword == "WTAConn" else _CONNECTION
        needed += _PATCH if "nxp" in one.keys else ""
        needed += _WEIGHTS if "weightInitType" in one.keys else ""
    elif one.role == "probe" and "targetLayer" in one.keys:
        needed += 'targetLayer = "C"; '
    text = CONTEXT + f'{keyword} "X" = {_with(f" {needed} }};", given)}\n'
    if "TimeScaleProbe" in keyword:
        text = text.replace("AShift = 0.3; InitV", 'AShift = 0.3; adaptiveTimeScaleProbe = "X"; InitV')
    if "Listed" in needed:
        text += 'ImageLayer "Listed" = { nf = 2; phase = 9; inputPath = "images.txt"; };\n'
    if keyword == "CopyConn":
        text += f'HyPerConn "Two" = {{ numAxonalArbors = 2; {_CONNECTION}{_PATCH}{_WEIGHTS}}};\n'
    if keyword == "ColumnEnergyProbe":
        text += 'L1NormProbe "OfX" = { targetLayer = "C"; energyProbe = "X"; };\n'
    if one.role == "layer" and one.keys.get("channelIndices") and one.keys["channelIndices"].becomes:
        text += 'HyPerLayer "Same" = { nf = 2; }; IdentConn "SameToX" = { channelCode = 0; };\n'
    return text


def _with(group: str, given: str) -> str:
    """Return the text of a group from its parameters on, with others in place of its own."""
    own, end, rest = group.partition("}")
    for key in re.findall(r"(\w+) = ", given):
        own = re.sub(rf"\b{key} = [^;]*;", "", own)
    return f"{{{own} {given}{end}{rest}"
