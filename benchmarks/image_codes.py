"""Codes of a stream of 10,000 images of 32 x 32 x 3, compared with FISTA in torch; one thread.

python benchmarks/image_codes.py [--images 10000] [--rounds 3] [--features 64] [--stride 4]    # a minute

Needs torch. Crops of colour photographs come from a generator, 256 at a time; a dictionary of 64 features of
8 x 8 x 3 at every fourth pixel, or others, random and normalised; codes of both signs. One stopping rule: an
image is done when its relative duality gap, (primal - dual) / primal, is at most 1e-2. Torch looks at the
gaps every ten steps, of float32 tensors, and goes on with the images that are not done; its convolutions are
those of `torch.nn.functional`, its step size is of the largest eigenvalue of this dictionary, by power
iteration. `petabatch.encode_stream` gets the same batches. Printed are processor seconds for 1,000 images,
the median ratio of rounds, steps, largest gaps and mean objectives, both computed here in float64, the share
of `encode_stream` that is not steps (of the compiled loop, by cProfile), and the peak of its memory after a
part and after all images. SPORCO knows no strides: see `peers_csc.py`.
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

BATCH, PATCH, PENALTY, GAP, LOOK, MOST = 256, 8, 0.3, 1e-2, 10, 1000


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


def dictionary(features: int = 64) -> np.ndarray:
    """Return features `[features, 8, 8, 3]` of norm 1."""
    weights = np.random.default_rng(1).standard_normal((features, PATCH, PATCH, 3))
    weights /= np.sqrt((weights**2).sum(axis=(1, 2, 3), keepdims=True))
    return weights.astype(np.float32)


class Torch:
    """FISTA on batches, each image until its gap is small."""

    def __init__(self, weights: np.ndarray, stride: int) -> None:
        self.weights = torch.from_numpy(weights.transpose(0, 3, 1, 2).copy())
        self.places = {"stride": stride, "padding": (PATCH - stride) // 2}  # patches lie around their unit's
        self.shape = len(weights), 32 // stride, 32 // stride
        code = torch.randn(1, *self.shape, generator=torch.Generator().manual_seed(0))
        for _ in range(100):
            code = code / code.norm()
            code = self.drive(self.show(code))
        self.step = 1 / (1.02 * float(code.norm()))

    def show(self, code: torch.Tensor) -> torch.Tensor:
        """Return reconstructions."""
        return conv_transpose2d(code, self.weights, **self.places)

    def drive(self, error: torch.Tensor) -> torch.Tensor:
        """Return what reaches the code."""
        return conv2d(error, self.weights, **self.places)

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
        shape = (len(images), *self.shape)
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


def judged(images: np.ndarray, code: np.ndarray, peer: Torch) -> tuple[float, float]:
    """Return the largest gap and the mean objective of codes, in float64."""
    given, a = (torch.from_numpy(one.transpose(0, 3, 1, 2).copy()).double() for one in (images, code))
    single, peer.weights = peer.weights, peer.weights.double()
    error = given - peer.show(a)
    gaps, objective = peer.gaps(given, a), 0.5 * error.square().sum() + PENALTY * a.abs().sum()
    peer.weights = single
    return float(gaps.max()), float(objective) / len(images)


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a function."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    """Code parts of the stream in turns, then all of it."""
    parser = options(__doc__, rounds=3, threads=(1,))
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--stride", type=int, default=4)
    given = parser.parse_args()
    about, weights = introduce(), dictionary(given.features)
    more = {"stride": given.stride, "gap": GAP, "steps": MOST, "signed": True, "threads": 1, "quiet": True}

    def ours(count: int) -> Codes | None:
        """Code images of the stream, and return the last batch of codes."""
        each = (image for images in stream(count) for image in images)
        codes = None
        for part in petabatch.encode_stream(each, weights, PENALTY, batch=BATCH, **more):
            codes = part
        return codes

    torch.set_num_threads(1)
    with threadpool_limits(1):
        peer, batch = Torch(weights, given.stride), next(stream(BATCH))
        found, (other, taken) = ours(BATCH), peer.encode(batch)
        rows = [
            [name, f"{np.mean(made):.0f}", *(f"{one:.4g}" for one in judged(batch, code, peer))]
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
        profile = cProfile.Profile(time.thread_time)
        profile.runcall(ours, part)
        stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
        steps_alone = sum(
            own
            for (file, _, name), (_, _, own, *_) in stats.items()
            if file.endswith("program/loop.py") and name.startswith("advance")
        )
        share = 1 - steps_alone * 1000 / part / own
    print(f"{given.images:,} images: {whole:.1f} s; not steps: {share:.1%}")
    print(f"peak of memory: {before:.0f} MiB after {part:,} images, {after:.0f} MiB at the end")
    result = {"machine": about, "rows": rows, "times": times, "whole": whole, "share": share}
    keep({**result, "memory": [before, after]}, "image_codes", given.json)


if __name__ == "__main__":
    main()
