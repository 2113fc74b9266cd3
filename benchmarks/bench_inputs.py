"""What inputs cost: films, many small files, and a file larger than memory.

python benchmarks/bench_inputs.py [films] [images] [hdf5] [--rounds 5] [--displays 20]

films   the main job (params/natural_images.toml) on 16 films: total time against the same frames from memory
        plus the processor time of decoding, divided by the cores; and how long steps waited for images
images  10,000 small images in a warm page cache: seconds to the first step, checks and hashes included
hdf5    a sparse HDF5 file of 10 GB, in random order: peak memory against a file of 3 MB

Some minutes. Temporary files need a file system with sparse files.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import av
import h5py
import numpy as np
from common import introduce, keep, options, table, whole
from PIL import Image

from petabatch import simulation
from petabatch.bench.trial import run
from petabatch.engine.engine import WAITING
from petabatch.sources import Video
from petabatch.sources.gallery import Gallery
from petabatch.sources.view import View
from petabatch.spec.network import Network

PARAMS = Path(__file__).parents[1] / "params" / "natural_images.toml"
FILMS, SIZE = 16, (240, 320)
IMAGES = 10_000
STACK = (1_000_000, 60, 60, 3)
PARTS = ("films", "images", "hdf5")

CHILD = """
import json, os, resource, sys, threading, time
from petabatch import simulation
from petabatch.engine.group import Group

advance, loaded = Group.run, simulation.read(sys.argv[1])

def first(self, *steps):
    if stop_at == "first step":
        once.acquire()  # each thread comes here
        print(json.dumps([time.time() - float(sys.argv[3]), time.process_time()]), flush=True)
        os._exit(0)
    advance(self, *steps)

stop_at, once = sys.argv[4], threading.Lock()
Group.run = first
simulation.run(loaded, sys.argv[2], mpi=False, quiet=True, force=True)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([time.time() - float(sys.argv[3]), peak]))
"""


class Decoded(View):
    """Films that are in memory, decoded."""

    type: Literal["bench_decoded"] = "bench_decoded"
    frames: Any
    """All frames of all films, `[n, ny, nx, 3]`."""
    lengths: tuple[int, ...]

    def gallery(self) -> Gallery:
        """Return the frames."""
        frames = self.frames
        return Gallery(
            [frames.shape[1:]] * len(frames),
            lambda number, rows, columns: frames[number, rows, columns],
            "frame {}".format,
            self.lengths,
        )


def write_film(path: Path, frames: int, seed: int) -> None:
    """Write a film whose camera moves over a smooth random picture."""
    rng = np.random.default_rng(seed)
    ny, nx = SIZE
    coarse = rng.random((ny // 8 + 40, nx // 8 + 40, 3))
    scene = (255 * np.kron(coarse, np.ones((8, 8, 1)))).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"g": "50"})
        stream.height, stream.width, stream.pix_fmt = ny, nx, "yuv420p"
        for index in range(frames):
            view = np.ascontiguousarray(scene[2 * index : 2 * index + ny, 3 * index : 3 * index + nx])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(view, format="rgb24")))
        container.mux(stream.encode())


def films(rounds: int, displays: int, threads: int, folder: Path) -> dict[str, Any]:
    lengths = tuple(displays + 1 + 3 * number % 8 for number in range(FILMS))
    for number, length in enumerate(lengths):
        write_film(folder / f"{number:02}.mp4", length, number)
    shown = {"order": {"type": "movie"}, "normalize": "standard", "crop": "center"}
    video = Video(files=str(folder / "*.mp4"), **shown)
    gallery = video.gallery()
    frames = np.stack([gallery.read(n, slice(None), slice(None)) for n in range(len(gallery.shapes))])
    del gallery  # with it go the frames that it keeps decoded: each round begins without
    memory = Decoded(frames=frames, lengths=lengths, **shown)
    base = simulation.read(PARAMS, [f"run.displays={displays}"]).network
    seconds: dict[str, list[float]] = {"files": [], "memory": [], "decoding": [], "waited": []}
    for _ in range(rounds):
        for name, source in (("memory", memory), ("files", video)):
            engine = whole(_showing(base, source)).engine(threads)
            seconds[name].append(run(engine))
            engine.close()
        seconds["waited"].append(engine.times()[WAITING])
        read = video.open((*base.layers["image"].shape[:2], 3), base.run.batch, 1)
        begin = time.process_time()
        for display in range(displays):
            for number in range(base.run.batch):
                read(number, display)
        seconds["decoding"].append(time.process_time() - begin)
        del read
    turns = zip(*(seconds[name] for name in ("files", "memory", "decoding")), strict=True)
    ratios = [total / (memory + decoding / threads) for total, memory, decoding in turns]
    found = {name: statistics.median(values) for name, values in seconds.items()}
    table(
        ["16 films, main job", "median"],
        [
            *([f"{name}, s", f"{value:.2f}"] for name, value in found.items()),
            ["total / (memory + decoding / cores)", f"{statistics.median(ratios):.3f}"],
            ["range", f"{min(ratios):.3f} to {max(ratios):.3f}"],
            ["waited, share of total", f"{found['waited'] / found['files']:.2%}"],
        ],
    )
    return {**seconds, "ratio": ratios}


def _showing(network: Network, source: Any) -> Network:
    image = network.layers["image"].model_copy(update={"source": source})
    return network.model_copy(update={"layers": {**network.layers, "image": image}})


def images(rounds: int, folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    (folder / "pictures").mkdir()
    for number in range(IMAGES):
        pixels = rng.integers(0, 255, (32, 32, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"{number:05}.png", compress_level=1)
    source = f'{{ type = "images", files = "{folder / "pictures"}" }}'
    found = [_child(folder, source, "first step") for _ in range(rounds + 1)][1:]
    table(
        [f"{IMAGES:,} images to the first step", "median, s", "range"],
        [
            [what, f"{statistics.median(values):.2f}", f"{min(values):.2f} to {max(values):.2f}"]
            for what, values in zip(("wall-clock", "processor"), zip(*found, strict=True), strict=True)
        ],
    )
    return {"wall, processor": found}


def hdf5(folder: Path) -> dict[str, Any]:
    found = {}
    for name, count in (("small", 300), ("10 GB", STACK[0])):
        path = folder / f"{count}.h5"
        with h5py.File(path, "w") as file:
            made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            made.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            made.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            space = h5py.h5s.create_simple((count, *STACK[1:]))
            stored = h5py.Dataset(h5py.h5d.create(file.id, b"images", h5py.h5t.NATIVE_UINT8, space, made))
            stored[-1] = 200
        source = f'{{ type = "array", file = "{path}", dataset = "images", order = "random" }}'
        seconds, peak = _child(folder, source, "end")
        about = path.stat()
        disk = 512 * about.st_blocks
        found[name] = {"bytes": about.st_size, "disk": disk, "seconds": seconds, "peak": peak}
    table(
        ["HDF5 file", "GB", "on disk, MB", "run of 20 displays, s", "peak memory, MiB"],
        [
            [name, f"{one['bytes'] / 1e9:.3f}", f"{one['disk'] / 1e6:.0f}", f"{one['seconds']:.1f}",
             f"{one['peak'] / 2**20:.0f}"]
            for name, one in found.items()
        ],
    )  # fmt: skip
    return found


def _child(folder: Path, source: str, stop_at: str) -> Sequence[float]:
    """Run a small network on a source in a new process; return what it prints."""
    text = (PARAMS.read_text().partition("source = ")[0] + f"source = {source}\n"
            + PARAMS.read_text().partition("source = ")[2].partition("\n")[2])  # fmt: skip
    text = text.replace("display = 400 ", "display = 20 ").replace("displays = 150", "displays = 20")
    (folder / "child.toml").write_text(text)
    command = [sys.executable, "-c", CHILD, folder / "child.toml", folder / "out", str(time.time()), stop_at]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: list[float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = options(__doc__, rounds=5, threads=(len(os.sched_getaffinity(0)),))
    parser.add_argument("parts", nargs="*", default=PARTS, help="default: all")
    parser.add_argument("--displays", type=int, default=20, help="frames of each film that are shown")
    given = parser.parse_args()
    about, result = introduce(), {}
    for part in given.parts:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            if part == "films":
                result[part] = films(given.rounds, given.displays, given.threads[0], folder)
            elif part == "images":
                result[part] = images(given.rounds, folder)
            else:
                result[part] = hdf5(folder)
    keep({"machine": about, **result}, "inputs", given.json)


if __name__ == "__main__":
    main()
