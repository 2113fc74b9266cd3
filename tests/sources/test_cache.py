"""The cache of decoded images."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from petabatch.sources import Images, pictures
from petabatch.sources.cache import ImageCache


def test_the_bytes_of_images_are_counted_whatever_their_size_and_type() -> None:
    sizes = {"small": 10, "large": 60, "wide": 25}
    made: list[str] = []

    def decode(name: str) -> np.ndarray:
        made.append(name)
        return np.zeros(sizes[name], np.float32 if name == "wide" else np.uint8)

    cached = ImageCache(decode, 110)
    for name in ("small", "large", "small", "wide", "small"):  # small is used last when wide comes
        assert cached(name).size == sizes[name]
    assert made == ["small", "large", "wide"]
    assert cached("large").nbytes == 60
    assert made[3:] == ["large"]
    assert ImageCache(decode, 1)("large").nbytes == 60


def test_one_image_is_kept_even_if_it_is_too_large() -> None:
    made: list[int] = []
    cached = ImageCache(lambda key: (made.append(key), np.zeros(10))[1], 1)
    for key in (1, 1, 2, 2, 1):
        cached(key)
    assert made == [1, 2, 1]


def test_threads_get_the_images_they_ask_for() -> None:
    cached = ImageCache(lambda key: np.full(8, key, np.uint8), 20)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: int(cached(n % 7)[0]), range(2000)))
    assert found == [n % 7 for n in range(2000)]


def test_images_of_8_bits_fill_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    before = pictures._decode
    monkeypatch.setattr(pictures, "_decode", lambda path: (decoded.append(path), before(path))[1])
    monkeypatch.setattr(pictures, "ImageCache", lambda function: ImageCache(function, 4 * 30))
    for number in range(4):
        Image.fromarray(np.full((5, 6), number, np.uint8)).save(tmp_path / f"{number}.png")
    read = Images(files=str(tmp_path)).open((5, 6, 1), 1, 1)
    for display in range(12):
        assert read(0, display)[0, 0, 0] == np.float32(display % 4 / 255)
    assert len(decoded) == 4
