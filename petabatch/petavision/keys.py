"""PetaVision's classes: their parameters, the defaults, and what becomes of each in petabatch.

Readers of a group (`petavision.part`) take types and defaults from here, and the reference in the
documentation is printed from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from petabatch.petavision.grammar import Value

INF = math.inf
REQUIRED = object()
Kind = Literal["number", "whole", "flag", "text", "numbers"]


@dataclass(frozen=True)
class Key:
    """A parameter."""

    kind: Kind
    default: object
    """Value where the parameter is missing; REQUIRED where PetaVision has none."""
    becomes: str
    """Key of petabatch, or the rule; empty if nothing needs it."""


@dataclass(frozen=True)
class Class:
    """A class of objects."""

    role: Literal["column", "layer", "connection", "probe"]
    becomes: str
    """Type in petabatch."""
    keys: Mapping[str, Key]


def number(default: Value | object, becomes: str) -> Key:
    """Return a numeric parameter."""
    return Key("number", default, becomes)


def whole(default: Value | object, becomes: str) -> Key:
    """Return an integer parameter."""
    return Key("whole", default, becomes)


def flag(default: Value | object, becomes: str) -> Key:
    """Return a parameter that is true or false."""
    return Key("flag", default, becomes)


def text(default: Value | object, becomes: str) -> Key:
    """Return a text parameter."""
    return Key("text", default, becomes)


def numbers(default: Value | object, becomes: str) -> Key:
    """Return a parameter that is an array."""
    return Key("numbers", default, becomes)


COLUMN = {
    "nx": whole(REQUIRED, "`shape` of each layer"),
    "ny": whole(REQUIRED, "`shape` of each layer"),
    "dt": number(1.0, "`run.dt`"),
    "stopTime": number(0.0, "`run.steps` or `run.displays`"),
    "nbatch": whole(1, "`run.batch`"),
    "randomSeed": number(None, "`run.seed`; other random numbers"),
    "checkpointWrite": flag(False, "`checkpoint.every`"),
    "checkpointWriteTriggerMode": text("step", "`checkpoint.every`; no clock"),
    "checkpointWriteStepInterval": whole(1, "`checkpoint.every`"),
    "checkpointWriteTimeInterval": number(1.0, "`checkpoint.every`"),
    "checkpointWriteClockInterval": number(0.0, "not supported; `run.wall_limit` ends a run in time"),
    "checkpointWriteClockUnit": text("seconds", "not supported"),
    "deleteOlderCheckpoints": flag(False, "`checkpoint.keep`"),
    "numCheckpointsKept": whole(1, "`checkpoint.keep`"),
    "initializeFromCheckpointDir": text("", "files of `init`, `start` and `previous`"),
    "outputPath": text("output", ""),
    "printParamsFilename": text("pv.params", ""),
    "checkpointWriteDir": text(None, ""),
    "checkpointIndexWidth": whole(-1, ""),
    "suppressNonplasticCheckpoints": flag(False, ""),
    "suppressLastOutput": flag(False, ""),
    "lastCheckpointDir": text("", ""),
    "verifyWrites": flag(True, ""),
    "progressInterval": number(1.0, ""),
    "writeProgressToErr": flag(False, ""),
    "errorOnNotANumber": flag(False, ""),
    "errorOnUnusedParam": flag(False, ""),
    "writeTimescales": flag(True, ""),
}
_INIT_V = {
    "InitVType": text("ConstantV", "`initial` or `start`"),
    "valueV": number(-70.0, "`initial`, `value` or `start`"),
    "minV": number(0.0, "`start`: `low`"),
    "maxV": number(None, "`start`: `high`; `deviation` of GaussianRandomV"),
    "meanV": number(0.0, "`start`: `mean`"),
    "numValues": whole(2, "`start`: `levels`"),
    "Vfilename": text(None, "`start`: `path`"),
    "frameNumber": whole(0, "`start`: `frame`"),
}
_SIZE = {
    "nxScale": number(1.0, "`shape`"),
    "nyScale": number(1.0, "`shape`"),
    "nf": whole(1, "`shape`"),
    "phase": whole(0, "`feedback` of connections that see the step before"),
    "mirrorBCflag": flag(False, '`border = "mirror"`'),
    "valueBC": number(0.0, "no effect, as in PetaVision; ours: `border = NUMBER`"),
    "sparseLayer": flag(False, ""),
    "writeSparseValues": flag(True, ""),
    "updateGpu": flag(False, ""),
    "dataType": text(None, ""),
    "restart": flag(False, ""),
    "marginWidth": whole(0, ""),
    "writeStep": number(None, "`output.layers.NAME.every`"),
    "initialWriteTime": number(0.0, "the first of these steps, with another phase"),
    "initializeFromCheckpointFlag": flag(False, "`start`, or `init` and `previous`"),
}
_TRIGGER = {
    "triggerFlag": flag(None, "obsolete: `triggerLayerName` alone counts"),
    "triggerLayerName": text(None, "`every`, or `reset`"),
    "triggerOffset": number(0.0, "`offset`, with the other sign"),
    "triggerBehavior": text("updateOnlyOnTrigger", "`every`, or `reset`"),
    "triggerResetLayerName": text(None, "`reset_to`"),
}
_CHANNELS = {
    "channelIndices": numbers((), "`strength` of the connections to these channels"),
    "channelCoefficients": numbers((), "`strength` of the connections to these channels"),
}
LAYER = _SIZE | _TRIGGER | _INIT_V | _CHANNELS
_ANN = {
    "VThresh": number(-INF, "`threshold`"),
    "AMin": number(None, "`minimum`; by default VThresh"),
    "AMax": number(INF, "`maximum`"),
    "AShift": number(0.0, '`shift`, or `transfer = "soft"`'),
    "VWidth": number(0.0, '`width` with `transfer = "firm"`'),
    "verticesV": numbers(None, "`vertices`"),
    "verticesA": numbers(None, "`vertices`"),
    "slopeNegInf": number(1.0, "`slopes`"),
    "slopePosInf": number(1.0, "`slopes`"),
}
_LCA = {
    "timeConstantTau": number(1.0, "`tau`; divided by dt without a time scale"),
    "adaptiveTimeScaleProbe": text(None, "`time_scale`"),
}
_SELF = {"selfInteract": flag(True, "`self_interact`")}
_INPUT = {
    "inputPath": text(REQUIRED, "`source`: `files` or `file`"),
    "displayPeriod": number(0.0, "`run.display`, or `every`"),
    "batchMethod": text("byFile", "`order`"),
    "start_frame_index": numbers((), "`order`: `start`"),
    "skip_frame_index": numbers((), "`order`: `skip`"),
    "resetToStartOnLoop": flag(False, "not supported"),
    "offsetAnchor": text("tl", "`crop` or `pad`: `position`"),
    "offsetX": whole(0, "`offset`"),
    "offsetY": whole(0, "`offset`"),
    "padValue": number(0.0, "`pad`: `value`"),
    "autoResizeFlag": flag(False, "`resize`"),
    "aspectRatioAdjustment": text("crop", "`resize`: `fit`"),
    "interpolationMethod": text("bicubic", "`resize`: `interpolation`"),
    "inverseFlag": flag(False, "transform `invert`"),
    "normalizeLuminanceFlag": flag(False, "`normalize`"),
    "normalizeStdDev": flag(True, '`normalize = "petavision"` or `"range"`'),
    "useInputBCflag": flag(False, '`border = "image"`'),
    "jitterChangeInterval": number(0.0, "`crop`: `jitter`, `flip`"),
    "jitterChangeIntervalUnit": text("displayPeriod", "the display period alone"),
    "maxShiftX": whole(0, "`crop`: `jitter`"),
    "maxShiftY": whole(0, "`crop`: `jitter`"),
    "xFlipEnabled": flag(False, "`flip`"),
    "yFlipEnabled": flag(False, "`flip`"),
    "xFlipToggle": flag(False, "not supported"),
    "yFlipToggle": flag(False, "not supported"),
    "randomSeed": number(123456789.0, "`run.seed`"),
    "writeFrameToTimestamp": flag(True, ""),
    "echoFramePathnameFlag": flag(False, ""),
}
_DELIVERY = {
    "preLayerName": text(None, "`pre`"),
    "postLayerName": text(None, "`post`"),
    "channelCode": whole(0, "`channel`"),
    "delay": numbers((0.0,), "`delay`, in steps"),
    "pvpatchAccumulateType": text("convolve", "stochastic, to one unit each: a layer of type `retina`"),
    "updateGSynFromPostPerspective": flag(False, ""),
    "receiveGpu": flag(False, ""),
    "gpuGroupIdx": whole(-1, ""),
    "convertRateToSpikeCount": flag(False, "not supported"),
    "preActivityIsNotRate": flag(False, "not supported"),
    "initializeFromCheckpointFlag": flag(False, "`start`, or `init` and `previous`"),
}
_RECORDED = {
    "writeStep": number(None, "`output.connections.NAME.every`"),
    "initialWriteTime": number(0.0, "the first of these steps, with another phase"),
    "writeCompressedWeights": flag(False, ""),
    "writeCompressedCheckpoints": flag(False, ""),
}
_NORMALIZE = {
    "normalizeMethod": text("none", "`normalize`"),
    "strength": number(1.0, "`normalize`: `strength`"),
    "normalizeFromPostPerspective": flag(False, "`strength` times post over pre units"),
    "normalizeOnInitialize": flag(True, "`normalize`: `at_start`"),
    "normalizeOnWeightUpdate": flag(True, "`normalize`: `at_updates`"),
    "normalizeGroupName": text(None, "`normalize`: `together`"),
    "normalizeArborsIndividually": flag(False, "one arbor alone"),
    "minL2NormTolerated": number(0.0, "not supported"),
    "minSumTolerated": number(0.0, "not supported"),
    "minMaxTolerated": number(0.0, "not supported"),
    "rMinX": number(0.0, "not supported"),
    "rMinY": number(0.0, "not supported"),
    "nonnegativeConstraintFlag": flag(False, "not supported"),
    "normalize_cutoff": number(0.0, "not supported"),
    "symmetrizeWeights": flag(False, "not supported"),
}
_INIT = {
    "weightInitType": text(REQUIRED, "`init`"),
    "initWeightsFile": text(None, "`init`: `path`"),
    "frameNumber": whole(0, "`init`: `frame`"),
    "weightInit": number(None, "`init`: `value`"),
    "connectOnlySameFeatures": flag(False, "`init`: `same_feature`"),
    "wMin": number(REQUIRED, "`init`: `low`"),
    "wMax": number(REQUIRED, "`init`: `high`"),
    "numValues": whole(REQUIRED, "`init`: `levels`"),
    "wMinInit": number(0.0, "`init`: `low`"),
    "wMaxInit": number(1.0, "`init`: `high`"),
    "sparseFraction": number(0.0, "`init`: `sparsity`"),
    "minNNZ": whole(0, "not supported"),
    "wGaussMean": number(0.0, "`init`: `mean`"),
    "wGaussStdev": number(1.0, "`init`: `deviation`"),
    "aspect": number(1.0, "`init`"),
    "sigma": number(0.8, "`init`"),
    "rMax": number(1.4, "`init`"),
    "rMin": number(0.0, "`init`"),
    "numOrientationsPost": whole(None, "`init`; 0 or none: as many as features"),
    "numOrientationsPre": whole(None, "`init`; 0 or none: as many as features"),
    "deltaThetaMax": number(2 * math.pi, "`init`"),
    "thetaMax": number(1.0, "`init`"),
    "numFlanks": whole(1, "`init`"),
    "flankShift": number(0.0, "`init`"),
    "rotate": number(0.0, "`init`"),
    "bowtieFlag": flag(False, "not supported"),
    "bowtieAngle": number(2 * math.pi, "not supported"),
}
_PATCH = {
    "nxp": whole(1, "`patch`"),
    "nyp": whole(1, "`patch`"),
    "nfp": whole(-1, "features of the post layer"),
}
_WEIGHTS = _PATCH | {
    "numAxonalArbors": whole(1, "one connection for each"),
    "sharedWeights": flag(True, '`mode = "extra_shared"` or `"extra_non_shared"`'),
}
_LEARN = {
    "plasticityFlag": flag(True, "`learn`"),
    "triggerFlag": flag(None, "obsolete: `triggerLayerName` alone counts"),
    "triggerLayerName": text(None, "`learn`: `every`"),
    "triggerOffset": number(0.0, "`learn`: `offset`, 1 minus it"),
    "weightUpdatePeriod": number(1.0, "`learn`: `every`"),
    "initialWeightUpdateTime": number(0.0, "`learn`: `offset`"),
    "dWMax": number(1.0, "`learn`: `rate`"),
    "dWMaxDecayInterval": whole(0, "`learn`: `rate_decay`"),
    "dWMaxDecayFactor": number(0.0, "`learn`: `rate_decay`"),
    "normalizeDw": flag(True, "`learn`: `average`"),
    "immediateWeightUpdate": flag(True, "`learn`: `delayed`"),
    "combine_dW_with_W_flag": flag(False, "not supported"),
    "useMask": flag(False, "not supported"),
}
_MOMENTUM = {
    "momentumMethod": text(REQUIRED, "`learn`: `momentum`"),
    "timeConstantTau": number(None, "`learn`: `momentum`"),
    "momentumTau": number(None, "`learn`: `momentum`, and `rate`"),
    "momentumDecay": number(0.0, "`learn`: `decay`"),
    "initPrev_dWFile": text("", "`learn`: `previous`"),
    "prev_dWFrameNumber": whole(0, "`learn`: `previous`"),
}
_PROBE = {
    "targetLayer": text(REQUIRED, "`layer`"),
    "triggerFlag": flag(None, "obsolete: `triggerLayerName` alone counts"),
    "triggerLayerName": text(None, "`every`"),
    "triggerOffset": number(0.0, "`offset`, 1 minus it"),
    "energyProbe": text(None, "the probe that it is a term of"),
    "coefficient": number(1.0, "`coefficient` of the term"),
    "maskLayerName": text(None, "`mask`"),
    "textOutputFlag": flag(True, ""),
    "probeOutputFile": text(None, ""),
    "message": text(None, ""),
}
_NOT_OF_COLUMNS = ("targetLayer", "maskLayerName", "energyProbe", "coefficient")
_COLUMN_PROBE = {key: one for key, one in _PROBE.items() if key not in _NOT_OF_COLUMNS}
_NNZ = {"nnzThreshold": number(0.0, "`above`")}
_FIRM = {"VThresh": number(0.0, "`corner`"), "VWidth": number(0.0, "`corner`")}
_SCALE = {
    "targetName": text(REQUIRED, "`time_scale`: `energy`"),
    "baseMax": number(1.0, "`maximum`"),
    "baseMin": number(1.0, "`minimum`"),
    "tauFactor": number(1.0, "`factor`"),
    "growthFactor": number(1.0, "`growth`"),
    "writeTimeScaleFieldnames": flag(True, ""),
}
_PLAIN = _SIZE | _TRIGGER
_HYPER = _DELIVERY | _RECORDED | _WEIGHTS | _LEARN | _INIT | _NORMALIZE
_ORIGINAL = {"originalLayerName": text(REQUIRED, "an `identity` connection from it")}

_POTENTIAL = "a `potential` connection from it"
_SPIKELET = "`strength` of an `identity` connection from the original"
_LIF = {
    "method": text("arma", "`method`: `arma`, or `heun` for beginning"),
    "Vrest": number(-70.0, "`rest`"),
    "Vexc": number(0.0, "`reversal`"),
    "Vinh": number(-75.0, "`reversal`"),
    "VinhB": number(-90.0, "`reversal`"),
    "VthRest": number(-55.0, "`threshold`"),
    "tau": number(20.0, "`tau`"),
    "tauE": number(1.0, "`decay`"),
    "tauI": number(5.0, "`decay`"),
    "tauIB": number(10.0, "`decay`"),
    "tauVth": number(10.0, "`recovery`"),
    "deltaVth": number(5.0, "`fatigue`"),
    "deltaGIB": number(1.0, "`after`"),
    "noiseAmpE": number(0.0, "`noise`"),
    "noiseAmpI": number(0.0, "`noise`"),
    "noiseAmpIB": number(0.0, "`noise`"),
    "noiseFreqE": number(250.0, "`noise_rate`"),
    "noiseFreqI": number(250.0, "`noise_rate`"),
    "noiseFreqIB": number(250.0, "`noise_rate`"),
}

_READ = ("nxScale", "nyScale", "nf", "phase")
CLASSES: dict[str, Class] = {
    "HyPerCol": Class("column", "`[run]`, `[checkpoint]`", COLUMN),
    "HyPerLayer": Class("layer", "linear", LAYER),
    "ANNLayer": Class("layer", "rectified, or linear", LAYER | _ANN),
    "ANNErrorLayer": Class(
        "layer", "linear, or rectified", LAYER | _ANN | {"errScale": number(1.0, "`scale`")}
    ),
    "HyPerLCALayer": Class("layer", "lca", LAYER | _ANN | _LCA | _SELF),
    "MomentumLCALayer": Class(
        "layer",
        "momentum_lca",
        LAYER | _ANN | _LCA | _SELF | {"LCAMomentumRate": number(0.0, "`rate`")},
    ),
    "ISTALayer": Class("layer", "ista", LAYER | _ANN | _LCA),
    "ConstantLayer": Class("layer", "constant", LAYER),
    "LeakyIntegrator": Class(
        "layer", "leaky_integrator", LAYER | _ANN | {"integrationTime": number(INF, "`tau`")}
    ),
    "PtwiseProductLayer": Class("layer", "product", LAYER | _ANN),
    "PtwiseQuotientLayer": Class("layer", "quotient", LAYER | _ANN),
    "ANNSquaredLayer": Class("layer", "squared", LAYER | _ANN),
    "MaskLayer": Class(
        "layer",
        "mask",
        LAYER
        | _ANN
        | {
            "maskMethod": text(REQUIRED, "a connection to the channel `mask`, or `features`; `invert`"),
            "maskLayerName": text(None, "`pre` of that connection"),
            "featureIdxs": numbers((), "`features`"),
        },
    ),
    "RescaleLayer": Class(
        "layer",
        "rescale",
        _PLAIN
        | _ORIGINAL
        | {
            "rescaleMethod": text(REQUIRED, "`method` and `over`"),
            "targetMax": number(1.0, "`high`"),
            "targetMin": number(-1.0, "`low`"),
            "targetMean": number(0.0, "`mean`"),
            "targetStd": number(1.0, "`deviation`"),
            "patchSize": whole(1, "`deviation` is 1 / sqrt(patchSize); `norm`"),
        },
    ),
    "DropoutLayer": Class(
        "layer", "dropout", LAYER | _ANN | {"probability": number(0.0, "`probability`, a fraction")}
    ),
    "GaussianNoiseLayer": Class(
        "layer",
        "gaussian_noise",
        LAYER | {"mu": number(0.0, "`mean`"), "sigma": number(1.0, "`deviation`")},
    ),
    "LIF": Class("layer", "conductance_lif", LAYER | _LIF),
    "LIFGap": Class("layer", "conductance_lif", LAYER | _LIF),
    "GapLayer": Class(
        "layer",
        "linear, of a potential and spikes",
        _PLAIN | {"originalLayerName": text(REQUIRED, _POTENTIAL), "ampSpikelet": number(50.0, _SPIKELET)},
    ),
    "CloneVLayer": Class("layer", "linear", _PLAIN | {"originalLayerName": text(REQUIRED, _POTENTIAL)}),
    "SigmoidLayer": Class(
        "layer",
        "sigmoid",
        _PLAIN
        | {
            "originalLayerName": text(REQUIRED, _POTENTIAL),
            "Vrest": number(-70.0, "`center` and `width`"),
            "VthRest": number(-55.0, "`center` and `width`"),
            "SigmoidAlpha": number(0.1, "`width`"),
            "SigmoidFlag": flag(True, '`form`: logistic, or `"line"`'),
            "InverseFlag": flag(False, "`invert`"),
        },
    ),
    "Retina": Class(
        "layer",
        "retina",
        _PLAIN
        | {
            "spikingFlag": flag(True, "`spikes`"),
            "foregroundRate": number(1.0, "`rate`"),
            "backgroundRate": number(0.0, "`background`"),
            "beginStim": number(0.0, "`begin`"),
            "endStim": number(INF, "`end`"),
            "burstFreq": number(1.0, "`burst_rate`"),
            "burstDuration": number(1000.0, "`burst_duration`"),
            "refractoryPeriod": number(5.0, "`recovery`"),
            "absRefractoryPeriod": number(3.0, "`refractory`"),
        },
    ),
    "FirmThresholdCostLayer": Class(
        "layer",
        "firm_cost",
        LAYER
        | {"VThresh": number(REQUIRED, "`corner`: their sum"), "VWidth": number(0.0, "`corner`: their sum")},
    ),
    "DependentFirmThresholdCostLayer": Class(
        "layer",
        "firm_cost",
        LAYER | {"originalLayerName": text(REQUIRED, "`corner` is the sum of its VThresh and VWidth")},
    ),
    "BinningLayer": Class(
        "layer",
        "bins",
        _PLAIN
        | {
            "originalLayerName": text(REQUIRED, "a `conv` connection from it, of weights 1"),
            "binMin": number(0.0, "`low`"),
            "binMax": number(1.0, "`high`"),
            "binSigma": number(0.0, "`width`"),
            "delay": whole(0, "`delay` of that connection, in steps"),
            "zeroNeg": flag(True, "`outside`: 0, or -1"),
            "zeroDCR": flag(False, "`zero_unknown`"),
            "normalDist": flag(True, "no effect, as in PetaVision"),
        },
    ),
    "BackgroundLayer": Class(
        "layer",
        "linear",
        _PLAIN
        | {
            "originalLayerName": text(REQUIRED, "a `background` connection from it"),
            "repFeatureNum": whole(1, "`copies` of that connection"),
        },
    ),
    "InputRegionLayer": Class(
        "layer",
        "input with the transform `region`",
        _SIZE | {"originalLayerName": text(REQUIRED, "its `source`, `every` and `border`")},
    ),
    "PoolingIndexLayer": Class(
        "layer",
        "nothing: un-pooling finds the places of maxima itself",
        {key: one if key in _READ else replace(one, becomes="") for key, one in LAYER.items()},
    ),
    "ImageLayer": Class("layer", "input with `images`", _PLAIN | _INPUT),
    "PvpLayer": Class("layer", "input with `array`", _PLAIN | _INPUT),
    "HyPerConn": Class("connection", "conv", _HYPER),
    "MomentumConn": Class("connection", "conv", _HYPER | _MOMENTUM),
    "CloneConn": Class(
        "connection",
        "clone",
        _DELIVERY | _RECORDED | {"originalConnName": text(REQUIRED, "`of`")},
    ),
    "CopyConn": Class(
        "connection",
        "clone",
        _DELIVERY | _RECORDED | _NORMALIZE | {"originalConnName": text(REQUIRED, "`of`")},
    ),
    "PlasticCloneConn": Class(
        "connection",
        "clone with `error`",
        _DELIVERY | _RECORDED | {"originalConnName": text(REQUIRED, "`of`")},
    ),
    "TransposeConn": Class(
        "connection",
        "transpose",
        _DELIVERY | _RECORDED | {"originalConnName": text(REQUIRED, "`of`")},
    ),
    "FeedbackConn": Class(
        "connection",
        "transpose",
        _DELIVERY | _RECORDED | {"originalConnName": text(REQUIRED, "`of`; its ends, exchanged")},
    ),
    "IdentConn": Class("connection", "identity", _DELIVERY | _RECORDED),
    "RescaleConn": Class(
        "connection", "identity", _DELIVERY | _RECORDED | {"scale": number(1.0, "`strength`")}
    ),
    "PoolingConn": Class(
        "connection",
        "pool",
        _DELIVERY
        | _RECORDED
        | _PATCH
        | {
            "pvpatchAccumulateType": text("maxpooling", "`method`"),
            "needPostIndexLayer": flag(False, ""),
            "postIndexLayerName": text(None, "un-pooling reads its phase"),
        },
    ),
    "TransposePoolingConn": Class(
        "connection",
        "pool; of maxima, a layer `max_unpool` between",
        _DELIVERY | _RECORDED | {"originalConnName": text(REQUIRED, "`window` and `method`")},
    ),
    "WTAConn": Class("connection", "largest", _DELIVERY | _RECORDED),
    "ColumnEnergyProbe": Class(
        "probe", "energy, or sum", _COLUMN_PROBE | {"reductionInterval": number(0.0, "")}
    ),
    "L2NormProbe": Class("probe", "l2", _PROBE | {"exponent": number(1.0, "2 alone in a sum")}),
    "L1NormProbe": Class("probe", "l1", _PROBE),
    "L1NormLCAProbe": Class("probe", "l1", _PROBE),
    "L0NormProbe": Class("probe", "l0", _PROBE | _NNZ),
    "L0NormLCAProbe": Class("probe", "l0", _PROBE | _NNZ),
    "FirmThresholdCostFnProbe": Class("probe", "a term of sum", _PROBE | _FIRM),
    "FirmThresholdCostFnLCAProbe": Class("probe", "a term of energy", _PROBE | _FIRM),
    "StatsProbe": Class(
        "probe",
        "statistics",
        _PROBE
        | _NNZ
        | {
            "buffer": text("Activity", "the activity; of layers without a transfer function also V"),
            "immediateMPIAssembly": flag(False, ""),
        },
    ),
    "RequireAllZeroActivityProbe": Class(
        "probe",
        "l0",
        _PROBE
        | _NNZ
        | {
            "buffer": text("Activity", "the activity"),
            "exitOnFailure": flag(True, "the run goes on"),
            "immediateExitOnFailure": flag(True, "the run goes on"),
        },
    ),
    "QuotientProbe": Class(
        "probe",
        "quotient",
        _COLUMN_PROBE
        | {"numerator": text(REQUIRED, "`numerator`"), "denominator": text(REQUIRED, "`denominator`")},
    ),
    "AdaptiveTimeScaleProbe": Class("probe", "time scale `base`", _COLUMN_PROBE | _SCALE),
    "KneeTimeScaleProbe": Class(
        "probe",
        "time scale `knee`",
        _COLUMN_PROBE | _SCALE | {"kneeThresh": number(1.0, "`knee`"), "kneeSlope": number(1.0, "`slope`")},
    ),
    "LogTimeScaleProbe": Class(
        "probe",
        "time scale `log`",
        _COLUMN_PROBE
        | _SCALE
        | {"logThresh": number(1024.0, "`threshold`"), "logSlope": number(1.0, "`slope`")},
    ),
}
"""Classes that can be translated, by their keywords."""
