"""PetaVision's connections: their parameters, the defaults, and what becomes of each."""

from __future__ import annotations

import math

from petabatch.petavision.keys.key import REQUIRED, Class, flag, idle, number, numbers, text, whole

_DELIVERY = {
    "preLayerName": text(None, "`pre`"),
    "postLayerName": text(None, "`post`"),
    "channelCode": whole(0, "`channel`"),
    "delay": numbers((0.0,), "`delay_steps`, in steps"),
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
_FROM_CHECKPOINT = "initializeFromCheckpointFlag"
_COPY = (
    _DELIVERY
    | _RECORDED
    | idle(_DELIVERY, "its weights are those of its original", _FROM_CHECKPOINT)
    | idle(_RECORDED, "its weights are those of its original", "writeStep", "initialWriteTime")
    | {"originalConnName": text(REQUIRED, "`of`")}
)
_PLAIN = (
    _DELIVERY
    | _RECORDED
    | idle(_DELIVERY, "it has no weights", _FROM_CHECKPOINT, "pvpatchAccumulateType")
    | idle(_RECORDED, "it has no weights", "writeStep", "initialWriteTime")
)
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
    "rMinX": number(0.0, "`normalize`: `hole`"),
    "rMinY": number(0.0, "`normalize`: `hole`"),
    "nonnegativeConstraintFlag": flag(False, "`normalize`: `nonnegative`"),
    "normalize_cutoff": number(0.0, "`normalize`: `cutoff`"),
    "symmetrizeWeights": flag(False, "not supported"),
}
INIT = {
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
    "minNNZ": whole(0, "told where patches of `sparsity` may have fewer"),
    "wGaussMean": number(0.0, "`init`: `mean`"),
    "wGaussStdev": number(1.0, "`init`: `std`"),
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
"""Initial weights."""
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
    "triggerFlag": flag(None, "", "obsolete: `triggerLayerName` alone counts"),
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
    "useMask": flag(False, "a `mask` layer after the post layer, `learn`: `error`"),
    "maskLayerName": text(None, "a connection to the channel `mask` of that layer"),
    "maskFeatureIdx": whole(-1, "not supported"),
}
_MOMENTUM = {
    "momentumMethod": text(REQUIRED, "`learn`: `momentum`"),
    "timeConstantTau": number(None, "`learn`: `momentum`"),
    "momentumTau": number(None, "`learn`: `momentum`, and `rate`"),
    "momentumDecay": number(0.0, "`learn`: `decay`"),
    "initPrev_dWFile": text("", "`learn`: `previous`"),
    "prev_dWFrameNumber": whole(0, "`learn`: `previous`"),
}
_HYPER = _DELIVERY | _RECORDED | _WEIGHTS | _LEARN | INIT | _NORMALIZE
CONNECTIONS: dict[str, Class] = {
    "HyPerConn": Class("connection", "conv", _HYPER),
    "MomentumConn": Class("connection", "conv", _HYPER | _MOMENTUM),
    "ImprintConn": Class(
        "connection", "conv", _HYPER | {"imprintTimeThresh": number(REQUIRED, "`revive`: `after`")}
    ),
    "BatchConn": Class("connection", "conv", _HYPER | {"batchPeriod": whole(1, "`learn`: `accumulate`")}),
    "CloneConn": Class("connection", "clone", _COPY),
    "CopyConn": Class("connection", "clone", _COPY | _NORMALIZE),
    "PlasticCloneConn": Class("connection", "clone with `error`", _COPY),
    "TransposeConn": Class("connection", "transpose", _COPY),
    "FeedbackConn": Class(
        "connection",
        "transpose",
        _COPY | idle(_DELIVERY, "its ends are those of its original", "preLayerName", "postLayerName"),
    ),
    "IdentConn": Class("connection", "identity", _PLAIN),
    "RescaleConn": Class("connection", "identity", _PLAIN | {"scale": number(1.0, "`strength`")}),
    "PoolingConn": Class(
        "connection",
        "pool",
        _PLAIN
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
        _PLAIN | {"originalConnName": text(REQUIRED, "`window` and `method`")},
    ),
    "WTAConn": Class("connection", "largest", _PLAIN),
}
"""By their keywords."""
