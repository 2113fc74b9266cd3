"""The gallery of docs/gallery.md: every kind of figure, from short runs.

    python docs/gallery.py            write the page, and the pictures that changed
    python docs/gallery.py --check    compare with docs/gallery instead; fail where it differs

Started in the root of the repository. Pictures are compared by how different the colours of their thumbnails
look, in which fonts hardly matter, and by their texts, which docs/gallery/texts.txt has.
"""

from __future__ import annotations

import argparse
import difflib
import shlex
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PICTURES = Path(__file__).parent / "gallery"
TEXTS = PICTURES / "texts.txt"
PAGE = Path(__file__).parent / "gallery.md"
FOLDER = Path("runs/gallery")
DIFFERENT = 12.0
"""Difference from which on two pictures count as different: more than that of texts moved by a pixel."""
_THUMBNAIL = 96
"""Pixels of the width of a thumbnail."""
_WORST = 99.0
"""Percentile of the differences of pixels."""

RUNS = {
    "images": (
        "params/natural_images.toml",
        "run.display=200 run.displays=10 probes.energy.every=10 "
        "output.layers.image.every=display output.layers.V1.every=display output.layers.recon.every=display "
        "output.connections.dictionary.every=display connections.dictionary.learn.rate=0.2 "
        "connections.dictionary.init={type='file',path='params/dictionary_8x8x3.npy'}",
    ),
    "learning": (
        "params/natural_images.toml",
        "run.display=120 run.displays=80 layers.V1.shape=[16,16,64] "
        "output.connections.dictionary.every=display",
    ),
    "thresholds": ("demos/sparsity/sparsity.toml", "run.display=200"),
    "spikes": (
        "demos/izhikevich/network.toml",
        "run.batch=2 run.display=400",
    ),
    "oscillators": ("demos/wilson_cowan/network.toml", "run.display=2000"),
}
"""Params file and settings of each run."""


class Figure(NamedTuple):
    """A figure of the gallery."""

    kind: str
    run: str
    options: str = ""
    name: str = ""

    @property
    def file(self) -> str:
        """Name of the picture."""
        return f"{self.name or self.kind}.{'gif' if self.kind == 'movie' else 'png'}"

    @property
    def command(self) -> str:
        """The command that draws it."""
        options = f" {self.options}" if self.options else ""
        return f"petabatch plot {self.kind} {FOLDER / self.run}{options} -o {FOLDER / self.file}"


FIGURES = {
    "Images and codes": [
        Figure("dictionary", "images"),
        Figure("features", "images"),
        Figure("reconstructions", "images"),
        Figure("code", "images", "--count 18"),
        Figure("sparsity", "images"),
        Figure("receptive-fields", "images"),
        Figure("weights-over-time", "learning", "--times 6"),
        Figure("movie", "images", "--columns 1 --dpi 80 --frames 5 --rate 2"),
    ],
    "Probes": [
        Figure("energy", "images"),
        Figure("energy", "images", "--columns 1 --steps", "energy-one-column"),
        Figure("convergence", "images"),
        Figure("compare", "images"),
        Figure(
            "sweep",
            "thresholds",
            "--quantities energy/total active/fraction quality/psnr",
        ),
    ],
    "Spikes and dynamics": [
        Figure("raster", "spikes", "--unit ms"),
        Figure("correlation", "spikes"),
        Figure("weights", "images"),
        Figure("traces", "oscillators", "--variables E I --slice 25 --unit ms"),
        Figure("phase", "oscillators", "--variables E I --slices 25 33 34"),
    ],
}


FILES = [figure.file for group in FIGURES.values() for figure in group]


def make() -> dict[Path, list[str]]:
    """Run the networks and draw the figures below runs/gallery; return the pictures with their texts.

    Those of films are not known.
    """
    from PIL import Image

    from petabatch import simulation
    from petabatch.plotting.command import plot

    for name, (params, settings) in RUNS.items():
        network = simulation.read(Path(params), _settings(settings))
        simulation.run(network, FOLDER / name, force=True, mpi=False, quiet=True)
    found = {}
    for figure in (each for group in FIGURES.values() for each in group):
        dpi = [] if "--dpi" in figure.options else ["--dpi", "150"]
        arguments, file = shlex.split(figure.command)[2:], FOLDER / figure.file
        plot([*arguments, *dpi])
        found[file] = []
        if file.suffix == ".png":
            with Image.open(file) as picture:
                picture.convert("RGB").save(file, optimize=True)
            plot([*arguments[:-1], str(file.with_suffix(".svg"))])
            found[file] = texts(file.with_suffix(".svg"))
    return found


def texts(svg: Path) -> list[str]:
    """Return the texts of a figure in the order in which they are drawn; numbers that follow in one line."""
    from xml.etree import ElementTree

    tags = ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")
    lines = ("".join(tag.itertext()).strip() for tag in tags)
    groups = groupby(lines, lambda line: any(letter.isalpha() for letter in line))
    return [line for words, group in groups for line in (group if words else [" ".join(group)])]


def listed(found: Mapping[Path, list[str]]) -> list[str]:
    """Return the lines of texts.txt: the texts of all figures, each below its name."""
    return [line for file, lines in found.items() if lines for line in (f"== {file.name}", *lines, "")]


def difference(one: Path, other: Path) -> float:
    """Return how different two pictures look (CIEDE2000 of the thumbnails); infinite if one is missing."""
    from skimage.color import deltaE_ciede2000, rgb2lab

    if not (one.exists() and other.exists()):
        return float("inf")
    first, second = (_thumbnail(file) for file in (one, other))
    if first.shape != second.shape:
        return float("inf")
    return float(np.percentile(deltaE_ciede2000(rgb2lab(first), rgb2lab(second)), _WORST))


def _thumbnail(file: Path) -> Any:
    """Return a picture `[y, x, 3]`, of a film the last frame, so small that its letters are grey lines."""
    from PIL import Image

    with Image.open(file) as picture:
        picture.seek(getattr(picture, "n_frames", 1) - 1)
        whole = picture.convert("RGB")
        # Heights follow from fonts, by some pixels.
        height = round(_THUMBNAIL * whole.height / whole.width / 8) * 8
        return np.asarray(whole.resize((_THUMBNAIL, max(8, height)), Image.Resampling.BOX))


def page() -> str:
    """Return the page, with the command under each figure."""
    from petabatch.plotting.kinds import draw_function
    from petabatch.plotting.texts import capital

    lines = [
        "# Gallery",
        "",
        "Every kind of figure, from short runs. `python docs/gallery.py` makes this page and its",
        "pictures, and `.ci/run` compares them. [Plots](plots.md) describes the options.",
        "",
        "<!-- not run: docs/gallery.py runs these -->",
        "```bash",
    ]
    for name, (params, settings) in RUNS.items():
        lines.append(f"petabatch run {params} --out {FOLDER / name} --force \\")
        lines += [f"    -s {setting} \\" for setting in map(shlex.quote, _settings(settings))]
        lines[-1] = lines[-1].removesuffix(" \\")
    lines.append("```")
    for title, figures in FIGURES.items():
        lines += ["", f"## {title}"]
        for figure in figures:
            summary = (draw_function(figure.kind).__doc__ or "").splitlines()[0]
            alternative = capital(summary.removeprefix("Return ").rstrip("."))
            command = ["<!-- not run: docs/gallery.py runs it -->", "```bash", figure.command, "```"]
            lines += ["", f"![{alternative}](gallery/{figure.file})", "", *command]
    return "\n".join(lines) + "\n"


def _settings(text: str) -> list[str]:
    return shlex.split(text.replace("'", '\\"'))


def main() -> int:
    """Make the gallery, or compare it; return the exit status."""
    parser = argparse.ArgumentParser(description="Make the gallery of figures, or compare it.")
    parser.add_argument(
        "--check", action="store_true", help="compare with docs/gallery, and write nothing there"
    )
    checking = parser.parse_args().check
    made = make()
    differences = {file: difference(file, PICTURES / file.name) for file in made}
    known = TEXTS.read_text("utf-8").splitlines() if TEXTS.exists() else []
    words = list(difflib.unified_diff(known, listed(made), str(TEXTS), "now", n=2, lineterm=""))
    wrong = [file for file, value in differences.items() if value > DIFFERENT]
    for file, value in differences.items():
        print(f"{file.name:28} {value:6.2f}{'  different' if file in wrong else ''}")
    if checking:
        stale = [] if PAGE.exists() and PAGE.read_text("utf-8") == page() else [str(PAGE)]
        if wrong or words or stale:
            changed = [*map(str, wrong), *([str(TEXTS)] if words else []), *stale]
            print(*words, f"different: {', '.join(changed)}", sep="\n")
            print("if they are right, run: python docs/gallery.py")
        return bool(wrong or words or stale)
    for file in made if words else wrong:
        (PICTURES / file.name).write_bytes(file.read_bytes())
    TEXTS.write_text("\n".join(listed(made)) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
