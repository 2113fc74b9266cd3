"""A context that several threads are in together."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np  # noqa: F401  (whose BLAS is limited)
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from petabatch.threads import ONE_BLAS_THREAD, SharedContext, thread_pools


def test_the_first_enters_it_and_the_last_leaves_it_in_any_order() -> None:
    events: list[str] = []

    @contextmanager
    def noted(name: str) -> Iterator[None]:
        events.append(f"{name} enters")
        yield
        events.append("left")

    shared = SharedContext(noted)
    first, second = shared("first"), shared("second")
    first.__enter__()
    second.__enter__()
    assert shared.inside == 2
    first.__exit__(None, None, None)
    assert events == ["first enters"]
    second.__exit__(None, None, None)
    assert events == ["first enters", "left"]
    with pytest.raises(ValueError, match="inside"), shared("third"):
        raise ValueError("inside")
    assert events[2:] == ["third enters", "left"]
    assert not shared.inside


def test_thread_pools_are_looked_for_again_once_modules_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    before = thread_pools()
    assert thread_pools() is before
    monkeypatch.setitem(sys.modules, "a_library", ModuleType("a_library"))
    assert thread_pools() is not before


def test_blas_has_one_thread_as_long_as_any_run_goes_on() -> None:
    def blas() -> set[int]:
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    with threadpool_limits(2):
        before = blas()
        one, other = (ONE_BLAS_THREAD(ThreadpoolController()) for _ in range(2))
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert blas() == {1}
        other.__exit__(None, None, None)
        assert blas() == before == {2}
