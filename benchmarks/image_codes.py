"""Codes of a stream of 10,000 images of 32 x 32 x 3, compared with FISTA in torch; one thread.

python benchmarks/image_codes.py [--images 10000] [--rounds 3]    # about ten minutes

Needs torch. Crops of colour photographs come from a generator, 256 at a time; a dictionary of 64 features of
8 x 8 x 3 at every fourth pixel, random and normalised; codes of both signs. One stopping rule: an image is
done when its relative duality gap, (primal - dual) / primal, is at most 1e-2. Torch looks at the gaps every
ten steps, of float32 tensors, and goes on with the images that are not done; its convolutions are those of
`torch.nn.functional`, its step size is of the largest eigenvalue of this dictionary, by power iteration.
`petabatch.encode_stream` gets the same batches. Printed are processor seconds for each 1,000 images, their
ratio by rounds, steps, largest gaps and mean objectives, both computed here in float64, the share of
`encode_stream` that is not steps (cProfile: all but the compiled loop), and the peak of its memory for 1,000
and for all images. SPORCO knows no strides: see `peers_csc.py`.
"""

from __future__ import annotations

import cProfile
import pstats
import resource
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from common import introduce, keep, options, table
from skimage import data, util
from threadpoolctl import threadpool_limits
from torch.nn.functional import conv2d, conv_transpose2d

import petabatch
from petabatch.coding import Codes

BATCH, PATCH, STRIDE, FEATURES, PENALTY, GAP, LOOK, MOST = 256, 8, 4, 64, 0.3, 1e-2, 10, 1000


def stream(count: int) -> Iterator[np.ndarray]:
    """Yield batches of crops, centred, float32 `[256, 32, 32, 3]`."""
    rng = np.random.default_rng(0)
    names = ("astronaut", "coffee", "chelsea", "rocket")
    photographs = [util.img_as_float32(getattr(data, name)()) for name in names]
    for first in range(0, count, BATCH):
        images = np.empty((min(BATCH, count - first), 32, 32, 3), np.float32)
        for image in images:
            photograph = photographs[rng.integers(len(photographs))]
            y, x = (rng.integers(length - 32) for length in photograph.shape[:2])
            image[:] = photograph[y : y + 32, x : x + 32]
        yield images - images.mean(axis=(1, 2, 3), keepdims=True)


def dictionary() -> np.ndarray:
    """Return features `[64, 8, 8, 3]` of norm 1."""
    weights = np.random.default_rng(1).standard_normal((FEATURES, PATCH, PATCH, 3))
    weights /= np.sqrt((weights**2).sum(axis=(1, 2, 3), keepdims=True))
    return weights.astype(np.float32)


class Torch:
    """FISTA on batches, each image until its gap is small."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = torch.from_numpy(weights.transpose(0, 3, 1, 2).copy())
        code = torch.randn(
            1, FEATURES, 32 // STRIDE, 32 // STRIDE, generator=torch.Generator().manual_seed(0)
        )
        for _ in range(100):
            code = code / code.norm()
            code = self.drive(self.show(code))
        self.step = 1 / (1.02 * float(code.norm()))

    def show(self, code: torch.Tensor) -> torch.Tensor:
        """Return reconstructions; patches begin 2 pixels before their unit's."""
        return conv_transpose2d(code, self.weights, stride=STRIDE, padding=2)

    def drive(self, error: torch.Tensor) -> torch.Tensor:
        """Return what reaches the code."""
        return conv2d(error, self.weights, stride=STRIDE, padding=2)

    def gaps(self, images: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
        """Return the relative duality gap of each image."""
        error = images - self.show(code)
        largest = self.drive(error).abs().amax(dim=(1, 2, 3))
        scale = torch.clamp(PENALTY / largest, max=1.0)
        squares = error.square().sum(dim=(1, 2, 3))
        primal = 0.5 * squares + PENALTY * code.abs().sum(dim=(1, 2, 3))
        dual = scale * (error * images).sum(dim=(1, 2, 3)) - 0.5 * scale.square() * squares
        return (primal - dual) / primal

    def encode(self, given: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """Return the codes of images, channels last, and the steps of each."""
        images = torch.from_numpy(given.transpose(0, 3, 1, 2).copy())
        shape = (len(images), FEATURES, 32 // STRIDE, 32 // STRIDE)
        found, taken = torch.zeros(shape), [0] * len(images)
        left, code, ahead, t = torch.arange(len(images)), torch.zeros(shape), torch.zeros(shape), 1.0
        for step in range(1, MOST + 1):
            moved = ahead + self.step * self.drive(images - self.show(ahead))
            new = torch.nn.functional.softshrink(moved, self.step * PENALTY)
            later = (1 + (1 + 4 * t * t) ** 0.5) / 2
            ahead, code, t = new + (t - 1) / later * (new - code), new, later
            if step % LOOK:
                continue
            done = self.gaps(images, code) <= GAP
            found[left[done]] = code[done]
            for number in left[done].tolist():
                taken[number] = step
            left, images, code, ahead = left[~done], images[~done], code[~done], ahead[~done]
            if not len(left):
                break
        return found.numpy().transpose(0, 2, 3, 1), taken


def judged(images: np.ndarray, code: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the largest gap and the mean objective of codes, in float64."""
    shown = torch.from_numpy(weights.transpose(0, 3, 1, 2).copy()).double()
    a = torch.from_numpy(np.ascontiguousarray(code.transpose(0, 3, 1, 2))).double()
    error = torch.from_numpy(images.transpose(0, 3, 1, 2).copy()).double()
    given = error.clone()
    error -= conv_transpose2d(a, shown, stride=STRIDE, padding=2)
    largest = conv2d(error, shown, stride=STRIDE, padding=2).abs().amax(dim=(1, 2, 3))
    squares = error.square().sum(dim=(1, 2, 3))
    scale = torch.clamp(PENALTY / largest, max=1.0)
    primal = 0.5 * squares + PENALTY * a.abs().sum(dim=(1, 2, 3))
    dual = scale * (error * given).sum(dim=(1, 2, 3)) - 0.5 * scale.square() * squares
    return float(((primal - dual) / primal).max()), float(primal.mean())


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a function."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    """Code parts of the stream in turns, then all of it."""
    parser = options(__doc__, rounds=3, threads=(1,))
    parser.add_argument("--images", type=int, default=10_000)
    given = parser.parse_args()
    about, weights = introduce(), dictionary()
    more = {"stride": STRIDE, "gap": GAP, "steps": MOST, "signed": True, "threads": 1, "quiet": True}

    def ours(count: int) -> Codes | None:
        """Code images of the stream, and return the last batch of codes."""
        each = (image for images in stream(count) for image in images)
        codes = None
        for part in petabatch.encode_stream(each, weights, PENALTY, batch=BATCH, **more):
            codes = part
        return codes

    torch.set_num_threads(1)
    with threadpool_limits(1):
        peer, batch = Torch(weights), next(stream(BATCH))
        found, (other, taken) = ours(BATCH), peer.encode(batch)
        rows = [
            [name, f"{np.mean(made):.0f}", *(f"{one:.4g}" for one in judged(batch, code, weights))]
            for name, code, made in (("petabatch", found.activity, found.steps), ("torch", other, taken))
        ]
        table(("", "steps", "largest gap", "mean objective"), rows)
        part = min(1024, given.images)
        times = [
            (seconds(lambda: ours(part)), seconds(lambda: [peer.encode(images) for images in stream(part)]))
            for _ in range(given.rounds)
        ]
        ratio = statistics.median(theirs / own for own, theirs in times)
        own, theirs = (1000 / part * statistics.median(one) for one in zip(*times, strict=True))
        print(f"1,000 images: {own:.2f} s, torch {theirs:.2f} s, {ratio:.2f} times ours\n", flush=True)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        whole = seconds(lambda: ours(given.images))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        profile = cProfile.Profile()
        profile.runcall(ours, part)
        stats = pstats.Stats(profile)
        steps_alone = sum(
            own
            for (file, _, name), (_, _, own, *_) in stats.stats.items()  # type: ignore[attr-defined]
            if file.endswith("program/loop.py") and name.startswith("advance")
        )
        share = 1 - steps_alone / stats.total_tt  # type: ignore[attr-defined]
    print(f"{given.images:,} images: {whole:.1f} s; not steps: {share:.1%}")
    print(f"peak of memory: {before:.0f} MiB after {part:,} images, {after:.0f} MiB at the end")
    result = {"machine": about, "rows": rows, "times": times, "whole": whole, "share": share}
    keep({**result, "memory": [before, after]}, "image_codes", given.json)


if __name__ == "__main__":
    main()
