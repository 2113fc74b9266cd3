"""Codes of images as a function of torch, with gradients by images, dictionary and threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from petabatch.coding import encode
from petabatch.threads import ONE_BLAS_THREAD, thread_pools
from petabatch.torch.active_set import ActiveSet, Places, SingularError

_NEARER, _LONGER = 1e-3, 10
"""Factors on the gap and the steps of a code whose active set is singular, when it is computed again.

With 24 random atoms of 4 x 4 pixels at every second position, penalty 0.05 and a gap of 0.01, active sets of
11 of 12 triples of images were singular without it (2026-11).
"""


class SparseCode(torch.autograd.Function):  # type: ignore[misc]  # torch may be missing
    """The function behind `sparse_code`, whose other arguments are its `options`."""

    @staticmethod
    def forward(
        ctx: Any,
        images: torch.Tensor,
        dictionary: torch.Tensor,
        threshold: torch.Tensor | float,
        options: Mapping[str, Any],
    ) -> torch.Tensor:
        """Return the codes of images; see `sparse_code`."""
        pixels, atoms = (one.detach().cpu().double().numpy() for one in (images, dictionary))
        penalty = float(threshold)
        given = {"axes": "oihw", "channels": "first", "quiet": True, **options}
        codes = encode(pixels.astype(np.float32), atoms, penalty, **given)
        # A copy, of which all images have views: tensors may change before the gradients are asked for.
        patches, shown = np.array(np.moveaxis(atoms, 1, -1), order="C"), np.moveaxis(pixels, 1, -1)
        places = Places(shown.shape[1:], patches.shape[1:], options["stride"])
        found = np.zeros((len(shown), places.units[0] * places.units[1], len(atoms)))
        ctx.places, ctx.features = places, len(atoms)
        ctx.sets = [ActiveSet(image, patches, places, penalty) for image in shown]

        def find(number: int, near: Any) -> None:
            start = np.moveaxis(np.asarray(near), 0, -1).reshape(found[number].shape)
            with ONE_BLAS_THREAD(thread_pools()):
                ctx.sets[number].find(start.astype(float), options["signed"])

        for number, near in enumerate(codes):
            try:
                find(number, near)
            except SingularError:
                # A code that is not near has atoms that the minimum has not, which may depend on each other.
                nearer = {"gap": _NEARER * options["gap"], "steps": _LONGER * options["steps"]}
                find(number, encode(pixels[[number]].astype(np.float32), atoms, penalty, **given | nearer)[0])
            found[number][ctx.sets[number].at, ctx.sets[number].feature] = ctx.sets[number].code
        tensors = images, dictionary, threshold
        ctx.kinds = [_kind(one) if isinstance(one, torch.Tensor) else None for one in tensors]
        return _first(found.reshape(len(found), *places.units, -1), ctx.kinds[0])

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, by_code: torch.Tensor) -> Any:
        """Return the gradients by images, dictionary and threshold."""
        given = np.moveaxis(by_code.detach().cpu().double().numpy(), 1, -1)
        by_image, by_threshold = np.zeros((len(given), *ctx.places.shape)), 0.0
        by_atoms = np.zeros((ctx.features, *ctx.places.patch))
        for number, (active, own) in enumerate(zip(ctx.sets, given, strict=True)):
            by_image[number], atoms, change = active.gradients(own.reshape(-1, own.shape[-1]))
            by_atoms += atoms.reshape(by_atoms.shape)
            by_threshold += change
        images, dictionary, threshold = ctx.kinds
        scalar = None if threshold is None else torch.full(threshold[0], by_threshold, **threshold[1])
        return _first(by_image, images), _first(by_atoms, dictionary), scalar, None


def sparse_code(
    images: torch.Tensor,
    dictionary: torch.Tensor,
    threshold: torch.Tensor | float,
    *,
    stride: int,
    signed: bool = False,
    gap: float = 1e-3,
    steps: int = 1000,
    threads: int | None = None,
) -> torch.Tensor:
    """Return the codes A that minimise 0.5 |image - dictionary A|^2 + threshold |A|_1, differentiable.

    Codes are computed by `petabatch.encode` to a duality gap, and made exact in float64 on their active set,
    on which they are differentiated. Memory does not grow with steps.

    Parameters
    ----------
    images
        `[n, channels, ny, nx]`.
    dictionary
        `[features, channels, rows, columns]`, as the weights of a convolution.
    threshold
        The sparsity penalty, a number or a tensor of one.
    stride, signed, gap, steps, threads
        As for `petabatch.encode`.

    Returns
    -------
    torch.Tensor
        `[n, features, ny / stride, nx / stride]`, of the type and on the device of the images.

    Raises
    ------
    SingularError
        If atoms that describe an image depend on each other.
    InputError, ArgumentError
        As for `petabatch.encode`.
    """
    options = {"stride": stride, "signed": signed, "gap": gap, "steps": steps, "threads": threads}
    found: torch.Tensor = SparseCode.apply(images, dictionary, threshold, options)
    return found


def _kind(tensor: torch.Tensor) -> tuple[Any, dict[str, Any]]:
    """Return the shape of a tensor, and its type and device."""
    return tensor.shape, {"dtype": tensor.dtype, "device": tensor.device}


def _first(array: np.ndarray, kind: tuple[Any, dict[str, Any]]) -> torch.Tensor:
    """Return an array `[n, y, x, channels]` as a tensor, channels first, of a type and on a device."""
    return torch.as_tensor(np.ascontiguousarray(np.moveaxis(array, -1, 1)), **kind[1])
