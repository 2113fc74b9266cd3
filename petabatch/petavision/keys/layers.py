"""PetaVision's layers: their parameters, the defaults, and what becomes of each."""

from __future__ import annotations

import math

from petabatch.petavision.keys.key import REQUIRED, Class, flag, idle, number, numbers, text, whole

INF = math.inf
INIT_V = {
    "InitVType": text("ConstantV", "`initial` or `start`"),
    "valueV": number(-70.0, "`initial`, `value` or `start`"),
    "minV": number(0.0, "`start`: `low`"),
    "maxV": number(None, "`start`: `high`; `std` of GaussianRandomV"),
    "meanV": number(0.0, "`start`: `mean`"),
    "numValues": whole(2, "`start`: `levels`"),
    "Vfilename": text(None, "`start`: `path`"),
    "frameNumber": whole(0, "`start`: `frame`"),
}
"""Initial states."""
SIZE = {
    "nxScale": number(1.0, "`shape`"),
    "nyScale": number(1.0, "`shape`"),
    "nf": whole(1, "`shape`"),
    "phase": whole(0, "`feedback` of connections that see the step before"),
    "mirrorBCflag": flag(False, '`border = "mirror"`'),
    "valueBC": number(0.0, "", "no effect, as in PetaVision; ours: `border = NUMBER`"),
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
"""What every layer has."""
TRIGGER = {
    "triggerFlag": flag(None, "", "obsolete: `triggerLayerName` alone counts"),
    "triggerLayerName": text(None, "`every`, or `reset`"),
    "triggerOffset": number(0.0, "`offset`, with the other sign"),
    "triggerBehavior": text("updateOnlyOnTrigger", "`every`, or `reset`"),
    "triggerResetLayerName": text(None, "`reset_to`"),
}
"""When a layer is updated, or reset."""
_CHANNELS = {
    "channelIndices": numbers((), "`strength` of the connections to these channels"),
    "channelCoefficients": numbers((), "`strength` of the connections to these channels"),
}
LAYER = SIZE | TRIGGER | INIT_V | _CHANNELS
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
PLAIN = SIZE | TRIGGER | idle(SIZE, "its activity in step 0 is not restored", "initializeFromCheckpointFlag")
"""Parameters of layers without an initial potential."""
_COST = (
    LAYER
    | idle(LAYER, "its activity in step 0 is not restored", "initializeFromCheckpointFlag")
    | idle(INIT_V, "its activity in step 0 is 0")
)
UNTRIGGERED = idle(TRIGGER, "its updates have no trigger")
"""Triggers of layers that have none."""
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
LAYERS: dict[str, Class] = {
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
    "ConstantLayer": Class("layer", "constant", LAYER | UNTRIGGERED),
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
        PLAIN
        | _ORIGINAL
        | {
            "rescaleMethod": text(REQUIRED, "`method` and `over`"),
            "targetMax": number(1.0, "`high`"),
            "targetMin": number(-1.0, "`low`"),
            "targetMean": number(0.0, "`mean`"),
            "targetStd": number(1.0, "`std`"),
            "patchSize": whole(1, "`std` is 1 / sqrt(patchSize); `norm`"),
        },
    ),
    "DropoutLayer": Class(
        "layer", "dropout", LAYER | _ANN | {"probability": number(0.0, "`probability`, a fraction")}
    ),
    "GaussianNoiseLayer": Class(
        "layer",
        "gaussian_noise",
        LAYER | {"mu": number(0.0, "`mean`"), "sigma": number(1.0, "`std`")},
    ),
    "NoiseLayer": Class(
        "layer",
        "gaussian_noise",
        PLAIN
        | _ORIGINAL
        | {
            "mean": number(0.0, "`mean`"),
            "stdDev": number(0.5, "`std`"),
            "seed": number(None, "", "the random numbers are others: `run.seed`"),
        },
    ),
    "LIF": Class("layer", "conductance_lif", LAYER | _LIF),
    "LIFGap": Class("layer", "conductance_lif", LAYER | _LIF),
    "GapLayer": Class(
        "layer",
        "linear, of a potential and spikes",
        PLAIN | {"originalLayerName": text(REQUIRED, _POTENTIAL), "ampSpikelet": number(50.0, _SPIKELET)},
    ),
    "CloneVLayer": Class("layer", "linear", PLAIN | {"originalLayerName": text(REQUIRED, _POTENTIAL)}),
    "SigmoidLayer": Class(
        "layer",
        "sigmoid",
        PLAIN
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
        PLAIN
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
        _COST
        | {"VThresh": number(REQUIRED, "`corner`: their sum"), "VWidth": number(0.0, "`corner`: their sum")},
    ),
    "DependentFirmThresholdCostLayer": Class(
        "layer",
        "firm_cost",
        _COST | {"originalLayerName": text(REQUIRED, "`corner` is the sum of its VThresh and VWidth")},
    ),
    "BinningLayer": Class(
        "layer",
        "bins",
        PLAIN
        | {
            "originalLayerName": text(REQUIRED, "a `conv` connection from it, of weights 1"),
            "binMin": number(0.0, "`low`"),
            "binMax": number(1.0, "`high`"),
            "binSigma": number(0.0, "`width`"),
            "delay": whole(0, "`delay_steps` of that connection, in steps"),
            "zeroNeg": flag(True, "`outside`: 0, or -1"),
            "zeroDCR": flag(False, "`zero_unknown`"),
            "normalDist": flag(True, "", "no effect, as in PetaVision"),
        },
    ),
    "BackgroundLayer": Class(
        "layer",
        "linear",
        PLAIN
        | {
            "originalLayerName": text(REQUIRED, "a `background` connection from it"),
            "repFeatureNum": whole(1, "`copies` of that connection"),
        },
    ),
    "WTALayer": Class(
        "layer",
        "linear, or rectified",
        PLAIN
        | {
            "originalLayerName": text(REQUIRED, "a `largest` connection from it, with `number`"),
            "binMin": number(0.0, "`vertices`"),
            "binMax": number(1.0, "`strength` of that connection"),
        },
    ),
    "PoolingIndexLayer": Class(
        "layer",
        "nothing: un-pooling finds the places of maxima itself",
        LAYER | idle({key: one for key, one in LAYER.items() if key not in _READ}, "not needed"),
    ),
}
"""By their keywords."""
