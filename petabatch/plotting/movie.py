"""Films of a run: activity, reconstructions or the dictionary over time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from petabatch.arguments import checked
from petabatch.errors import InputError, PetabatchError, ResourceError, install
from petabatch.pixels import about_zero, pictures
from petabatch.plotting.dictionary import find as find_dictionary
from petabatch.plotting.figures import colour_bar, height_of, panels, styled, width_of
from petabatch.plotting.files import check_format
from petabatch.plotting.options import Grey, Option, Slice, Title
from petabatch.plotting.patches import find_weights, read_dictionary
from petabatch.plotting.reconstructions import find as find_reconstructions
from petabatch.plotting.select import check_slice, code_layer, when
from petabatch.plotting.texts import capital, heading, points, wrapped
from petabatch.plotting.tiles import columns_of, mosaic
from petabatch.plotting.words import of_slice
from petabatch.results import Results
from petabatch.results.use import use_of

What = Literal["reconstruction", "activity", "dictionary"]


@dataclass(frozen=True)
class Movie:
    """A figure that changes from frame to frame, with a writer: `movie(run).save("movie.gif")`."""

    figure: Any
    frames: int
    update: Callable[[int], None]
    """Draw this frame into the figure."""
    rate: float
    """Frames per second."""

    @checked()
    def save(self, output: str | os.PathLike[str]) -> None:
        """Write a .gif by Pillow or a .mp4 by PyAV; raises ResourceError if that is not installed."""
        check_format(Path(output), film=True)
        {".gif": _gif, ".mp4": _mp4}[Path(output).suffix.lower()](self, Path(output))

    def images(self) -> Iterator[np.ndarray]:
        """Yield the frames, uint8 `[y, x, 3]` of even lengths."""
        for frame in range(self.frames):
            self.update(frame)
            self.figure.canvas.draw()
            self.figure.set_layout_engine("none")  # so that nothing moves, nor takes time
            pixels = np.asarray(self.figure.canvas.buffer_rgba())
            yield np.ascontiguousarray(pixels[: pixels.shape[0] // 2 * 2, : pixels.shape[1] // 2 * 2, :3])


def find(run: Results) -> What:
    """Return what a film can show: reconstructions, else activity, else the dictionary."""
    checks: dict[What, Callable[[], Any]] = {
        "reconstruction": lambda: find_reconstructions(run),
        "activity": lambda: code_layer(run),
        "dictionary": lambda: find_weights(run),
    }
    for what, check in checks.items():
        try:
            check()
        except PetabatchError:
            continue
        return what
    raise InputError(
        f"{run.path}: neither reconstructions nor codes nor weights were recorded\n"
        "    hint:     record them in [output]"
    )


@styled
def movie(
    run: Results,
    *,
    what: Annotated[
        What | None, Option("what to show (default: the first of these that was recorded)")
    ] = None,
    slice: Slice = 0,
    frames: Annotated[int, Option("number of frames at most", least=1)] = 200,
    rate: Annotated[int, Option("frames per second", least=1)] = 8,
    grey: Grey = False,
    title: Title = "",
    figure: Any = None,
) -> Movie:
    """Return a film of the reconstruction, the activity or the dictionary over time, as GIF or MP4.

    One frame is one recorded time. Activity has the same scale in all frames; each feature of a
    dictionary is scaled by its largest absolute weight.
    """
    draw = {"reconstruction": _reconstruction, "activity": _activity, "dictionary": _dictionary}[
        what or find(run)
    ]
    number = check_slice(run, slice)
    wide = width_of(figure)
    shown, steps, names, tall, subject = draw(run, number, grey, frames, wide - 0.1)
    figure, (axes,) = panels(figure, min(tall + 0.5, height_of(figure)), 1, len(names))
    drawn = []
    for axis, name, (image, limits) in zip(axes, names, shown(0), strict=True):
        scale = {"vmin": limits[0], "vmax": limits[1]}
        active = name.endswith("ctivity")
        colours = "magma_r" if active else "gray"
        drawn.append(axis.imshow(image, cmap=colours, interpolation="nearest", **scale))
        axis.set_axis_off()
        if active:
            colour_bar(axis, drawn[-1], name)
        if len(names) > 1:
            axis.set_title(name)
    top, size = heading(figure, " "), points("figure.titlesize")

    def update(frame: int) -> None:
        for artist, (image, _) in zip(drawn, shown(frame), strict=True):
            artist.set_data(image)
        text = f"{title or capital(subject)}, {when(run, int(steps[frame]))}"
        top.set_text(wrapped(text, wide, size))

    update(0)
    return Movie(figure, len(steps), update, float(rate))


Shown = Callable[[int], list[tuple[np.ndarray, tuple[float, float]]]]
"""The images of a frame, with the values that are black and white."""
Scenes = tuple[Shown, np.ndarray, list[str], float, str]
"""What is shown, at which steps, under which names, how many inches high, and whose it is, for the title."""


def _reconstruction(run: Results, slice_: int, grey: bool, frames: int, wide: float) -> Scenes:
    image, recon = find_reconstructions(run)
    steps = _even(np.intersect1d(image.steps, recon.steps), frames)
    first = image.at(step=int(steps[0]), slice=slice_)
    aspect = pictures(first * 0.0, grey).shape

    def shown(frame: int) -> list[tuple[np.ndarray, tuple[float, float]]]:
        step = int(steps[frame])
        one, other = (s.at(step=step, slice=slice_).astype(float) for s in (image, recon))
        low, span = one.min(), (one.max() - one.min()) or 1.0
        both = (one - low) / span, (other - low) / span, 0.5 + (one - other) / span
        return [(_plain(pictures(values, grey)), (0.0, 1.0)) for values in both]

    tall = wide / 3 * aspect[0] / aspect[1]
    return (
        shown,
        steps,
        ["Input", "Reconstruction", "Error"],
        tall,
        f"Reconstruction, {of_slice(run, slice_)}",
    )


def _activity(run: Results, slice_: int, grey: bool, frames: int, wide: float) -> Scenes:
    code = code_layer(run)
    layer = code.name.split("/")[1]
    chosen = _even(np.arange(len(code)), frames)
    use = use_of(code)
    numbers = np.argsort(-use, kind="stable")[:64]
    ends = [(float(each.min()), float(each.max())) for each in (code[int(time), slice_] for time in chosen)]
    largest = max(max(-low, high) for low, high in ends) or 1.0
    name = "Absolute activity" if any(low < 0 for low, _ in ends) else "Activity"
    wide -= 0.8  # for the colour bar
    columns = columns_of(len(numbers), code.shape[2] / code.shape[3], 1.0)

    def shown(frame: int) -> list[tuple[np.ndarray, tuple[float, float]]]:
        values = np.abs(code[int(chosen[frame]), slice_][:, :, numbers].astype(float))
        laid = mosaic(np.moveaxis(values, -1, 0)[..., None], columns, wide, gap=np.nan)
        return [(laid.image[..., 0], (0.0, largest))]

    tiles = np.zeros((len(numbers), *code.shape[2:4], 1))
    tall = mosaic(tiles, columns, wide).tall
    few = f", {len(numbers)} of {code.shape[-1]:,} features" if len(numbers) < code.shape[-1] else ""
    return shown, code.steps[chosen], [name], tall, f"Code of {layer}, {of_slice(run, slice_)}{few}"


def _dictionary(run: Results, slice_: int, grey: bool, frames: int, wide: float) -> Scenes:
    weights = find_weights(run, records=2)
    name = weights.name.split("/")[1]
    chosen = _even(np.arange(len(weights)), frames)
    code = find_dictionary(run, name).code
    newest = read_dictionary(run, name, -1, slice_)
    last = newest.weights
    use = np.zeros(len(last)) if code is None else use_of(code)
    order = np.argsort(-use, kind="stable") if len(use) == len(last) else np.arange(len(last))
    tile = pictures(about_zero(last[:1]), grey)
    columns = columns_of(len(last), tile.shape[1] / tile.shape[2])

    def shown(frame: int) -> list[tuple[np.ndarray, tuple[float, float]]]:
        patches = read_dictionary(run, name, int(chosen[frame]), slice_).weights[order]
        return [(_plain(mosaic(pictures(about_zero(patches), grey), columns, wide).image), (0.0, 1.0))]

    laid = mosaic(pictures(about_zero(last), grey), columns, wide)
    return shown, weights.steps[chosen], ["Dictionary"], laid.tall, newest.name


def _even(values: np.ndarray, most: int) -> np.ndarray:
    """Return at most `most` of the values, evenly spaced, with the first and the last."""
    chosen: np.ndarray = values[
        np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int))
    ]
    return chosen


def _plain(image: np.ndarray) -> np.ndarray:
    return image[..., 0] if image.shape[-1] == 1 else image


def _gif(film: Movie, output: Path) -> None:
    try:
        from PIL import Image
    except ImportError as error:
        raise ResourceError(
            f"{output}: a .gif file needs Pillow\n    hint:     {install('images')}"
        ) from error
    frames = (Image.fromarray(image) for image in film.images())
    first = next(frames)
    first.save(output, save_all=True, append_images=frames, duration=1000 / film.rate, loop=0)


def _mp4(film: Movie, output: Path) -> None:
    try:
        import av
    except ImportError as error:
        raise ResourceError(f"{output}: a .mp4 file needs PyAV\n    hint:     {install('video')}") from error
    with av.open(str(output), "w") as container:
        stream = container.add_stream("libx264", rate=round(film.rate))
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "18"}
        for number, image in enumerate(film.images()):
            if not number:
                stream.height, stream.width = image.shape[:2]
            for packet in stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
