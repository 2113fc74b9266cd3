"""Codes in torch: gradients against finite differences, and where there are none."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from petabatch.torch import SingularError, active_set, sparse_code  # noqa: E402


def drawn(
    features: int, size: int, patch: int, channels: int = 2, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((2, channels, size, size))
    dictionary = rng.standard_normal((features, channels, patch, patch))
    dictionary /= np.sqrt(np.square(dictionary).sum((1, 2, 3), keepdims=True))
    return (torch.tensor(one, requires_grad=True) for one in (images, dictionary))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("size", "patch", "stride"), [(3, 3, 3), (4, 4, 2), (4, 3, 2)])
def test_gradients_are_those_of_finite_differences(size: int, patch: int, stride: int, signed: bool) -> None:
    images, dictionary = drawn(4, size, patch, channels=1)
    threshold = torch.tensor(0.3, dtype=torch.double, requires_grad=True)

    def code(*given: torch.Tensor) -> torch.Tensor:
        return sparse_code(*given, stride=stride, signed=signed, threads=1)

    found = code(images, dictionary, threshold)
    assert found.shape == (2, 4, size // stride, size // stride)
    assert 1 < torch.count_nonzero(found) < found.numel()
    assert torch.autograd.gradcheck(code, (images, dictionary, threshold), eps=1e-6, atol=1e-4)


def test_a_rough_code_whose_atoms_depend_on_each_other_is_computed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images, dictionary = drawn(24, 8, 4, channels=1, seed=2)
    found = sparse_code(images, dictionary, 0.05, stride=2, gap=1e-2)
    near = sparse_code(images, dictionary, 0.05, stride=2, gap=1e-5, steps=10_000)
    assert torch.allclose(found, near, atol=1e-8)
    monkeypatch.setattr("petabatch.torch.code._NEARER", 1.0)
    with pytest.raises(SingularError):
        sparse_code(images, dictionary, 0.05, stride=2, gap=1e-2)


def test_codes_are_minima_whatever_the_gap_was() -> None:
    images, dictionary = drawn(12, 8, 4, seed=3)
    rough = sparse_code(images, dictionary, 0.5, stride=2, gap=0.05)
    exact = sparse_code(images, dictionary, 0.5, stride=2, gap=1e-5)
    torch.testing.assert_close(rough, exact, atol=1e-10, rtol=0)
    assert sparse_code(images.float(), dictionary, 0.5, stride=2).dtype == torch.float32


def test_a_factor_and_conjugate_gradients_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    images, dictionary = drawn(12, 8, 4, seed=3)
    found = []
    for most in (1024, 0):
        monkeypatch.setattr(active_set, "_FACTORED", most)
        code = sparse_code(images, dictionary, 0.5, stride=2)
        found.append([code, *torch.autograd.grad(code.square().sum(), (images, dictionary))])
    torch.testing.assert_close(*found, atol=1e-7, rtol=0)


def test_codes_depend_on_no_order_of_axes_in_memory() -> None:
    images, dictionary = (one.detach() for one in drawn(4, 6, 4))
    code = sparse_code(images, dictionary, 0.3, stride=2)
    assert code.count_nonzero() > 0
    for order in ((0, 1, 3, 2), (0, 2, 3, 1), (3, 2, 1, 0)):
        back = sorted(range(4), key=order.__getitem__)
        one, other = (given.permute(order).contiguous().permute(back) for given in (images, dictionary))
        torch.testing.assert_close(sparse_code(one, other, 0.3, stride=2), code, atol=1e-12, rtol=0)


def test_gradients_are_those_of_the_tensors_that_were_coded() -> None:
    images, dictionary = drawn(4, 4, 4, channels=1)
    expected = torch.autograd.grad(sparse_code(images, dictionary, 0.3, stride=2).square().sum(), dictionary)
    code = sparse_code(images, dictionary, 0.3, stride=2)
    with torch.no_grad():  # as an optimiser
        images.mul_(2)
        dictionary.mul_(2)
    torch.testing.assert_close(torch.autograd.grad(code.square().sum(), dictionary), expected)


def test_atoms_that_depend_on_each_other_have_no_gradient() -> None:
    images, dictionary = (one.detach() for one in drawn(6, 6, 4, seed=1))
    dictionary[1] = dictionary[0]
    dictionary.requires_grad_()
    code = sparse_code(images, dictionary, torch.tensor(0.1), stride=2)
    assert ((code[:, 0] != 0) & (code[:, 1] != 0)).any()  # FISTA divides what equal atoms describe
    for loss in (code[:, 0].sum(), code.sum()):  # the sum is alike for both atoms
        with pytest.raises(SingularError, match="depend on each other: its code is not unique"):
            loss.backward(retain_graph=True)


def test_images_without_active_units_have_codes_and_gradients_of_zero() -> None:
    images, dictionary = drawn(6, 4, 4)
    code = sparse_code(images, dictionary, 100.0, stride=4)
    code.sum().backward()
    assert not code.any()
    assert not images.grad.any()
