"""Videos, and movies made of any images."""

from __future__ import annotations

import resource
import struct
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
import pytest
import tifffile

import petabatch
from petabatch import params
from petabatch.engine.images import ImageReader
from petabatch.errors import InputError, ResourceError, TableError
from petabatch.layers import Input
from petabatch.network.build import build
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.params import first_state, plan
from petabatch.sources import ImageArray, Video, decoders, video
from petabatch.spec.network import Network, Run

ROOM = (16, 24, 3)
FRAMES = 50


def film(path: Path, codec: str, seed: int = 0, pixels: str = "bgr0") -> np.ndarray:
    """Write a video and return its frames as FFmpeg decodes them from first to last."""
    rng = np.random.default_rng(seed)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options={"g": "12"})
        stream.height, stream.width, _ = ROOM
        stream.pix_fmt = pixels
        for _ in range(FRAMES):
            frame = av.VideoFrame.from_ndarray(rng.integers(0, 255, ROOM).astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def show(frame: np.ndarray) -> np.ndarray:
    return (frame / 255).astype(np.float32)


@pytest.mark.parametrize(("name", "codec", "pixels"), [
    ("a.mkv", "ffv1", "bgr0"), ("a.mp4", "mpeg4", "yuv420p"), ("a.mp4", "libx264", "yuv420p"),
])  # fmt: skip
def test_any_frame_is_found_wherever_one_begins(tmp_path: Path, name: str, codec: str, pixels: str) -> None:
    frames = film(tmp_path / name, codec, pixels=pixels)
    assert len(frames) == FRAMES
    read = Video(files=str(tmp_path / name), crop="top_left").open(ROOM, 1, 1)
    for number in (31, 32, 5, 0, 49, 12, 11, 33):
        assert np.array_equal(read(0, number), show(frames[number])), number
    assert np.array_equal(read(0, FRAMES), show(frames[0]))  # it begins again


def test_slices_show_the_parts_of_all_films_side_by_side_from_any_thread(tmp_path: Path) -> None:
    frames = np.concatenate([film(tmp_path / f"{i}.mkv", "ffv1", i) for i in range(3)])
    read = Video(files=str(tmp_path), crop="top_left", order="by_movie").open(ROOM, 4, 1)
    turns = [(b, item) for item in range(8) for b in range(4)]
    with ThreadPoolExecutor(3) as pool:
        shown = list(pool.map(lambda turn: read(*turn), turns))
    for (b, item), pixels in zip(turns, shown, strict=True):
        assert np.array_equal(pixels, show(frames[b * (len(frames) // 4) + item]))


def test_a_movie_of_any_images_shows_one_part_of_them() -> None:
    # Each image is a ramp, so that a pixel tells where the crop is.
    ramp = np.arange(40.0).reshape(1, 5, 8, 1) + 40 * np.arange(9.0).reshape(9, 1, 1, 1)
    read = ImageArray(data=ramp, order="by_movie", crop="random").open((2, 3, 1), 2, 1)
    for b in range(2):
        corners = [read(b, item)[0, 0, 0] - 40 * ((4 * b + item) % 9) for item in range(9)]
        assert len(set(corners)) == 1


def test_a_movie_cannot_ask_for_contrast() -> None:
    with pytest.raises(TableError, match="whatever its contrast"):
        Video(files="a.mkv", contrast=0.1)


def test_missing_cut_and_frameless_videos_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no.mkv: there are no videos here"):
        Video(files=str(tmp_path / "no.mkv")).open(ROOM, 1, 1)
    (tmp_path / "text.mkv").write_text("no video")
    with pytest.raises(InputError, match=r"text.mkv: this file cannot be read"):
        Video(files=str(tmp_path / "text.mkv")).open(ROOM, 1, 1)
    film(tmp_path / "cut.mp4", "mpeg4", pixels="yuv420p")
    whole = (tmp_path / "cut.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut.mp4: this file cannot be read"):
        Video(files=str(tmp_path / "cut.mp4")).open(ROOM, 1, 1)
    with av.open(str(tmp_path / "sound.mkv"), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        sound.rate = 8000
        container.mux(stream.encode(sound))
    with pytest.raises(InputError, match=r"sound.mkv: this file cannot be read"):
        Video(files=str(tmp_path / "sound.mkv")).open(ROOM, 1, 1)


def test_without_pyav_the_extra_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.mkv").write_text("")
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with pytest.raises(ResourceError, match=r"\[video\]"):
        Video(files=str(tmp_path / "a.mkv")).open(ROOM, 1, 1)


# -- decoders


def test_decoders_go_forward_are_used_again_and_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = film(tmp_path / "a.mp4", "libx264", pixels="yuv420p")
    opened: list[int] = []
    sought: list[int] = []

    class Counted(decoders._Decoder):
        def __init__(self, film: decoders.Film) -> None:
            opened.append(1)
            super().__init__(film)

        def read(self, film: decoders.Film, number: int) -> np.ndarray:
            sought.extend([] if self.reaches(film, number) else [number])
            return super().read(film, number)

    monkeypatch.setattr(decoders, "_Decoder", Counted)
    one, pool = decoders.Film(str(tmp_path / "a.mp4")), decoders.Decoders(3)
    for number in (*range(0, FRAMES, 3), *range(FRAMES)):  # every third frame, to the end, and again all
        assert np.array_equal(pool.frame(one, number), frames[number]), number
    assert len(opened) <= 2
    assert len(sought) <= 2 + FRAMES // 12  # at most once for each key frame that was skipped to
    for turn in range(4):  # five places in turns, with three decoders that wait
        for place in range(5):
            assert np.array_equal(pool.frame(one, 9 * place + turn), frames[9 * place + turn])
    assert pool.waiting == 3
    del one
    assert pool.waiting == 0  # they are closed with the last use of the film


def test_each_slice_keeps_its_decoder_while_there_is_room_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        film(tmp_path / f"{number}.mkv", "ffv1", number)
    opened: list[str] = []
    before = decoders._Decoder._begin
    monkeypatch.setattr(
        decoders._Decoder, "_begin", lambda self, film: (opened.append(film.path), before(self, film))[1]
    )

    def opened_by(order: str, pool: decoders.Decoders) -> tuple[int, str]:
        monkeypatch.setattr(video, "DECODERS", pool)
        opened.clear()
        read = Video(files=str(tmp_path), crop="top_left", order=order).open(ROOM, 4, 1)
        for display in range(1, 6):
            for slice_ in range(4):
                read(slice_, display)
        return len(opened), "".join(read.notes)

    assert opened_by("movie", decoders.Decoders(2)) == (4, "")
    assert opened_by("by_movie", decoders.Decoders(2)) == (4, "")
    count, note = opened_by("movie", decoders.Decoders(2, most_bytes=1))
    assert count == 20
    assert "slices follow films at 4 places, and a process keeps 2 decoders" in note
    monkeypatch.setattr(decoders, "_open_files", lambda: 3)
    assert "keeps 3 decoders" in opened_by("movie", decoders.Decoders(2))[1]


def test_half_of_the_open_files_may_be_films_and_no_limit_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, expected in ((1024, 512), (resource.RLIM_INFINITY, sys.maxsize)):
        monkeypatch.setattr(resource, "getrlimit", lambda which, soft=soft: (soft, soft))
        assert decoders._open_files() == expected


def test_room_for_decoders_is_given_back_with_the_reader(tmp_path: Path) -> None:
    film(tmp_path / "a.mkv", "ffv1")
    one, pool, reader = decoders.Film(str(tmp_path / "a.mkv")), decoders.Decoders(1), decoders.Decoders()
    pool.expect(reader, 3, [one])
    for number in (30, 20, 10):
        pool.frame(one, number)
    assert pool.waiting == 3
    del reader
    for number in (31, 21, 11):
        pool.frame(one, number)
    assert pool.waiting == 1


class Dimmed(Video):
    """A plug-in that changes what a built-in source reads."""

    type: Literal["test_dimmed_video"] = "test_dimmed_video"  # type: ignore[assignment]

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Any:
        read = super().open(shape, batch, seed)
        return lambda number, item: 0.5 * read(number, item)


@pytest.mark.parametrize("kind", [Video, Dimmed])
def test_places_in_films_are_counted_once_also_behind_a_plug_in(
    kind: type[Video], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        film(tmp_path / f"{number}.mkv", "ffv1", number)
    layers = {"image": Input(shape=ROOM, source=kind(files=str(tmp_path), crop="top_left", order="movie"))}
    graph = build(Network(run=Run(displays=1, display=1, batch=3), layers=layers))
    for room, note in ((2, "slices follow films at 3 places, and a process keeps 2 decoders"), (3, "")):
        monkeypatch.setattr(video, "DECODERS", decoders.Decoders(room, most_bytes=1))
        reader = ImageReader(graph, "image", BlockingIO())
        assert "".join(reader.stream.notes).partition(":")[0] == note


def test_check_and_a_run_tell_once_that_there_is_no_room_for_the_decoders_of_all_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2):
        film(tmp_path / f"{number}.mkv", "ffv1", number)
    layer = f'type = "input"\nshape = {list(ROOM)}\nsource = {{ type = "video", files = "{tmp_path}" }}\n'
    (tmp_path / "a.toml").write_text(
        f"run = {{ displays = 1, display = 1, batch = 2 }}\n[layers.left]\n{layer}[layers.right]\n{layer}"
    )
    apart = ["run.seed={slices=[1, 2]}"]  # then each slice has a reader of its own
    for room, more, count in ((2, [], 1), (3, apart, 1), (4, [], 0), (4, apart, 0)):
        monkeypatch.setattr(video, "DECODERS", decoders.Decoders(room, most_bytes=1))
        loaded = params.read(tmp_path / "a.toml", more)
        caplog.clear()
        first_state(loaded, plan(loaded))
        said = f"layers.left, layers.right: slices follow films at 4 places, and a process keeps {room}"
        told = [said] * count
        assert [record.message.partition(" decoders")[0] for record in caplog.records] == told
        caplog.clear()
        petabatch.run(loaded, tmp_path / "run", force=True, mpi=False)
        found = [r.message.partition(" decoders")[0] for r in caplog.records if r.levelname == "WARNING"]
        assert found == told


def test_a_damaged_film_is_replaced_by_the_next_good_one_from_its_first_frame(tmp_path: Path) -> None:
    frames = {name: film(tmp_path / f"{name}.mkv", "ffv1", index) for index, name in enumerate("bd")}
    (tmp_path / "a.mkv").write_bytes((tmp_path / "b.mkv").read_bytes()[:-5000])
    (tmp_path / "c.mkv").touch()
    (tmp_path / "e.mkv").write_text("no video")
    source = Video(files=str(tmp_path), crop="top_left")
    with pytest.raises(InputError) as raised:
        source.open(ROOM, 5, 1)
    problems = [line for line in str(raised.value).splitlines() if not line.startswith(" ")]
    bad = [name for name in "ace" if any(f"{name}.mkv" in line for line in problems)]
    assert bad[-2:] == ["c", "e"]  # all of them at once; FFmpeg may read a part of the truncated one
    read = source.model_copy(update={"on_bad_item": "skip"}).open(ROOM, 5, 1)
    for b, name in ((1, "b"), (2, "d"), (3, "d"), (4, "a" if "a" not in bad else "b")):
        if name == "a":
            continue
        for display in (0, 1, 7):
            assert np.array_equal(read(b, display), show(frames[name][display]))
            assert read.shown(b, display)[:2] == ("abcde".index(name), display)


def test_frames_of_variable_duration_are_counted_one_by_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        stream = container.add_stream("ffv1", rate=1000)
        stream.height, stream.width, stream.pix_fmt = 15, 23, "bgr0"  # odd sizes
        written = rng.integers(0, 255, (6, 15, 23, 3)).astype(np.uint8)
        for pixels, time in zip(written, (0, 3, 4, 50, 51, 400), strict=True):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = time
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    read = Video(files=str(tmp_path), crop="top_left").open((15, 23, 3), 1, 1)
    for number in (0, 3, 1, 5, 4, 2):
        assert np.array_equal(read(0, number), show(written[number]))


OPEN_GOP = {"g": "10", "bf": "3", "x264-params": "open-gop=1:scenecut=0:b-adapt=0"}
"""Three of four frames refer to later ones."""


@pytest.mark.parametrize(("name", "codec", "options"), [
    ("a.mp4", "libx264", OPEN_GOP),
    ("a.avi", "libx264", OPEN_GOP),  # has no times of presentation
    ("a.avi", "mpeg4", {"g": "10", "bf": "2"}),
    ("a.h264", "libx264", OPEN_GOP),  # has no times at all
    ("a.mpg", "mpeg2video", {"g": "10", "bf": "2"}),
])  # fmt: skip
def test_pixels_do_not_depend_on_where_decoding_began(
    tmp_path: Path, name: str, codec: str, options: dict[str, str]
) -> None:
    if codec not in av.codec.codecs_available:
        pytest.skip(f"PyAV was built without {codec}")
    rng = np.random.default_rng(0)
    scene = rng.integers(0, 255, (48, 200, 3)).astype(np.uint8)
    with av.open(str(tmp_path / name), "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        for index in range(45):
            frame = av.VideoFrame.from_ndarray(
                np.ascontiguousarray(scene[:, index : index + 64]), format="rgb24"
            )
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with av.open(str(tmp_path / name)) as container:
        played = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    one = decoders.Film(str(tmp_path / name))
    assert len(one.times) == len(played) == 45
    forward = decoders.Decoders()
    straight = [forward.frame(one, number) for number in range(45)]
    assert all(map(np.array_equal, straight, played))
    for number in (44, 31, 30, 29, 28, 12, 11, 10, 9, 8, 20, 19, 1, 0):
        assert np.array_equal(decoders.Decoders().frame(one, number), straight[number]), number


def test_frames_that_an_edit_list_leaves_out_are_not_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt = 16, 24, "yuv420p"
        for index in range(12):
            frame = av.VideoFrame.from_ndarray(rng.integers(0, 255, ROOM).astype(np.uint8), format="rgb24")
            frame.pts = index - 4
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with av.open(str(tmp_path / "a.mp4")) as container:
        played = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    one = decoders.Film(str(tmp_path / "a.mp4"))
    assert len(one.times) == len(played) == 8
    for number in (0, 1, 2, 7, 5, 0):
        assert np.array_equal(decoders.Decoders().frame(one, number), played[number])


@pytest.mark.parametrize(("matrix", "turns"), [
    ((1, 0, 0, 1), 0), ((0, 1, -1, 0), -1), ((-1, 0, 0, -1), 2), ((0, -1, 1, 0), 1),
])  # fmt: skip
def test_films_of_a_camera_that_was_turned_are_shown_upright(
    tmp_path: Path, matrix: tuple[int, ...], turns: int
) -> None:
    frames = film(tmp_path / "a.mp4", "mpeg4", pixels="yuv420p")
    content = bytearray((tmp_path / "a.mp4").read_bytes())
    a, b, c, d = (65536 * one for one in matrix)
    struct.pack_into(">9i", content, content.index(b"tkhd") + 44, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    (tmp_path / "a.mp4").write_bytes(content)
    shape = (24, 16, 3) if turns % 2 else ROOM
    read = Video(files=str(tmp_path / "a.mp4"), crop="top_left").open(shape, 1, 1)
    for number in (0, 31, 5):
        assert np.array_equal(read(0, number), show(np.rot90(frames[number], turns)))


def test_a_film_is_opened_without_decoding_more_than_its_first_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film(tmp_path / "a.mp4", "mpeg4", pixels="yuv420p")
    decode, decoded = av.container.InputContainer.decode, []

    class Counting:
        def __init__(self, container: Any) -> None:
            self._container = container

        def __enter__(self) -> Counting:
            return self

        def __exit__(self, *error: object) -> None:
            self._container.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._container, name)

        def decode(self, stream: Any) -> Iterator[Any]:
            for frame in decode(self._container, stream):
                decoded.append(frame.pts)
                yield frame

    opened = av.open
    monkeypatch.setattr(av, "open", lambda path: Counting(opened(path)))
    assert len(decoders.Film(str(tmp_path / "a.mp4")).times) > 1
    assert len(decoded) == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("shape", [(5, 16, 24), (5, 16, 24, 3), (5, 16, 24, 4)])
def test_tiff_files_of_several_frames_are_films(tmp_path: Path, dtype: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    largest = 1 if dtype is np.float32 else np.iinfo(dtype).max
    frames = (rng.random(shape) * largest).astype(dtype)
    colours = {} if len(shape) == 3 else {"photometric": "rgb"}
    tifffile.imwrite(tmp_path / "a.tif", frames, **colours)
    tifffile.imwrite(tmp_path / "b.TIFF", frames[:2], compression="zlib", **colours)
    source = Video(files=str(tmp_path), order={"type": "movie"})
    channels = 1 if len(shape) == 3 else 3
    read = source.open((16, 24, channels), 2, 1)
    expected = frames.reshape(*frames.shape[:3], -1)[..., :channels] / largest
    for item in range(5):
        np.testing.assert_allclose(read(0, item), expected[item], rtol=1e-6)
    np.testing.assert_allclose(read(1, 1), expected[1], rtol=1e-6)


def test_tiff_files_that_are_no_films_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(b"II*\0nothing")
    with pytest.raises(InputError, match=f"{path}: this file cannot be read"):
        Video(files=str(path)).open((16, 24, 1), 1, 1)
    with tifffile.TiffWriter(path) as file:
        for rows in (16, 12):
            file.write(np.zeros((rows, 24), np.uint8))
    read = Video(files=str(path)).open((16, 24, 1), 1, 1)
    with pytest.raises(InputError, match="the frames of this file differ in size"):
        read(0, 1)
