"""Atoms in their places in an image, against loops over pixels."""

from __future__ import annotations

import numpy as np

from petabatch.kernels.cpu.placed import add_placed, correlate_placed, gram_placed, solve_factored


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


def test_products_of_atoms_are_those_within_the_image() -> None:
    rng = np.random.default_rng(1)
    rows, columns, channels, shape = 3, 2, 2, (8, 7, 2)
    atoms = rng.standard_normal((4, rows * columns * channels))
    y, x, feature = np.array([0, 1, 2, 5, 4]), np.array([1, 0, 2, 5, 4]), np.array([3, 0, 3, 1, 2])
    found, inside = np.empty((5, 5)), np.zeros(shape)
    inside[1:7, 1:6] = 1
    gram_placed(y, x, feature, atoms, (rows, columns, channels), (1, 7, 1, 6), found)
    placed = np.zeros((5, *shape))
    for n in range(5):
        placed[n, y[n] : y[n] + rows, x[n] : x[n] + columns] = atoms[feature[n]].reshape(3, 2, 2)
    flat = (placed * inside).reshape(5, -1)
    np.testing.assert_allclose(found, flat @ flat.T, atol=1e-12)
    lower, b = np.linalg.cholesky(flat @ flat.T + np.eye(5)), rng.standard_normal(5)
    solve_factored(lower, solution := b.copy())
    np.testing.assert_allclose(solution, np.linalg.solve(flat @ flat.T + np.eye(5), b))
