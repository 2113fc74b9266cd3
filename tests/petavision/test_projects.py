"""Classes and old parameters that people's projects have, against models of them in NumPy."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory
from petabatch.petavision import read
from petabatch.petavision.weights import chance_of_fewer
from support.petavision_groups import written

PARAMS = Path(__file__).parent / "params"
RNG = np.random.default_rng(5)
IMAGES = RNG.normal(size=(7, 8, 8, 2)).astype(np.float32)
KINDS = ("cat", "dog", "at")
NAMES = [f"img/{number % 4}_{('cat', 'dog', 'bird')[number % 3]}.{number}.npy" for number in range(7)]
STEPS = range(21)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network of `projects.params`, with its images; the list names them from the folder above."""
    folder = tmp_path_factory.mktemp("project")
    for place in ("img", "lists"):
        (folder / place).mkdir()
    for name, image in zip(NAMES, IMAGES, strict=True):
        np.save(folder / name, image)
    (folder / "lists" / "images.txt").write_text("".join(f"{name}\n" for name in NAMES))
    (folder / "lists" / "kinds.txt").write_text("".join(f"{kind}\n" for kind in KINDS))
    return Path(shutil.copy(PARAMS / "projects.params", folder))


@pytest.fixture(scope="module")
def states(project: Path) -> Mapping[str, np.ndarray]:
    return in_memory.run(petabatch.load(project).network, STEPS).states


def activity(states: Mapping[str, np.ndarray], layer: str) -> np.ndarray:
    """Return the activity in all steps, `[steps, 2, ny, nx, nf]`."""
    return states[f"layers/{layer}/A"]


def shown(step: int) -> list[int]:
    """Return the images of both elements in a step: from the first frames of byList on, one after another."""
    return [(first + b * (7 // 2) + (step - 1) // 5) % 7 for b, first in enumerate((1, 0))]


def test_lists_begin_at_their_first_frames(states: Mapping[str, np.ndarray]) -> None:
    for step in STEPS[1:]:
        np.testing.assert_array_equal(activity(states, "Image")[step], IMAGES[shown(step)])


def test_labels_are_those_of_the_names_that_are_shown(states: Mapping[str, np.ndarray]) -> None:
    for step in STEPS[1:]:
        for b, number in enumerate(shown(step)):
            kinds = [float(kind in NAMES[number]) for kind in KINDS]
            np.testing.assert_array_equal(
                activity(states, "Kinds")[step, b], np.broadcast_to(kinds, (4, 4, 3))
            )
            of_four = np.where(np.arange(4) == number % 4, np.sqrt(3) / 2, -1 / np.sqrt(12))
            np.testing.assert_allclose(activity(states, "Numbers")[step, b, 0, 0], of_four, rtol=1e-6)


def test_a_winner_is_the_number_of_the_largest_feature(states: Mapping[str, np.ndarray]) -> None:
    """Of three features from -1 to 2, so that each has a bin of 1; of equal ones the first."""
    code = activity(states, "Code")[1:]
    assert (code == 0).all(axis=-1).any()
    np.testing.assert_allclose(activity(states, "Winner")[1:, ..., 0], code.argmax(axis=-1) - 1.0)


def test_a_connection_with_weights_pools_as_one_without(states: Mapping[str, np.ndarray]) -> None:
    code = activity(states, "Code")[1:]
    blocks = code.reshape(20, 2, 2, 2, 2, 2, 3).max(axis=(3, 5))
    np.testing.assert_allclose(activity(states, "Pooled")[1:], 2 * blocks, rtol=1e-6)


def test_learning_in_batches_changes_weights_at_each_second_update(states: Mapping[str, np.ndarray]) -> None:
    """The mean over the active units of both updates, of all positions and elements."""
    code, guess = (activity(states, name).astype(float) for name in ("Code", "Guess"))
    found = states["connections/CodeToGuess/weights"]
    want, products, visits = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((3, 1))
    for step in STEPS[1:]:
        if step % 5 == 0:
            products += np.einsum("byxi,byxj->ij", code[step], guess[step])
            visits += (code[step] != 0).sum(axis=(0, 1, 2))[:, None]
        if step % 10 == 0:
            want = want + 0.5 * products / np.maximum(visits, 1)
            products, visits = 0 * products, 0 * visits
        np.testing.assert_allclose(found[step].reshape(3, 3), want, rtol=1e-5, atol=1e-7)
    assert want.any()


def test_one_to_one_weights_with_delays_are_a_history_of_each_feature(
    states: Mapping[str, np.ndarray],
) -> None:
    image, history = activity(states, "Image"), activity(states, "History")
    for step in range(5, 21):
        for feature in range(2):
            for arbor in range(3):
                want = 1.5 * image[step - 2 * arbor, ..., feature]
                np.testing.assert_allclose(history[step, ..., 3 * feature + arbor], want, rtol=1e-6)


def test_layers_with_a_transfer_function_of_their_own_follow_one_without(
    states: Mapping[str, np.ndarray],
) -> None:
    image, v = activity(states, "Image").astype(float), np.zeros((2, 8, 8, 2))
    for step in STEPS[1:]:
        v = v * np.exp(-1 / 4) + image[step]
        trace = np.where(v >= 1, v - 1, 0)
        np.testing.assert_allclose(activity(states, "Trace")[step], trace, rtol=1e-4, atol=1e-5)
        seen = np.where((activity(states, "Trace")[step] != 0) & (image[step] >= 0.5), image[step], 0)
        np.testing.assert_allclose(activity(states, "Seen")[step], seen, rtol=1e-6)
    assert (activity(states, "Seen") != 0).any()


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_a_time_scale_follows_a_quotient_of_energies(project: Path, kernel: str) -> None:
    """Of the step before, 2 |Shown| over a sum of two costs (`AdaptiveTimeScaleController.cpp:60-89`)."""
    (found,) = read(project)
    said = found.text.replace("[run]\n", f'[run]\nkernel = "{kernel}"\n')
    (project.parent / f"{kernel}.toml").write_text(said)
    done = in_memory.run(petabatch.load(project.parent / f"{kernel}.toml").network, STEPS)
    shown_, code, trace = (activity(done.states, name).astype(float) for name in ("Shown", "Code", "Trace"))
    for b in range(2):
        scale, ceiling, before = 0.5, 2.0, -1.0
        quotients = [
            2
            * np.sqrt((shown_[step, b] ** 2).sum())
            / (0.5 * (code[step, b] ** 2).sum() + 0.1 * np.abs(trace[step, b]).sum())
            for step in STEPS[1:]
        ]
        np.testing.assert_allclose(done.recorded["probes/Scale/quotient"][:, b], quotients, rtol=1e-6)
        for step in STEPS[1:]:
            seen = -1.0 if (step - 1) % 5 == 0 else quotients[step - 2]
            if seen != before:
                fall = (before - seen) / scale
                if fall < 0 or before <= 0 or seen <= 0:
                    scale, ceiling = 0.5, 2.0
                else:
                    scale = 0.3 * before / fall
                    if scale >= ceiling:
                        scale, ceiling = ceiling, ceiling * 1.1
            before = seen
            np.testing.assert_allclose(done.states["layers/Slow/time_scale"][step, b], scale, rtol=1e-6)
    assert len(np.unique(done.states["layers/Slow/time_scale"])) > 2


def tables(folder: Path, text: str) -> tuple[dict[str, Any], str]:
    (folder / "net.params").write_text(text)
    (found,) = read(folder / "net.params")
    return tomllib.loads(found.text), found.report


_POOLS = (
    'pvpatchAccumulateType = "maxpooling"; plasticityFlag = false; normalizeMethod = "none"; '
    'weightInitType = "UniformWeight"; connectOnlySameFeatures = true; weightInit = 1; '
)


def test_a_copy_of_what_pools_is_refused(tmp_path: Path) -> None:
    ends = 'preLayerName = "C"; postLayerName = "O"; channelCode = 0; '
    text = written("HyPerConn", _POOLS) + f'CloneConn "Y" = {{ {ends}originalConnName = "X"; }};\n'
    net, report = tables(tmp_path, text)
    assert net["connections"]["X"]["type"] == "pool"
    assert "a copy of a connection that pools is not supported" in report


def test_features_that_are_not_active_begin_again(tmp_path: Path) -> None:
    """More than 12 time units after their last activity, at the third of updates every 5."""
    (found,) = read(PARAMS / "projects.params")
    assert tomllib.loads(found.text)["connections"]["CodeToImage"]["revive"] == {"after": 3}
    text = (
        (PARAMS / "projects.params").read_text().replace("imprintTimeThresh = 12", "imprintTimeThresh = -1")
    )
    assert tables(tmp_path, text)[0]["connections"]["CodeToImage"]["revive"] == {"after": 101}
    smaller = 'HyPerLayer "Shown" = { nf = 2; phase = 3; nxScale = 0.25; nyScale = 0.25; '
    report = tables(tmp_path, text.replace('HyPerLayer "Shown" = { nf = 2; phase = 3; ', smaller))[1]
    assert "features with patches on a smaller layer cannot begin again" in report


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("sparseFraction = 0.5; minNNZ = 2; ", "0.0% of patches have fewer than minNNZ = 2"),
        ("sparseFraction = 0.9; minNNZ = 3; ", "73.4% of patches have fewer than minNNZ = 3"),
        ("sparseFraction = 0; minNNZ = 3; ", "minNNZ: no effect"),
    ],
)
def test_what_minnnz_changes_is_told(tmp_path: Path, given: str, said: str) -> None:
    """Of 3 x 3 x 2 weights: P(fewer than 3) with p = 0.1 is 0.9^18 + 18 0.1 0.9^17 + 153 0.01 0.9^16."""
    _, report = tables(tmp_path, written("HyPerConn", given))
    assert said in report


def test_minnnz_of_large_patches_is_told() -> None:
    """Binomial coefficients of these are beyond the range of floats; the median is the mean here."""
    assert chance_of_fewer(9000, 18000, 0.5) == pytest.approx(0.5, abs=0.01)
    assert chance_of_fewer(8000, 18000, 0.5) < 1e-6
    assert chance_of_fewer(3, 18, 0.9) == pytest.approx(0.9**18 + 18 * 0.1 * 0.9**17 + 153 * 0.01 * 0.9**16)
    assert [chance_of_fewer(least, 18, zero) for least, zero in ((19, 0.0), (18, 0.0), (1, 1.0))] == [1, 0, 1]


def test_a_time_scale_without_its_probe_is_left_out_where_no_other_is_meant(tmp_path: Path) -> None:
    text = written("AdaptiveTimeScaleProbe", 'targetName = "Gone"; ')
    net, report = tables(tmp_path, text)
    assert "there is no probe of this name" in report
    for name in ("ColumnEnergyProbe", "L2NormProbe", "L1NormLCAProbe"):
        text = "\n".join(line for line in text.splitlines() if not line.startswith(f"{name} "))
    net, report = tables(tmp_path, text)
    assert "there is no probe Gone, where PetaVision stops: the time scale is 1" in report
    assert "NOT SUPPORTED" not in report
    assert "time_scale" not in net["layers"]["C"]


@pytest.mark.parametrize(
    ("keyword", "given", "said"),
    [
        ("WTALayer", 'originalLayerName = "Half"; ', "the original has another size"),
        ("WTALayer", "binMin = 2; ", "this is not a range"),
        ("BatchConn", "batchPeriod = 0; ", "this is not a number of updates"),
        ("HyPerConn", 'pvpatchAccumulateType = "maxpooling"; ', "pooling through other than fixed"),
        ("HyPerConn", f"{_POOLS}numAxonalArbors = 2; ", "this is not supported"),
        ("LabelLayer", "labelLength = 0; ", "these are no characters of a name"),
        ("LabelLayer", 'movieLayerName = "I"; ', "this layer shows no image files"),
        ("MaskLayer", "VThresh = 1; AMin = 2; ", "that is not 0 at 0 is not supported"),
        ("QuotientProbe", 'numerator = "Scale"; ', "there is no probe of this name"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, keyword: str, given: str, said: str) -> None:
    _, report = tables(tmp_path, written(keyword, given))
    assert said in report
