"""Codes as sparse matrices."""

from __future__ import annotations

from typing import Any

from petabatch.arguments import whole_number
from petabatch.errors import NotRecorded, ResourceError
from petabatch.results.series import Series


def sparse_code(series: Series, time: int, slice: int, display: int | None, step: int | None) -> Any:
    """Return the code of a slice as a `scipy.sparse.csr_array` `[y * x, feature]`; see `Results.codes`."""
    try:
        from scipy.sparse import csr_array
    except ImportError as error:
        raise ResourceError(
            "sparse codes need scipy, which is not installed\n"
            "    hint:     pip install scipy; or read the dense code: "
            f'run["{series.name}"].at(display=..., slice=...)'
        ) from error

    index = series.index(display=display, step=step)
    if index is None:
        index = whole_number("time", time)
        if not -len(series) <= index < len(series):
            raise NotRecorded(f"{series.name}: time {time} of {len(series)} records")
    values = series.at(step=int(series.steps[index]), slice=slice)
    return csr_array(values.reshape(-1, values.shape[-1]))
