"""An array module like CuPy: its arrays refuse to be mixed with numpy arrays before a transfer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

_CARRIES = ("asarray", "array")
"""What takes arrays of the host."""
_UNCAPTURED = ("sliding_window_view", "matmul", "dot", "tensordot", "einsum", "nonzero", "flatnonzero")
"""What CuPy refuses while its stream is captured: it copies numbers, waits, or calls cuBLAS."""
_HERE = threading.local()
UNORDERED = "CuPy adds these up by atomic operations, so that the sum depends on timing"


@contextmanager
def capturing() -> Iterator[None]:
    """Refuse, on this thread, what cannot be part of a CUDA graph."""
    before, _HERE.capturing = getattr(_HERE, "capturing", False), True
    try:
        yield
    finally:
        _HERE.capturing = before


def _uncaptured(what: str) -> None:
    if getattr(_HERE, "capturing", False):
        raise RuntimeError(f"{what}: the current stream is captured")


class Far(np.ndarray):
    """An array on a device that does not exist."""

    def __bool__(self) -> bool:
        _uncaptured("a number is read")
        return bool(self.view(np.ndarray))

    def __float__(self) -> float:
        _uncaptured("a number is read")
        return float(self.view(np.ndarray))

    def __int__(self) -> int:
        _uncaptured("a number is read")
        return int(self.view(np.ndarray))

    def get(
        self, stream: Any = None, order: str = "C", out: np.ndarray | None = None, blocking: bool = True
    ) -> np.ndarray:
        _uncaptured("an array is copied to the host")
        if out is None:
            return np.array(self.view(np.ndarray))
        assert (out.shape, out.dtype) == (self.shape, self.dtype)
        assert out.flags.c_contiguous
        assert type(out) is np.ndarray
        source = self.view(np.ndarray)
        if blocking:
            out[...] = source
        else:
            stream.later(lambda: np.copyto(out, source))
        return out

    def set(self, array: np.ndarray) -> None:
        _uncaptured("an array is copied from the host")
        assert (array.shape, array.dtype, type(array)) == (self.shape, self.dtype, np.ndarray)
        self.view(np.ndarray)[...] = array

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)

    def __array_namespace__(self, **_: Any) -> Any:
        return far

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **keys: Any) -> Any:
        if method == "at":
            raise TypeError(UNORDERED)
        if ufunc is np.matmul:
            _uncaptured("matmul")
        keys = {**keys, **({"out": tuple(map(_near, out))} if out is not None else {})}
        result = getattr(ufunc, method)(*(_near(value) for value in inputs), **keys)
        return out[0] if out is not None else _far(result)

    def __array_function__(self, function: Any, types: Any, arguments: Any, keys: Any) -> Any:
        return _far(function(*map(_near, arguments), **{key: _near(value) for key, value in keys.items()}))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.view(np.ndarray)[_near(key)] = _near(value)

    def __getitem__(self, key: Any) -> Any:
        return _far(self.view(np.ndarray)[_near(key)])

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))


class _Module:
    """A module of numpy whose functions give `Far` arrays and take no others."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, ModuleType):
            return _Module(found)
        if isinstance(found, type) or not callable(found):
            return found
        return _strict(found, name in _CARRIES)


def _strict(function: Callable[..., Any], carries: bool) -> Callable[..., Any]:
    def call(*arguments: Any, **keys: Any) -> Any:
        if (carries and not isinstance(arguments[0], Far)) or function.__name__ in _UNCAPTURED:
            _uncaptured(function.__name__)
        if carries:
            return np.array(function(*arguments, **keys)).view(Far)
        out = keys.get("out")
        if function in (np.bincount, np.argsort) and not len(arguments[0]):
            raise ValueError(f"{function.__name__}: older versions of CuPy refuse an array of size 0")
        if function is np.bincount and (len(arguments) > 1 or "weights" in keys):
            raise TypeError(UNORDERED)
        result = function(*map(_near, arguments), **{key: _near(value) for key, value in keys.items()})
        return out if out is not None else _far(result)

    return call  # without the `at` of a ufunc, whose sums depend on timing on a GPU


def _near(value: Any) -> Any:
    """Return what numpy may work on; refuse an array of numpy's own."""
    if isinstance(value, Far):
        return value.view(np.ndarray)
    if isinstance(value, np.ndarray) and value.ndim > 0:
        raise TypeError("an array of the host is mixed with those of a GPU")
    if isinstance(value, (list, tuple)):
        return type(value)(map(_near, value))
    return value


def _far(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.view(Far)
    if isinstance(value, np.generic):  # a sum is an array there
        return np.asarray(value).view(Far)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_far, value))
    return value


far = _Module(np)
