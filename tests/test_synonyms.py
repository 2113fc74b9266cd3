"""Hints at what a term of other programs is called here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from petabatch.equations.functions import CALLED
from petabatch.errors import did_you_mean
from petabatch.probes import SpikeStatistics
from petabatch.results.spikes import Spikes
from petabatch.spec.parts import STEP
from petabatch.spec.schema import json_schema
from petabatch.synonyms import EXPLAINED, SYNONYMS


def _words(schema: Any) -> Iterator[str]:
    """Yield keys, types and choices of params files."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        yield from (str(one) for one in (*schema.get("enum", ()), schema.get("const", "")))
        for inner in schema.values():
            yield from _words(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _words(inner)


def test_whatever_is_meant_exists() -> None:
    words = {*_words(json_schema()), *dir(Spikes), *SpikeStatistics(layer="E", every=STEP).quantities()}
    words |= set(CALLED)
    meant = {one for ones in SYNONYMS.values() for one in ones}
    assert meant - words == set()
    assert {choice for instead in EXPLAINED.values() for choice in instead} - words == set()


@pytest.mark.parametrize(
    ("name", "choices", "hint"),
    [
        ("lambda", ("type", "threshold", "tau"), "did you mean threshold?"),
        ("Lambda", ("type", "coefficient"), "did you mean coefficient?"),
        ("cuda", ("cpu", "gpu"), "did you mean gpu?"),
        ("dtype", ("dt", "precision"), "did you mean precision?"),
        ("mnist", ("noise", "idx"), "did you mean idx?"),
        ("stride", ("strength", "patch"), "the stride follows from the shapes of pre and post"),
        ("stride", ("strength", "strides"), "did you mean strides?"),
        ("learning_rate", ("init", "learn"), "did you mean learn?"),
        ("learning_rate", ("learn", "rate"), "did you mean rate?"),
        ("dt", ("tau", "width"), "all layers have the step of the run: run.dt"),
        ("path", ("crop", "file"), "did you mean file?"),
        ("activation", ("shift", "transfer"), "did you mean transfer?"),
        ("mnist", ("noise", "images"), ""),
        ("soft_threshold", ("soft", "hard"), "did you mean soft?"),
        ("vth", ("v", "g"), ""),
        ("tau", ("A", "parameters.tau"), "did you mean parameters.tau?"),
        ("linspace", ("start", "spacing"), "evenly spaced values are { start = 0.0, stop = 1.0, count = 5 }"),
        ("treshold", ("threshold", "tau"), "did you mean threshold?"),
        ("bach", ("batch", "steps"), "did you mean batch?"),
        ("tua", ("tau", "dt"), "did you mean tau?"),
        ("dict", ("error", "dictionary"), "did you mean dictionary?"),
    ],
)
def test_a_term_of_other_programs_comes_before_what_is_spelt_alike(
    name: str, choices: tuple[str, ...], hint: str
) -> None:
    assert did_you_mean(name, choices) == hint
