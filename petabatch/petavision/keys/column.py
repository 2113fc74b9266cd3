"""PetaVision's column: its parameters, the defaults, and what becomes of each."""

from __future__ import annotations

from petabatch.petavision.keys.key import REQUIRED, Class, flag, number, text, whole

_COLUMN = {
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
    "checkpointWriteClockInterval": number(0.0, "", "not supported; `run.wall_limit` ends a run in time"),
    "checkpointWriteClockUnit": text("seconds", "", "not supported"),
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
COLUMNS = {"HyPerCol": Class("column", "`[run]`, `[checkpoint]`", _COLUMN)}
"""By their keywords."""
