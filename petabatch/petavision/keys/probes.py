"""PetaVision's probes: their parameters, the defaults, and what becomes of each."""

from __future__ import annotations

from petabatch.petavision.keys.key import REQUIRED, Class, flag, idle, number, text

_PROBE = {
    "targetLayer": text(REQUIRED, "`layer`"),
    "triggerFlag": flag(None, "", "obsolete: `triggerLayerName` alone counts"),
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
_OF_LAYER = "that of the layer counts"
_NO_TERM = _PROBE | idle(_PROBE, "a factor in energies alone", "coefficient")
_SCALE = {
    "targetName": text(REQUIRED, "`time_scale`: `energy`"),
    "baseMax": number(1.0, "`maximum`"),
    "baseMin": number(1.0, "`minimum`"),
    "tauFactor": number(1.0, "`factor`"),
    "growthFactor": number(1.0, "`growth`"),
    "writeTimeScaleFieldnames": flag(True, ""),
}
PROBES: dict[str, Class] = {
    "ColumnEnergyProbe": Class(
        "probe", "energy, or sum", _COLUMN_PROBE | {"reductionInterval": number(0.0, "")}
    ),
    "L2NormProbe": Class("probe", "l2", _PROBE | {"exponent": number(1.0, "2 alone in a sum")}),
    "L1NormProbe": Class("probe", "l1", _PROBE),
    "L1NormLCAProbe": Class("probe", "l1", _PROBE),
    "L0NormProbe": Class("probe", "l0", _PROBE | _NNZ),
    "L0NormLCAProbe": Class("probe", "l0", _PROBE | idle(_NNZ, _OF_LAYER)),
    "FirmThresholdCostFnProbe": Class("probe", "a term of sum", _PROBE | _FIRM),
    "FirmThresholdCostFnLCAProbe": Class("probe", "a term of energy", _PROBE | idle(_FIRM, _OF_LAYER)),
    "StatsProbe": Class(
        "probe",
        "statistics",
        _NO_TERM
        | _NNZ
        | {
            "buffer": text("Activity", "the activity; of layers without a transfer function also V"),
            "immediateMPIAssembly": flag(False, ""),
        },
    ),
    "RequireAllZeroActivityProbe": Class(
        "probe",
        "l0",
        _NO_TERM
        | _NNZ
        | {
            "buffer": text("Activity", "the activity"),
            "exitOnFailure": flag(True, "", "the run goes on"),
            "immediateExitOnFailure": flag(True, "", "the run goes on"),
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
"""By their keywords."""
