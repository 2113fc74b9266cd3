"""`petabatch bench --ranks`: the arguments, the calibration and the forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from petabatch.bench.prediction.calibrate import calibrate
from petabatch.bench.prediction.calibration import load
from petabatch.bench.prediction.forecast import Forecast, forecast
from petabatch.bench.prediction.link import link
from petabatch.bench.prediction.report import as_json, show
from petabatch.errors import MISSING, ArgumentError
from petabatch.spec.network import Network


def run(
    network: Network,
    title: str,
    ranks: str | None,
    over: str | None,
    kept: Path | None,
    threads: int | None,
    steps: int | None,
    picture: Path | None,
    console: Console,
) -> dict[str, Any]:
    """Print a forecast, and draw it; return it ready for JSON."""
    for option, value in (("--ranks", ranks), ("--network", over)):
        if value is None:
            raise ArgumentError(
                option, "a prediction needs it", MISSING, "e.g. --ranks 1,8,64 --network 10GbE"
            )
    assert ranks is not None
    assert over is not None
    if picture is not None:
        from petabatch.plotting.files import check_format

        check_format(picture)
    found = predict(network, title, ranks, over, kept, threads, steps)
    show(found, console)
    if picture is not None:
        from petabatch.bench.prediction.figure import draw_forecast
        from petabatch.plotting.files import finish

        finish(draw_forecast(found), picture)
    return as_json(found)


def predict(
    network: Network,
    title: str,
    ranks: str,
    over: str,
    kept: Path | None = None,
    threads: int | None = None,
    steps: int | None = None,
) -> Forecast:
    """Predict a network on `ranks`, such as `1,8,64`, `over` a link.

    The calibration is read from `kept` if there is such a file, else measured and written there.
    Raises ArgumentError, ParamsError when the network is invalid, InputError if the file is no calibration.
    """
    numbers, found = rank_numbers(ranks), link(over)
    if network.run.device == "gpu":
        raise ArgumentError(
            "--ranks", "ranks with GPUs are not predicted", "run.device = gpu", "run.device = cpu",
            "-s run.device=cpu; see docs/scaling.md",
        )  # fmt: skip
    if kept is not None and kept.exists():
        calibration = load(kept, network, threads)
    else:
        calibration = calibrate(network, title, threads or 1, steps)
        if kept is not None:
            calibration.save(kept)
    return forecast(network, title, calibration, found, numbers)


def rank_numbers(text: str) -> list[int]:
    """Return numbers of ranks in ascending order; raises ArgumentError."""
    try:
        found = {int(one) for one in text.split(",")}
    except ValueError:
        found = set()
    if not found or min(found) < 1:
        raise ArgumentError(
            "--ranks", "these are not numbers of ranks", text, "whole numbers from 1 on, such as 1,8,64"
        )
    return sorted(found)
