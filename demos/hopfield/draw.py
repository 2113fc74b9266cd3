"""Store patterns, recall them from damaged ones, and draw how well: `python demos/hopfield/draw.py`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import petabatch

HERE = Path(__file__).parent
SIDE, FLIPPED = 20, 0.1
"""Rows and columns of a pattern, and the share of its pixels that are wrong in a cue."""
LOADS = (0.02, 0.05, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.25)
"""Patterns stored, over the number of neurons."""


def recall(load: float, batch: int = 64, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Store load * N patterns; return patterns, cues and what was recalled, `[slices, rows, columns]`."""
    rng, units = np.random.default_rng(seed), SIDE * SIDE
    patterns = rng.choice([-1.0, 1.0], size=(round(load * units), units))
    weights = patterns.T @ patterns / units
    np.fill_diagonal(weights, 0)
    wanted = patterns[np.arange(batch) % len(patterns)]
    cues = np.where(rng.random(wanted.shape) < FLIPPED, -wanted, wanted)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/weights.npy", weights.reshape(units, 1, 1, units))
        np.save(f"{folder}/cues.npy", cues.reshape(-1, 1, 1, units))
        overrides = [
            f"run.batch={batch}",
            f'layers.cue.source.file="{folder}/cues.npy"',
            f'connections.recall.init.path="{folder}/weights.npy"',
        ]
        network = petabatch.load(HERE / "network.toml", overrides).network
        found = petabatch.in_memory.run(network).recorded["layers/memory/A"][-1]
    return tuple(each.reshape(-1, SIDE, SIDE) for each in (wanted, cues, found))


def overlap(patterns: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return the mean product of the pixels of two patterns: 1 where they are the same."""
    return np.asarray((patterns * found).mean(axis=(1, 2)))


def draw(target: Path) -> None:
    """Draw the overlap of what is recalled over the load, and three patterns at a low and a high one."""
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.1))
    axes = above.subplots()
    for load in LOADS:
        patterns, _, found = recall(load)
        overlaps = overlap(patterns, found)
        print(f"{load:.2f} N patterns: overlap {overlaps.mean():.3f}")
        axes.plot([load] * len(overlaps), overlaps, ".", color="#305080", alpha=0.25, ms=5)
        axes.plot(load, overlaps.mean(), "o", color="#b03030", ms=6)
    axes.axvline(0.138, color="grey", ls="--", lw=1)
    axes.set_xlabel("patterns / neurons; dashed: capacity of an infinite network, 0.138")
    axes.set_ylabel("overlap with the pattern")
    panels = below.subplots(2, 9)
    for row, load in zip(panels, (0.08, 0.2), strict=True):
        columns = [each[number] for number in range(3) for each in recall(load)]
        titles = ("pattern", "cue", "recalled") * 3
        for ax, image, title in zip(row, columns, titles, strict=True):
            ax.imshow(image, cmap="gray")
            ax.set_xticks([])
            ax.set_yticks([])
            ax.set_title(title, fontsize=8)
        row[0].set_ylabel(f"{load:g} N")
    figure.savefig(target, dpi=100)


if __name__ == "__main__":
    draw(HERE / "recall.png")
