"""The fitting of transforms to images before the run: to which images, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from petabatch.engine.fitting import fitted_sources, to_be_fitted, with_sources
from petabatch.errors import InputFileError
from petabatch.layers import Input
from petabatch.network.build import build
from petabatch.probes import L2
from petabatch.sources import ImageArray
from petabatch.sources.transforms import ZCA
from petabatch.spec.network import Evaluate, Network, Run
from petabatch.spec.parts import Source

IMAGES = np.random.default_rng(3).normal(size=(7, 4, 3, 1))
WHITENED = {"type": "zca", "samples": 7}


def network(held_out: Source | None = None, **sources: Source) -> Network:
    layers = {name: Input(shape=(4, 3, 1), source=source) for name, source in sources.items()}
    evaluate = None if held_out is None else Evaluate(source=held_out, layer="image")
    return Network(run=Run(steps=1), layers=layers, probes={"l2": L2(layer="image")}, evaluate=evaluate)


def test_held_out_images_are_whitened_as_those_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ImageArray(data=IMAGES, transforms=({"type": "flip"}, WHITENED))
    theirs = ImageArray(data=5 * IMAGES[::-1], transforms=(WHITENED,))
    one, calls, fitted = network(theirs, image=ours), [], ZCA.fitted
    monkeypatch.setattr(ZCA, "fitted", lambda self, read: calls.append(1) or fitted(self, read))
    assert to_be_fitted(one)
    found = with_sources(one, fitted_sources(build(one)))
    assert len(calls) == 1
    assert not to_be_fitted(found)
    assert found.evaluate is not None
    images = found.layers["image"].images
    assert images is not None
    assert found.evaluate.source.transforms == images.source.transforms[1:]


def test_files_of_all_layers_that_cannot_be_used_are_named_at_once(tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", IMAGES[:, :2])
    gone, small, unread = (
        ImageArray(file=str(tmp_path / f"{name}.npy"), transforms=(WHITENED,))
        for name in ("gone", "small", "unread")
    )
    with pytest.raises(InputFileError) as raised:
        fitted_sources(build(network(unread, image=gone, other=small)))
    # What held-out images need follows from those of the layer, which are not known.
    found = [problem.key for problem in raised.value.problems]
    assert found == ["layers.image.source.file", "layers.other.source.transforms"]
