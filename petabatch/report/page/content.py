"""Content of the report of a run, as values of JSON: curves, dictionaries and reconstructions."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.errors import PetabatchError
from petabatch.pixels import about_zero, atlas, data_url, pictures
from petabatch.plotting.curves import Curve, curve, ends, meaning
from petabatch.plotting.patches import Dictionary, read_dictionary
from petabatch.plotting.reconstructions import find as find_reconstructions
from petabatch.plotting.select import code_layer, image_layer, psnr, quality, recorded, when
from petabatch.plotting.strongest import cut, strongest
from petabatch.plotting.texts import capital
from petabatch.plotting.words import of_slice, quantity, time_axis
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import use_of

_POINTS = 600
"""Points of a curve."""
_PATCHES = 8
"""Image patches of a feature."""
_FEATURES = 512
"""Features whose image patches are searched for."""
_PATCH_PIXELS = 1_000_000
"""Values of image patches, from the features used most; of further ones there are pictures only."""
_PIXELS = 3_000_000
"""Values of images and reconstructions."""

Json = dict[str, Any]


def curves(run: Results) -> list[Json]:
    """Return charts of the probes: the terms of an energy in one, other quantities each in its own."""
    charts: list[Json] = []
    for probe in recorded(run, "probes"):
        measured = {quantity: series for quantity, series in run.probe(probe).items() if len(series)}
        if "total" in measured:
            ordered = sorted(measured.items(), key=lambda pair: pair[0] != "total")
            charts.append(_chart(run, dict(ordered)))
        else:
            charts += [_chart(run, {name: one}) for name, one in measured.items()]
    return charts


def _chart(run: Results, measured: Mapping[str, Series]) -> Json:
    """Return a chart; its note says where lines and bands are not those of slices at all records."""
    at_ends = any(ends(series, run.display) for series in measured.values())
    time, names = time_axis(run), [name for name in run if name.startswith("probes/")]
    return {
        "title": quantity(run, next(iter(measured.values())).name, names),
        "per": time.per,
        "label": time.label,
        "note": "; ".join(meaning([run.batch], at_ends)) if at_ends else "",
        "lines": [_line(name, curve(run, series, _POINTS)) for name, series in measured.items()],
        "gaps": run.gaps,
    }


def _line(name: str, found: Curve) -> Json:
    """Return a curve with its band."""
    low, high = found.band.T
    band = {"low": _short(low), "high": _short(high)}
    return {"name": name, "steps": found.steps.tolist(), "mean": _short(found.mean), **band}


def dictionaries(run: Results) -> list[Json]:
    """Return the last recorded dictionaries, the use of features, and the image patches that drive them."""
    found = []
    for name in recorded(run, "connections"):
        try:
            read = read_dictionary(run, name)
        except PetabatchError:
            continue  # the connection has no dictionary, such as an identity
        tiles = pictures(about_zero(read.weights))
        columns = max(1, int(np.ceil(np.sqrt(len(tiles)))))
        shown: Json = {
            "title": capital(f"{read.title}, {when(run, read.step)}"),
            "count": len(tiles),
            "columns": columns,
            "aspect": tiles.shape[2] / tiles.shape[1],
            "atlas": data_url(atlas(tiles, columns)),
            "shape": read.weights.shape[1:],
            "weights": _packed(read.weights),
        }
        found.append(shown | _use(run, read))
    return found


def _use(run: Results, read: Dictionary) -> Json:
    """Return the use of features and their image patches, as far as codes and images were recorded."""
    try:
        code = code_layer(run, read.code)
    except PetabatchError:
        return {}
    use = use_of(code)
    shown: Json = {"use": _short(use)}
    try:
        image = image_layer(run, shape=tuple(run.params["layers"][read.onto]["shape"]))
        driven = strongest(run, code, image, _PATCHES)
    except PetabatchError:
        return shown
    tiles: list[np.ndarray] = []
    patches: dict[str, Json] = {}
    blank, room = None, _PATCH_PIXELS
    for number in np.argsort(-use, kind="stable")[:_FEATURES]:
        if not driven[number]:
            continue
        values = np.stack([cut(image, read, unit) for unit in driven[number]])
        low, high = np.nanmin(values), np.nanmax(values)
        scaled = pictures(np.nan_to_num((values - low) / ((high - low) or 1.0), nan=0.93))
        blank = np.ones_like(scaled[:1]) if blank is None else blank
        patches[str(number)] = {
            "row": len(tiles) // _PATCHES,
            "activity": _short(np.array([unit.activity for unit in driven[number]])),
            "where": [f"{when(run, unit.step)}, {of_slice(run, unit.slice)}" for unit in driven[number]],
        }
        room -= values.size
        if room >= 0:
            patches[str(number)]["pixels"] = _packed(values)
        tiles += [*scaled, *np.repeat(blank, _PATCHES - len(scaled), axis=0)]
    if tiles:
        rows = len(tiles) // _PATCHES
        shown |= {"patches": patches, "patch_rows": rows, "patch_columns": _PATCHES}
        shown["patch_atlas"] = data_url(atlas(np.stack(tiles), _PATCHES))
    return shown


def reconstructions(run: Results) -> list[Json]:
    """Return images, reconstructions and errors of some displays and slices, as many as are not too much."""
    try:
        image, recon = find_reconstructions(run)
    except PetabatchError:
        return []
    steps = np.intersect1d(image.steps, recon.steps)
    each = 3 * int(np.prod(image.shape[2:]))
    most = max(1, _PIXELS // each)
    slices = min(run.batch, 16, most)
    times = min(len(steps), 12, max(1, most // slices))
    chosen = steps[np.unique(np.linspace(0, len(steps) - 1, times).round().astype(int))]
    if times == 1:
        chosen = steps[-1:]
    return [_triple(run, image, recon, int(step), number) for step in chosen for number in range(slices)]


def _triple(run: Results, image: Series, recon: Series, step: int, number: int) -> Json:
    one, other = (series.at(step=step, slice=number).astype(float) for series in (image, recon))
    low, span = one.min(), (one.max() - one.min()) or 1.0
    values = (one - low) / span, (other - low) / span, 0.5 + (one - other) / span
    return {
        "when": when(run, step),
        "slice": of_slice(run, number).removeprefix("slice "),
        "psnr": quality(psnr(one, other)),
        "scale": f"± {span / 2:.2g}",
        "shown": _item(run, image.name.split("/")[1], step, number),
        "images": [data_url(pictures(each)) for each in values],
        "shape": one.shape,
        "values": _packed(np.stack([one, other])),
    }


def _item(run: Results, layer: str, step: int, number: int) -> str:
    """Return what the slice saw, in words; empty where the run does not tell."""
    try:
        shown = run.shown(layer, step=step, slice=number)
    except PetabatchError:  # recorded within the first display
        return ""
    frame = f", frame {shown.frame}" if shown.frame else ""
    return f"{Path(shown.file).name or f'item {shown.item}'}{frame}, from {shown.crop[0]}, {shown.crop[1]}"


def _packed(values: np.ndarray) -> str:
    """Return an array as text: float32, compressed. Pictures of 8 bits are not its numbers."""
    return base64.b64encode(zlib.compress(values.astype("<f4").tobytes(), 9)).decode("ascii")


def _short(values: np.ndarray) -> list[float | None]:
    """Return numbers with five digits; JSON has neither NaN nor infinity."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]
