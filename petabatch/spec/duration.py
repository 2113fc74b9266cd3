"""Durations of wall-clock time, such as `11h50m`, `90s` or `1d`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_FORM = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seconds(text: str) -> int:
    """Return the number of seconds in `text`, 0 if it is not a duration."""
    match = _FORM.fullmatch(text.replace(" ", ""))
    return (
        sum(int(n or 0) * unit for n, unit in zip(match.groups(), _SECONDS.values(), strict=True))
        if match
        else 0
    )


def _parse(value: Any) -> str:
    if isinstance(value, str) and seconds(value) > 0:
        return value
    raise PydanticCustomError(
        "duration",
        "this is not a duration",
        {"expected": 'days, hours, minutes and seconds, such as "11h50m"'},
    )


Duration = Annotated[str, PlainValidator(_parse), WithJsonSchema({"type": "string"})]
