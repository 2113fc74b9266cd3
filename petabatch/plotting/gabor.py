"""Least-squares fits of Gabor functions to patches, all at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LIKE = "R² > 0.8, σ > 0.8 pixels, 0.04–0.35 cycles/pixel, lobes of both signs"
"""What makes a patch Gabor-like."""
_LOBE = 0.05
"""Share of the squared fit that the weaker sign has at least; a blob has only one lobe."""
_COLOUR = 0.2
"""Share of the squared weights that is no luminance, from which on a feature is one of colour."""
_STEPS = 80
_SIGMAS = (0.12, 0.25)
"""Widths to start from, as fractions of the patch."""


class Gabors(NamedTuple):
    """Gabor functions fitted to patches; each array is `[patch]`.

    With u along the wave and v along its crests, in pixels from the centre,
    g = exp(-u² / 2 sigma_u² - v² / 2 sigma_v²) (a cos 2πfu + b sin 2πfu).
    """

    row: np.ndarray
    column: np.ndarray
    orientation: np.ndarray
    """Of the crests, in degrees from 0 to 180, counter-clockwise from horizontal."""
    frequency: np.ndarray
    """Cycles per pixel."""
    sigma_u: np.ndarray
    sigma_v: np.ndarray
    r2: np.ndarray
    """Explained fraction of the squared weights."""
    fitted: np.ndarray
    """`[patch, y, x]`."""

    @property
    def like(self) -> np.ndarray:
        """Which patches are like Gabor functions: a good fit, no single pixel, a band-pass of several lobes.

        R² > 0.8 alone does not separate learned features from those of images with shuffled pixels, since
        single pixels are fitted well, and so are blobs.
        """
        band = (self.frequency > 0.04) & (self.frequency < 0.35)
        return np.asarray(self._broad & band & (self._lobes >= _LOBE))

    @property
    def blob(self) -> np.ndarray:
        """Which patches are blobs: a good fit, no single pixel, and a single lobe."""
        return np.asarray(self._broad & (self._lobes < _LOBE))

    @property
    def _broad(self) -> np.ndarray:
        return np.asarray((self.r2 > 0.8) & (np.minimum(self.sigma_u, self.sigma_v) > 0.8))

    @property
    def _lobes(self) -> np.ndarray:
        """Share of the squared fit that the weaker sign has."""
        power = np.square(self.fitted)
        above = np.where(self.fitted > 0, power, 0).sum(axis=(1, 2))
        total = power.sum(axis=(1, 2))
        return np.asarray(np.minimum(above, total - above) / np.maximum(total, 1e-30))


class Mixed(NamedTuple):
    """Patches along a mix of their channels."""

    grey: np.ndarray
    """`[patch, y, x]`."""
    mixes: np.ndarray
    """The mixes, of norm 1, `[patch, channel]`: `grey * mix` is what a fit to `grey` explains."""
    coloured: np.ndarray
    """Which patches are of colour: luminance explains less than 80 % of their squared weights, `[patch]`."""


def mixed(patches: np.ndarray) -> Mixed:
    """Return patches `[patch, y, x, channel]` along their luminance, or the mix in which they vary most.

    The luminance is the mean of the channels. Features where it explains less than 80 % of the squared
    weights, such as opponent colours, are taken along the mix of channels that explains most of them.
    """
    count, height, width, channels = patches.shape
    flat = patches.reshape(count, height * width, channels)
    strongest = np.linalg.svd(flat, full_matrices=False)[2][:, 0]
    strongest = strongest * np.where(strongest.sum(axis=1, keepdims=True) < 0, -1, 1)
    luminance = np.full(channels, channels**-0.5)
    share = np.square(flat @ luminance).sum(axis=1) / np.maximum(np.square(flat).sum(axis=(1, 2)), 1e-30)
    coloured = (share < 1 - _COLOUR) & (channels % 3 == 0)
    mixes = np.where(coloured[:, None] | (channels % 3 != 0), strongest, luminance)
    grey = np.einsum("npc,nc->np", flat, mixes).reshape(count, height, width)
    return Mixed(np.asarray(grey), mixes, coloured)


def fit_gabors(patches: np.ndarray) -> Gabors:
    """Return the best fits to grey patches `[patch, y, x]`.

    The Levenberg–Marquardt method from several starts: two peaks of the spectrum, and two widths.
    """
    count, height, width = patches.shape
    scale = np.abs(patches).max(axis=(1, 2), keepdims=True)
    data = (patches / np.where(scale > 0, scale, 1)).reshape(count, -1)
    y, x = (each.ravel().astype(float) for each in np.mgrid[:height, :width])
    best: np.ndarray | None = None
    least = np.full(count, np.inf)
    for start in _starts(patches, data, y, x):
        found, error = _fit(data, start, y, x)
        best = found if best is None else np.where((error < least)[:, None], found, best)
        least = np.minimum(least, error)
    assert best is not None
    x0, y0, angle, frequency, log_u, log_v = best[:, :6].T
    energy = np.square(data).sum(axis=1)
    r2 = np.where(energy > 0, 1 - least / np.where(energy > 0, energy, 1), 0.0)
    fitted = _model(best, y, x)[0].reshape(count, height, width) * scale
    # Rows grow downwards, so that angles are mirrored; crests are at right angles to the wave.
    orientation = np.mod(90 - np.degrees(angle), 180)
    return Gabors(y0, x0, orientation, np.abs(frequency), np.exp(log_u), np.exp(log_v), r2, fitted)


def _starts(patches: np.ndarray, data: np.ndarray, y: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    """Return parameters to start from, each `[patch, 8]`: x0, y0, angle, f, log sigmas, a, b."""
    count, height, width = patches.shape
    power = np.square(data)
    total = np.maximum(power.sum(axis=1), 1e-30)
    x0, y0 = power @ x / total, power @ y / total
    side = 4 * max(height, width)
    spectrum = np.abs(np.fft.rfft2(patches, (side, side)))
    fy, fx = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    radius = np.hypot(fy, fx)
    starts = []
    for low, high in ((0.5 / max(height, width), 0.5), (0.0, 1.0 / max(height, width))):
        within = np.where((radius > low) & (radius <= high), spectrum, 0).reshape(count, -1)
        peak = within.argmax(axis=1)
        at_y, at_x = fy[peak // fx.shape[1], 0], fx[0, peak % fx.shape[1]]
        for fraction in _SIGMAS:
            width_ = np.full(count, np.log(max(0.8, fraction * max(height, width))))
            start = np.stack(
                [x0, y0, np.arctan2(at_y, at_x), np.hypot(at_y, at_x), width_, width_, x0 * 0, x0 * 0], axis=1
            )
            basis = _model(start, y, x)[1][:, :, 6:]
            start[:, 6:] = (np.linalg.pinv(basis) @ data[:, :, None])[:, :, 0]
            starts.append(start)
    return starts


def _fit(data: np.ndarray, start: np.ndarray, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return parameters and squared errors after some steps of Levenberg and Marquardt."""
    longest = max(y.max(), x.max()) + 1
    now, damping = start.copy(), np.full(len(start), 1e-2)
    model, slopes = _model(now, y, x)
    error = np.square(data - model).sum(axis=1)
    for _ in range(_STEPS):
        gradient = np.einsum("npk,np->nk", slopes, data - model)
        curvature = np.einsum("npk,npl->nkl", slopes, slopes)
        diagonal = np.einsum("nkk->nk", curvature)
        damped = curvature + (damping[:, None] * diagonal + 1e-9)[:, :, None] * np.eye(8)
        tried = now + np.linalg.solve(damped, gradient[:, :, None])[:, :, 0]
        tried[:, 3] = np.clip(tried[:, 3], 0, 0.5)
        tried[:, 4:6] = np.clip(tried[:, 4:6], np.log(0.3), np.log(2 * longest))
        tried[:, :2] = np.clip(tried[:, :2], -0.5 * longest, 1.5 * longest)
        new_model, new_slopes = _model(tried, y, x)
        new_error = np.square(data - new_model).sum(axis=1)
        better = new_error < error
        now = np.where(better[:, None], tried, now)
        model = np.where(better[:, None], new_model, model)
        slopes = np.where(better[:, None, None], new_slopes, slopes)
        error = np.where(better, new_error, error)
        damping = np.clip(np.where(better, damping / 3, damping * 4), 1e-9, 1e6)
    return now, error


def _model(parameters: np.ndarray, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the functions `[patch, pixel]` and their derivatives `[patch, pixel, parameter]`."""
    x0, y0, angle, f, log_u, log_v, a, b = (each[:, None] for each in parameters.T)
    cos, sin = np.cos(angle), np.sin(angle)
    u, v = (x - x0) * cos + (y - y0) * sin, -(x - x0) * sin + (y - y0) * cos
    in_u, in_v = u * u * np.exp(-2 * log_u), v * v * np.exp(-2 * log_v)
    envelope = np.exp(-0.5 * (in_u + in_v))
    wave = 2 * np.pi * f * u
    even, odd = envelope * np.cos(wave), envelope * np.sin(wave)
    model = a * even + b * odd
    turned = b * even - a * odd
    along_u = -u * np.exp(-2 * log_u) * model + 2 * np.pi * f * turned
    along_v = -v * np.exp(-2 * log_v) * model
    slopes = [
        -cos * along_u + sin * along_v,
        -sin * along_u - cos * along_v,
        v * along_u - u * along_v,
        2 * np.pi * u * turned,
        in_u * model,
        in_v * model,
        even,
        odd,
    ]
    return model, np.stack(slopes, axis=-1)
