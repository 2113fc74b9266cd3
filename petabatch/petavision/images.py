"""PetaVision's input layers as sources: which images are shown when, and which are drawn by chance."""

from __future__ import annotations

import numpy as np

from petabatch.petavision.draft import FOLLOWING, Draft, Table
from petabatch.petavision.image_files import files_of, frames_of
from petabatch.petavision.part import Part
from petabatch.petavision.transforms import transforms
from petabatch.regular_files import regular


def source(draft: Draft, part: Part) -> Table:
    """Return the keys of an input layer: how long each image is shown, the border, the source."""
    found = shown(draft, part)
    if part.flag("useInputBCflag"):
        found["border"] = "image"
    for key in ("xFlipToggle", "yFlipToggle"):
        part.only(key, hint="transforms of the images beforehand")
    return found | {"source": files_of(draft, part) | order(draft, part) | transforms(draft, part)}


def shown(draft: Draft, part: Part) -> Table:
    """Return how long each image is shown."""
    period, _ = draft.schedule(part)
    return {"every": draft.every(period)} if period != (draft.display or 1) else {}


def seeds(draft: Draft) -> None:
    """Give sources that make random choices seeds of their own, where those of PetaVision differ."""
    found: dict[str, int] = {}
    for name, table in draft.layers.items():
        part = draft.origin["layers", name]
        if (key := FOLLOWING.get(part.keyword)) is not None:
            part = draft.named(part, key, "layer")
        if table["type"] == "input" and (
            table["source"].get("order") == "shuffled"
            or any(
                step["type"] == "flip" or "jitter" in step for step in table["source"].get("transforms", ())
            )
        ):
            found[name] = int(abs(part.finite("randomSeed")))
    for name, seed in found.items() if len(set(found.values())) > 1 else ():
        draft.layers[name]["source"]["seed"] = seed


def order(draft: Draft, part: Part) -> Table:
    """Return the order of the images.

    Source: PetaVision's `BatchIndexer.cpp:33-84`.
    """
    batch = draft.batch
    method = part.choice(
        "batchMethod",
        {
            "byFile": "file",
            "byImage": "file",
            "byList": "list",
            "byMovie": "list",
            "bySpecified": "given",
            "random": "random",
        },
    )
    first = _indices(part, "start_frame_index", batch, 0)
    if method == "random":
        part.differs("the random order is another")
        return {"order": "shuffled"}
    skip = [batch] * batch
    if method == "given":
        skip = [max(1, step) for step in _indices(part, "skip_frame_index", batch, 1)]
        part.only("resetToStartOnLoop", hint="a list of files in which those before the first are left out")
    elif method == "list":
        skip = [1] * batch
    else:
        first = [index + number for number, index in enumerate(first)]
    numbers = draft.checkpoint_file(part, "FrameNumbers.bin")
    going_on = None if numbers is None else _next_frames(draft, part, numbers)
    if method == "list" and going_on is None:
        start: Table = {"order": {"type": "by_movie", "start": first}}
        return start if any(first) else {"order": "by_movie"} if batch > 1 else {}
    first = going_on or first
    part.read |= {"resetToStartOnLoop", "skip_frame_index"} if method == "given" else set()
    if first == list(range(batch)) and skip == [batch] * batch:
        return {}
    count = frames_of(draft, part)
    if count:
        first = [index % count for index in first]
    order: Table = {"type": "specified", "start": first}
    alike = skip[0] if len(set(skip)) == 1 else skip
    return {"order": order | ({"skip": alike} if alike != 1 else {})}


def _next_frames(draft: Draft, part: Part, name: str) -> list[int] | None:
    """Return the frame that each batch element shows next, from a checkpoint; None if it is not there."""
    path = draft.files.find(name)
    if path is None:
        part.differs(f"{name} is not there: the first frames are shown")
        return None
    try:
        found = np.fromfile(regular(path), "<i4")
    except OSError as error:
        part.refuse("initializeFromCheckpointFlag", f"{name} cannot be read: {error.strerror}")
    if found.size == 0 or found.min() < 0:
        part.refuse("initializeFromCheckpointFlag", f"{name} is damaged")
    return [int(found[number % found.size]) for number in range(draft.batch)]


def _indices(part: Part, key: str, batch: int, default: int) -> list[int]:
    given = part.numbers(key)
    if not given:
        return [default] * batch
    if any(not value.is_integer() or not 0 <= value < 2**31 for value in given):
        part.refuse(key, "these are not numbers of frames", str(list(given)))
    if not any(given):
        return [default] * batch
    if len(given) != batch:
        part.refuse(key, "there is not one number for each batch element", str(len(given)), str(batch))
    return [int(value) for value in given]
