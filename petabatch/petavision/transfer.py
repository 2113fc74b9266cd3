"""PetaVision's transfer functions: thresholds and polylines."""

from __future__ import annotations

import math

from petabatch.layers.pointwise import Rectified
from petabatch.layers.thresholded import Thresholded
from petabatch.petavision.draft import Table
from petabatch.petavision.part import Part

LOWEST = -3.4028234663852886e38
"""What PetaVision takes -infinity for."""


def curve(part: Part, plain: str) -> Table | None:
    """Return the keys of a transfer function, None for the identity.

    `plain` is the transfer function that need not be named. Source: PetaVision's
    `ANNActivityBuffer.cpp:135-279, 432-556`.
    """
    high, shift, width = part.number("AMax"), part.finite("AShift"), part.number("VWidth")
    low, minimum = part.number("VThresh"), part.optional_number("AMin")
    if part.given("verticesV") or part.given("verticesA"):
        return _polyline(part)
    if low == -math.inf:
        for key in ("AMin", "AShift", "VWidth"):
            if part.group.entries.get(key) is not None and part.number(key) not in (0, -math.inf):
                part.idle(key, "no effect without VThresh, as in PetaVision")
        return None if high == math.inf else {"vertices": [[high, high]], "slopes": [1.0, 0.0]}
    if low == math.inf:
        part.refuse("VThresh", "the threshold is infinite", expected="a number, or -infinity for none")
    minimum = low if minimum is None else minimum
    if minimum == math.inf or width == -math.inf:
        part.refuse("AMin" if width > 0 else "VWidth", "the activity below the threshold is infinite")
    if minimum == -math.inf:
        part.differs(f"below the threshold it is {LOWEST:g}, the least number of single precision")
        minimum = LOWEST
    if width == math.inf:  # the line from AMin rises by 1 for each V: 1 + (VThresh - AShift - AMin) / VWidth
        shift, width = low - minimum, 0.0
    if width < 0:
        low, width = low + width, -width
    if low < 0 and part.keyword in ("HyPerLCALayer", "MomentumLCALayer", "ISTALayer"):
        return _corners(low, width, shift, minimum, high)
    found: Table = {}
    transfer = "firm" if width else "soft" if shift == low else "hard"
    if low != (0.0 if plain == "hard" else 0.5):
        found["threshold"] = low
    if transfer != plain and not (plain == "hard" and low == shift == 0 and not width):
        found["transfer"] = transfer
    if width:
        found["width"] = width
    if transfer != "soft" and shift:
        found["shift"] = shift
    if minimum:
        found["minimum"] = minimum
    if high != math.inf:
        found["maximum"] = high
    return found


def _polyline(part: Part) -> Table:
    v, a = part.numbers("verticesV"), part.numbers("verticesA")
    if len(v) != len(a) or not v:
        part.refuse("verticesV", "verticesV and verticesA differ in length", f"{len(v)} and {len(a)}")
    slopes = [part.finite("slopeNegInf"), part.finite("slopePosInf")]
    if any(map(math.isinf, (*v, *a))):
        part.refuse("verticesV", "a vertex is infinite")
    part.read |= {"VThresh", "AMin", "AMax", "AShift", "VWidth"}
    found: Table = {"vertices": [list(pair) for pair in zip(v, a, strict=True)]}
    return found if slopes == [0.0, 1.0] else found | {"slopes": slopes}


def _corners(low: float, width: float, shift: float, minimum: float, high: float) -> Table:
    """Return a transfer function with a negative threshold as a polyline."""
    corners = [[low, minimum], [low + width, low + width - shift]]
    if high == math.inf:
        return {"vertices": corners}
    return {"vertices": [*corners, [high + shift, high]], "slopes": [0.0, 0.0]}


def transfer(keys: Table | None, v: float) -> float:
    """Return the activity that a transfer function makes of a potential."""
    if keys is None:
        return v
    own = {key: keys[key] for key in Thresholded.__annotations__ if key in keys}
    return Rectified(shape=(1, 1, 1), **own).activity_at(v)
