"""Arrays of other libraries, which scikit-learn passes on with `array_api_dispatch` in its configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import get_config

from petabatch.arrays import as_numpy, library, like


def taken(given: Any) -> Any:
    """Return samples or codes for the checks of scikit-learn, those of other libraries as numpy's."""
    return as_numpy("X", given) if _passed_on(given) else given


def returned(given: Any) -> Callable[[np.ndarray], Any]:
    """Return a function that makes of numpy's arrays those of the library and device of what was given."""
    return like(given) if _passed_on(given) else lambda array: array


def require_same(given: Any, fitted: Any, method: str) -> None:
    """Raise ValueError unless what is given to a method is of the library and device of what was fitted."""
    if not get_config()["array_api_dispatch"]:
        return
    spaces = [library(one) for one in (given, fitted)]
    if spaces[0] is not spaces[1] or (spaces[0] is not None and given.device != fitted.device):
        raise ValueError(
            f"Inputs passed to {method}() must use the same namespace and the same device as those "
            "passed to fit()"
        )


def _passed_on(given: Any) -> bool:
    return bool(get_config()["array_api_dispatch"]) and library(given) is not None
