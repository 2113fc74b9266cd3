"""The link of a rank to the others: the latency of a message, and bytes per second each way."""

from __future__ import annotations

import re
from dataclasses import dataclass

from petabatch.errors import ArgumentError, did_you_mean

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3}
_BYTES = {"kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8}
_NUMBER = r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*"
_FORM = re.compile(f"{_NUMBER}({'|'.join(_SECONDS)})\\s*,\\s*{_NUMBER}({'|'.join(_BYTES)})", re.IGNORECASE)


@dataclass(frozen=True)
class Link:
    """What a message of n bytes takes: `latency` + n / `bandwidth` seconds."""

    latency: float
    """Seconds from the start of a message to the arrival of its first byte."""
    bandwidth: float
    """Usable bytes per second, each way at the same time."""

    def __str__(self) -> str:
        """Return it in the form that `link` reads."""
        return f"{self.latency * 1e6:g}us,{self.bandwidth / 1e6:g}MB/s"


NAMED = {
    "1GbE": Link(50e-6, 117e6),
    "10GbE": Link(30e-6, 1.17e9),
    "NDR": Link(2.5e-6, 46e9),
}
"""Usual values: TCP over Ethernet, and InfiniBand NDR 400. The bandwidth is what is left of the line rate."""


def link(text: str) -> Link:
    """Return the link that is called so, or is given as latency and bandwidth, such as `25us,117MB/s`.

    Raises ArgumentError.
    """
    named = {name.lower(): one for name, one in NAMED.items()}
    if text.strip().lower() in named:
        return named[text.strip().lower()]
    match = _FORM.fullmatch(text.strip())
    if match is not None:
        seconds = {unit.lower(): value for unit, value in _SECONDS.items()}[match[2].lower()]
        rate = {unit.lower(): value for unit, value in _BYTES.items()}[match[4].lower()]
        found = Link(float(match[1]) * seconds, float(match[3]) * rate)
        if found.bandwidth > 0:
            return found
    raise ArgumentError(
        "--network",
        "this is not a network",
        text,
        f"{', '.join(NAMED)}, or latency and bandwidth with units, such as 25us,117MB/s",
        "" if "," in text else did_you_mean(text, NAMED),
    )
