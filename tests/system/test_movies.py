"""A film for each slice and one dictionary for all, on any number of ranks, killed and resumed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import av
import numpy as np
import pytest

from petabatch import results
from petabatch.params import plan, read
from petabatch.report.explain import summary
from petabatch.report.information import describe
from support.commands import BIN, SMALL, Command, alone, contents
from support.processes import kill_all, wait_for_checkpoint, with_gate

LENGTHS = (6, 10, 7, 12, 5, 9, 8, 11)

MOVIES = SMALL.replace(
    '{ type = "array", file = "images.npy" }',
    '{ type = "video", files = "films/*.mkv", normalize = "standard", crop = "top_left" }',
).replace("batch = 3\ndisplay = 10\ndisplays = 6", "batch = 8\ndisplay = 10\ndisplays = 14")


def write_film(path: Path, number: int, frames: int) -> None:
    """Write a film whose first pixel tells the film and the frame."""
    rng = np.random.default_rng(number)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width, stream.pix_fmt = 16, 16, "bgr0"
        for index in range(frames):
            pixels = rng.integers(0, 255, (16, 16, 3)).astype(np.uint8)
            pixels[0, 0] = number, index, 200
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


@pytest.fixture(scope="module")
def movies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("movies")
    (folder / "films").mkdir()
    for number, frames in enumerate(LENGTHS):
        write_film(folder / "films" / f"{number}.mkv", number, frames)
    (folder / "movies.toml").write_text(MOVIES)
    alone(folder / "movies.toml", "one")
    return folder


def test_each_slice_shows_its_own_film_from_its_first_frame(movies: Path) -> None:
    alone(movies / "movies.toml", "raw", 'layers.image.source.normalize="none"', "output.layers.image={}")
    with results.open(movies / "raw") as run:
        first = np.rint(255 * run.layer("image")[:][:, :, 0, 0, :]).astype(int)
        item, frame = run["inputs/image/item"][:], run["inputs/image/frame"][:]
    for display in range(14):
        for b, length in enumerate(LENGTHS):
            assert first[display, b].tolist() == [b, display % length, 200]
            assert (item[display, b], frame[display, b]) == (b, display % length)
    with results.open(movies / "raw") as run:
        assert run.attributes["times"]["waiting for images"] >= 0
        shown = run.shown("image", step=87, slice=3)
        assert Path(shown.file) == movies / "films" / "3.mkv"
        assert shown[1:4] == (0, 3, 8)
    assert "s for images, " in (movies / "raw" / "log.txt").read_text()
    assert "waiting for images" in describe(movies / "raw")
    planned = plan(read(movies / "movies.toml"))
    (update,) = planned.weight_updates
    assert planned.graph.weighted["dictionary"].mode == "extra_shared"
    assert (update.reduced, update.period) == (True, 10)  # one dictionary, updated at every frame
    told = summary(planned)
    assert f"image: up to 4 displays of each slice, {4 * 8 * 12 * 12 * 3 * 4 / 1024:.1f} KiB" in told


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.long), 3])
def test_films_dictionary_and_codes_have_the_same_bits_on_any_ranks(
    movies: Path, petabatch: Command, ranks: int
) -> None:
    out = f"ranks{ranks}"
    done = petabatch("run", movies / "movies.toml", "--out", movies / out, "-q", ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert contents(movies / out / "run.h5") == contents(movies / "one" / "run.h5")


@pytest.mark.mpi
@pytest.mark.long
def test_films_go_on_where_they_were_after_a_kill_on_other_ranks(movies: Path, petabatch: Command) -> None:
    held, gate = with_gate(movies / "movies.toml", 40)
    command = [BIN / "mpirun", "-n", "2", BIN / "petabatch", "run", held, "--out", "cut", "-q"]
    process = subprocess.Popen(command, cwd=movies)
    wait_for_checkpoint(movies / "cut", 40, process)
    kill_all(process)
    gate.unlink()
    resumed = petabatch("resume", movies / "cut", "-q")
    assert resumed.returncode == 0, resumed.stderr
    assert contents(movies / "cut" / "run.h5") == contents(movies / "one" / "run.h5")
