"""What random networks have drawn together, as a table of kinds of words, and what they have not, and why."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.random_networks.coverage import Coverage
from support.random_networks.pairs import WHERE, Pair, Where, possible

_KINDS = {
    "layer ": "layers", "Layer.": "keys of all layers", "Input.": "images", "source ": "images",
    "order ": "images", "ByMovie.": "images", "Movie.": "images", "Specified.": "images",
    "TransformedSource.": "images",
    "time-scale": "time scales", "TimeScale.": "time scales", "KneeTimeScale.": "time scales",
    "LogTimeScale.": "time scales", "connection ": "connections", "Connection.": "keys of all connections",
    "Clone.": "connections", "Largest.": "connections", "Pool.": "connections",
    "Sparse.": "sparse", "Conv.": "conv",
    "initialiser ": "conv", "Initial.": "conv",
    "normaliser ": "normalisers", "Normalize.": "normalisers", "Unitwise.": "normalisers",
    "Scaling.": "normalisers", "Sum.strength": "normalisers", "Max.": "normalisers", "L2Ball.": "normalisers",
    "ContrastZeroMean.": "normalisers", "learning ": "learning", "Learning.": "learning",
    "Averaging.": "learning", "RateDecay.": "learning", "Hebbian.": "learning", "Adam.": "learning",
    "Oja.": "learning", "Revive.": "learning", "probe ": "probes", "Probe.": "probes",
    "_LayerProbe.": "probes",
    "Cost.": "probes", "Energy.": "probes", "L0.": "probes", "Statistics.": "probes", "Sum.terms": "probes",
    "Quotient.": "probes", "Optimality.": "probes", "LayerOutput": "output", "ConnectionOutput": "output",
    "Output.": "output", "Run.": "run", "Until.": "run", "Sweep.": "values that vary",
    "Range.": "values that vary", "sweep": "values that vary", "slices": "values that vary",
    "over_time": "values that vary", "OverTime.": "values that vary",
}  # fmt: skip
"""Kinds by the beginnings of words; other words are keys of layers."""


def kind(word: str) -> str:
    """Return the kind of a word."""
    return next((name for start, name in _KINDS.items() if word.startswith(start)), "keys of layers")


def totals(coverage: Coverage) -> Iterator[str]:
    """Yield how many pairs have been drawn under each stepper, of those that there are."""
    yield f"{'':14}" + "".join(f"{where:>20}" for where in WHERE)
    for stepper, drawn in coverage.drawn.items():
        cells = [f"{len(drawn[where])}/{len(possible()[where])}" for where in WHERE]
        yield f"{stepper:14}" + "".join(f"{cell:>20}" for cell in cells)


def table(drawn: Mapping[Where, set[Pair]], where: Where) -> Iterator[str]:
    """Yield the matrix of a stepper by kinds of words: pairs drawn, and those that there are."""
    there, done = Counter[Pair](), Counter[Pair]()
    for one in possible()[where]:
        a, b = sorted(map(kind, one))
        there[a, b] += 1
        done[a, b] += one in drawn[where]
    kinds = sorted({name for pair in there for name in pair})
    yield f"{'':24}" + "".join(f"{number + 1:>11}" for number in range(len(kinds)))
    for number, a in enumerate(kinds):
        cells = [f"{done[b, a]}/{there[b, a]}" if there[b, a] else "-" for b in kinds[: number + 1]]
        yield f"{number + 1:2} {a:21}" + "".join(f"{cell:>11}" for cell in cells)


def write(coverage: Coverage, file: Path) -> None:
    """Write all pairs with what is known of them under each stepper."""
    with file.open("w", newline="") as out:
        lines = csv.writer(out)
        lines.writerow(["where", "one", "other", *coverage.drawn])
        for where in WHERE:
            for one in sorted(possible()[where]):
                known = [one in drawn[where] for drawn in coverage.drawn.values()]
                why = "not under this stepper" if any(known) else coverage.reason(where, one)
                lines.writerow([where, *one, *("drawn" if found else why for found in known)])


def missing(coverage: Coverage) -> Iterator[str]:
    """Yield how many pairs no stepper has drawn, by reason."""
    for where in WHERE:
        left = possible()[where] - set[Pair]().union(*(drawn[where] for drawn in coverage.drawn.values()))
        reasons = Counter(coverage.reason(where, one).partition(":")[0].partition(" in ")[0] for one in left)
        yield f"{where}: {len(left)} of {len(possible()[where])} pairs left: {dict(reasons.most_common())}"
