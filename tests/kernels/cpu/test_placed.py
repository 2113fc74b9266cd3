"""Atoms in their places in an image, against loops over pixels."""

from __future__ import annotations

import numpy as np

from petabatch.kernels.cpu.placed import add_placed, correlate_placed


def test_atoms_are_added_and_correlated_in_their_places() -> None:
    rng = np.random.default_rng(0)
    rows, columns, channels, image = 3, 2, 2, rng.standard_normal((7, 6, 2))
    atoms, code = rng.standard_normal((4, rows * columns * channels)), rng.standard_normal(3)
    corners, feature = [(0, 0), (2, 3), (4, 4)], np.array([3, 0, 3])
    pitch = image[0].size
    start = np.array([y * pitch + x * channels for y, x in corners])
    added, found = np.zeros(image.size), np.empty(3)
    add_placed(code, start, feature, atoms, columns * channels, pitch, added)
    sums = np.empty(columns * channels)
    correlate_placed(image.reshape(-1), start, feature, atoms, columns * channels, pitch, sums, found)
    expected, products = np.zeros(image.shape), []
    for (y, x), f, a in zip(corners, feature, code, strict=True):
        atom = atoms[f].reshape(rows, columns, channels)
        expected[y : y + rows, x : x + columns] += a * atom
        products.append((atom * image[y : y + rows, x : x + columns]).sum())
    np.testing.assert_allclose(added.reshape(image.shape), expected)
    np.testing.assert_allclose(found, products)
