"""PetaVision's input layers and those that follow them: their parameters, and what becomes of each."""

from __future__ import annotations

from petabatch.petavision.keys.key import REQUIRED, Class, flag, idle, number, numbers, text, whole
from petabatch.petavision.keys.layers import PLAIN, SIZE, TRIGGER, UNTRIGGERED

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
    "randomSeed": number(
        123456789.0, "", "the random numbers are others: `run.seed`; `source.seed` where inputs differ"
    ),
    "writeFrameToTimestamp": flag(True, ""),
    "echoFramePathnameFlag": flag(False, ""),
}
INPUTS: dict[str, Class] = {
    "InputRegionLayer": Class(
        "layer",
        "input with the transform `region`",
        {key: PLAIN[key] for key in SIZE}
        | {"originalLayerName": text(REQUIRED, "its `source`, `every` and `border`")},
    ),
    "FilenameParsingLayer": Class(
        "layer",
        "input with `labels`",
        {key: PLAIN[key] for key in SIZE}
        | idle(TRIGGER, "it is updated when its input is")
        | {
            "inputLayerName": text(REQUIRED, "`names`, `order` and `every`"),
            "classList": text(None, "`classes`; by default classes.txt in the outputPath"),
            "gtClassTrueValue": number(1.0, "`on`"),
            "gtClassFalseValue": number(-1.0, "`off`"),
        },
    ),
    "LabelLayer": Class(
        "layer",
        "input with `labels`",
        {key: PLAIN[key] for key in SIZE}
        | idle(TRIGGER, "it is updated when its input is")
        | {
            "movieLayerName": text(REQUIRED, "`names`, `order` and `every`"),
            "labelStart": whole(-1, "`digits`"),
            "labelLength": whole(0, "`digits`"),
            "echoLabelFlag": flag(True, ""),
        },
    ),
    "ImageLayer": Class("layer", "input with `images`", SIZE | UNTRIGGERED | _INPUT),
    "PvpLayer": Class("layer", "input with `array`", SIZE | UNTRIGGERED | _INPUT),
}
"""By their keywords."""
