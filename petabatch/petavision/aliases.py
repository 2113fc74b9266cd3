"""Former names of PetaVision's classes and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from petabatch.petavision.grammar import Entry, Group, Value


@dataclass(frozen=True)
class Former:
    """What a former class is now: its class, and values that its parameters had by default."""

    now: str
    values: Mapping[str, Value] = field(default_factory=dict)


CLASSES: dict[str, Former] = {
    "Movie": Former("ImageLayer", {"displayPeriod": 1.0}),
    "Image": Former("ImageLayer"),
    "MoviePvp": Former("PvpLayer", {"displayPeriod": 1.0}),
    "ImagePvp": Former("PvpLayer"),
    "ImageFromMemoryBuffer": Former("ImageLayer"),
    "KernelConn": Former("HyPerConn", {"sharedWeights": True}),
    "CloneKernelConn": Former("CloneConn"),
    "CloneHyPerConn": Former("CloneConn"),
    "TransposeHyPerConn": Former("TransposeConn"),
    "IdentityConn": Former("IdentConn"),
    "ANNTriggerUpdateLayer": Former("ANNLayer"),
    "ANNNormalizedErrorLayer": Former("ANNErrorLayer"),
    "ANNDivInh": Former("PtwiseQuotientLayer"),
    "ANNDivInhLayer": Former("PtwiseQuotientLayer"),
    "ANNTriggerUpdateOnNewImageLayer": Former("ANNLayer"),
    "TrainingLayer": Former("ANNLayer"),
    "Constant": Former("ConstantLayer"),
    "FilenameParsingGroundTruthLayer": Former("FilenameParsingLayer"),
    "L2NormEnergyProbe": Former("L2NormProbe"),
    "L1NormEnergyProbe": Former("L1NormProbe"),
    "SparsityLayerProbe": Former("L0NormProbe"),
    "QuotientColProbe": Former("QuotientProbe"),
}
"""Former classes."""

KEYS: dict[str, str] = {
    "VMax": "AMax",
    "VMin": "AMin",
    "VShift": "AShift",
    "imagePath": "inputPath",
    "imageListPath": "inputPath",
    "filename": "inputPath",
    "BaseMax": "baseMax",
    "BaseMin": "baseMin",
    "nonnegConstraintFlag": "nonnegativeConstraintFlag",
    "normalizeLuminanceStd": "normalizeStdDev",
    "pvpFrameIdx": "start_frame_index",
    "jitterFlag": "jitterChangeInterval",
    "movieLayerName": "triggerLayerName",
    "originalConn": "originalConnName",
    "originalLayer": "originalLayerName",
}
"""Former parameters, where the class has the new one and not the old one."""


def renamed(group: Group, known: Mapping[str, Mapping[str, object]]) -> tuple[Group, str]:
    """Return a group by the present names, and its former class, if it has another now.

    `known` are the parameters of the present classes.
    """
    former = CLASSES.get(group.keyword) if group.keyword not in known else None
    keyword = former.now if former else group.keyword
    keys = known.get(keyword, {})
    entries: dict[str, Entry] = {}
    for key, entry in group.entries.items():
        now = KEYS.get(key, key)
        if key not in keys and key == "targetName" and "targetLayer" in keys:
            now = "targetLayer"
        if key == "movieLayerName" and "inputLayerName" in keys:
            now = "inputLayerName"
        entries[now if key not in keys and now in keys and now not in group.entries else key] = entry
    if former:
        entries = {key: Entry(value, group.place) for key, value in former.values.items()} | entries
    found = replace(group, keyword=keyword, entries=entries)
    return found, group.keyword if former else ""
