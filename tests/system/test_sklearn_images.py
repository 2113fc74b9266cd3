"""The estimators of `petabatch.sklearn` on images, and the files of both kinds of samples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import petabatch
from petabatch.errors import ArgumentError, InputError, StorageError
from petabatch.sklearn import DictionaryLearner, SparseCoder
from petabatch.sklearn.images import CutOut, Grid
from support.commands import alone
from support.processes import PATIENCE


def pictures(count: int, rows: int = 8, columns: int = 12, channels: int | None = 3) -> np.ndarray:
    shape = (count, rows, columns) if channels is None else (count, rows, columns, channels)
    return np.random.default_rng(5).standard_normal(shape)


def tiles(images: np.ndarray, side: int) -> np.ndarray:
    """Return the square patches of images that do not overlap, as vectors in the order of their places."""
    count, rows, columns = images.shape[:3]
    split = images.reshape(count, rows // side, side, columns // side, side, -1).swapaxes(2, 3)
    return split.reshape(count * (rows // side) * (columns // side), -1)


@pytest.mark.parametrize("channels", [None, 3])
def test_codes_of_images_are_those_of_encode(channels: int | None) -> None:
    images = pictures(4, channels=channels)
    dictionary = pictures(10, 4, 4, channels) / 4
    coder = SparseCoder(dictionary, 0.5, patch=4, stride=2, n_jobs=2).fit(images)
    code = coder.transform(images)
    grey = channels is None
    expected = petabatch.encode(
        images[..., None] if grey else images, dictionary, 0.5, stride=2, signed=True, gap=1e-4
    )
    assert coder.code_shape_ == (4, 6, 10)
    assert code.dtype == np.float64
    np.testing.assert_array_equal(code.reshape(4, *coder.code_shape_), expected.activity)
    assert len(coder.get_feature_names_out()) == code.shape[1]
    sparse = clone(coder).set_params(output="sparse").fit(images).transform(images.astype(np.float32))
    assert issparse(sparse)
    assert sparse.dtype == np.float32
    np.testing.assert_array_equal(sparse.toarray(), code)
    shown = coder.inverse_transform(sparse)
    assert shown.shape == images.shape
    energy = 0.5 * np.square(images - shown).sum() + 0.5 * np.abs(code).sum()
    assert coder.score(images) == pytest.approx(-energy / 4, rel=1e-6)
    assert (np.square(images - shown).sum((1, 2)) < np.square(images).sum((1, 2))).all()


def test_patches_that_do_not_overlap_are_coded_learned_and_shown_as_vectors() -> None:
    images = pictures(20)
    given: dict[str, Any] = {"n_components": 30, "penalty": 0.5, "epochs": 2, "random_state": 0}
    whole = DictionaryLearner(patch=4, **given).fit(images)
    vectors = DictionaryLearner(**given).fit(tiles(images, 4))
    assert whole.components_.shape == (30, 4, 4, 3)
    np.testing.assert_array_equal(whole.components_.reshape(30, -1), vectors.components_)
    assert whole.n_seen_ == 2 * 20 * 6
    code = whole.transform(images)
    np.testing.assert_allclose(code.reshape(-1, 30), vectors.transform(tiles(images, 4)), atol=0.02)
    shown = tiles(whole.inverse_transform(code), 4)
    np.testing.assert_allclose(shown, vectors.inverse_transform(code.reshape(-1, 30)), atol=1e-12)


def test_patches_are_cut_out_at_every_stride_pixels() -> None:
    images = pictures(2, 6, 6)
    found = CutOut(images, Grid.of((6, 6, 3), (4, 2), 2))
    places = [(n, y, x) for n in range(2) for y in (0, 2) for x in (0, 2, 4)]
    assert len(found) == len(places)
    for number in (0, 1, 5, 11):
        n, y, x = places[number]
        np.testing.assert_array_equal(found[np.array([number])][0], images[n, y : y + 4, x : x + 2].ravel())
    np.testing.assert_array_equal(found[3:5], found[np.array([3, 4])])


def test_a_dictionary_of_images_is_learned_in_parts() -> None:
    images = pictures(12)
    given: dict[str, Any] = {"penalty": 0.5, "patch": [4, 2], "stride": 2, "batch_size": 18}
    begin = pictures(9, 4, 2)
    whole = DictionaryLearner(dictionary=begin, **given).partial_fit(images)
    half = DictionaryLearner(dictionary=begin.reshape(9, -1), **given).partial_fit(images[:6])
    assert whole.n_seen_ == 12 * 3 * 6
    np.testing.assert_array_equal(half.partial_fit(images[6:]).components_, whole.components_)


def test_images_and_patches_that_do_not_fit_are_errors() -> None:
    images = pictures(3)
    with pytest.raises(ArgumentError, match=r"X: these are not images\n.*\[3, 288\]"):
        SparseCoder(patch=4).fit(images.reshape(3, -1))
    with pytest.raises(ArgumentError, match=r"patch: it is larger than the images\n.*\(9, 9\)"):
        SparseCoder(patch=9).fit(images)
    with pytest.raises(ArgumentError, match="patch: this is not a size"):
        SparseCoder(patch=(4, 4, 3)).fit(images)
    with pytest.raises(ArgumentError, match="stride: a patch that is not square needs one"):
        SparseCoder(patch=(4, 2)).fit(images)
    with pytest.raises(ArgumentError, match=r"stride: the stride does not divide the images\n.*\n.*\n.*crop"):
        SparseCoder(patch=4, stride=3).fit(images)
    for estimator in (SparseCoder(stride=2), DictionaryLearner(stride=2)):
        with pytest.raises(
            ArgumentError, match=r"stride: samples that are vectors have none\n.*2\n.*`patch`"
        ):
            estimator.fit(images.reshape(3, -1))
    with pytest.raises(
        ArgumentError, match=r"dictionary: it does not fit.*\n.*\[2, 4, 4\]\n.*components, 4, 4, 3"
    ):
        SparseCoder(np.ones((2, 4, 4)), patch=4).fit(images)
    fitted = SparseCoder(patch=4).fit(images)
    with pytest.raises(ArgumentError, match=r"X: these images are not as those of `fit`\n.*\[8, 8, 3\]"):
        fitted.transform(images[:, :, :8])
    with pytest.raises(ArgumentError, match="X: these are not codes of such images"):
        fitted.inverse_transform(np.ones((2, 5)))


def test_images_are_classified_in_a_pipeline_by_patches_that_overlap() -> None:
    digits = load_digits()
    images, known = digits.images[:600] / 16, digits.target[:600]
    learner = DictionaryLearner(
        16, penalty=0.1, patch=4, stride=2, epochs=2, signed=False, gap=1e-2, random_state=0
    )
    pipeline = make_pipeline(learner, LogisticRegression(max_iter=500)).fit(images[:400], known[:400])
    assert pipeline[0].code_shape_ == (4, 4, 16)
    assert pipeline.score(images[400:], known[400:]) > 0.8


def test_patches_of_images_are_atoms_by_default() -> None:
    images = pictures(3)
    found = SparseCoder(patch=4).fit(images).components_
    np.testing.assert_allclose(np.square(found).sum(axis=(1, 2, 3)), 1)
    np.testing.assert_allclose(found[7] * np.linalg.norm(images[1, :4, 4:8]), images[1, :4, 4:8])


def test_more_atoms_than_pairs_of_them_fit_into_memory_are_coded_to_the_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples, dictionary = pictures(6).reshape(6, -1), pictures(50).reshape(50, -1)
    exact = SparseCoder(dictionary, 20.0).fit(samples).score(samples)
    monkeypatch.setattr("petabatch.lasso.solver._BYTES", 4 * 49**2)
    found = SparseCoder(dictionary, 20.0, gap=1e-3).fit(samples)
    monkeypatch.setattr("petabatch.sklearn.base.Lasso", None)
    assert exact * (1 + 1e-3) <= found.score(samples) <= exact * (1 - 1e-7)


@pytest.mark.parametrize("patch", [None, 4])
def test_a_saved_learner_goes_on_where_it_was(patch: int | None, tmp_path: Path) -> None:
    images = pictures(16)
    samples = images if patch else tiles(images, 4)
    given: dict[str, Any] = {"penalty": 0.5, "epochs": 1, "batch_size": 10, "signed": False}
    learner = DictionaryLearner(20, patch=patch, random_state=np.random.RandomState(0), **given).fit(samples)
    learner.save(tmp_path / "a.h5")
    with pytest.raises(StorageError, match="already exists"):
        learner.save(tmp_path / "a.h5")
    learner.save(tmp_path / "a.h5", force=True)
    opened = DictionaryLearner.open(tmp_path / "a.h5")
    assert opened.get_params() == {
        **learner.get_params(), "random_state": None, "dictionary": str(tmp_path / "a.h5")
    }  # fmt: skip
    np.testing.assert_array_equal(opened.transform(samples), learner.transform(samples))
    np.testing.assert_array_equal(
        opened.partial_fit(samples).components_, learner.partial_fit(samples).components_
    )
    assert opened.n_seen_ == learner.n_seen_
    learner.save(tmp_path / "b.h5")
    coder = SparseCoder.open(tmp_path / "b.h5")
    np.testing.assert_array_equal(coder.transform(samples), learner.transform(samples))
    again = clone(coder).fit(samples)
    np.testing.assert_array_equal(again.components_, learner.components_)
    shown = images if patch else samples[:, None, None]
    codes = petabatch.encode(shown, tmp_path / "b.h5", gap=1e-4)
    np.testing.assert_allclose(codes.activity.reshape(len(shown), -1), learner.transform(samples), atol=1e-4)


def test_names_of_features_are_saved(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    samples = pandas.DataFrame(pictures(5).reshape(5, -1)[:, :3], columns=["a", "b", "c"])
    SparseCoder(np.eye(3), 0.1).fit(samples).save(tmp_path / "a.h5")
    opened = SparseCoder.open(tmp_path / "a.h5")
    assert list(opened.feature_names_in_) == ["a", "b", "c"]
    assert opened.n_features_in_ == 3
    opened.transform(samples)


def test_the_dictionary_of_a_run_is_opened_with_how_the_run_uses_it(small: Path) -> None:
    path = alone(small, "run", "run.displays=2")
    found = SparseCoder.open(path)
    images = np.random.default_rng(0).random((3, 12, 12, 3))
    code = found.transform(images)
    with petabatch.open(path) as run:
        weights = run.weights("dictionary")[-1]
    expected = petabatch.encode(images, weights, 0.3, stride=2, signed=False, gap=1e-4)
    assert found.code_shape_ == (6, 6, 8)
    np.testing.assert_array_equal(code.reshape(3, *found.code_shape_), expected.activity)
    learner = DictionaryLearner.open(path / "run.h5").partial_fit(images)
    assert learner.n_seen_ > 0
    assert learner.components_.shape == found.components_.shape


def test_files_that_are_not_of_estimators_are_errors(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.ones(3)
    with pytest.raises(InputError, match="this is no file of an estimator"):
        SparseCoder.open(tmp_path / "a.h5")
    SparseCoder(np.eye(3)).fit(np.ones((2, 3))).save(tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5", "a") as file:
        file.attrs["parameters"] = "{"
    with pytest.raises(InputError, match="this file cannot be read"):
        SparseCoder.open(tmp_path / "b.h5")
    with pytest.raises(ArgumentError, match="penalties: this parameter cannot be saved"):
        _Named(penalties=np.ones(2)).fit(np.ones((2, 3))).save(tmp_path / "c.h5")


class _Named(SparseCoder):
    """A coder with a parameter that is no number."""

    def __init__(self, dictionary: Any = None, penalty: float = 1.0, penalties: Any = None) -> None:
        super().__init__(dictionary, penalty)
        self.penalties = penalties


def dispatching(code: str) -> str:
    """Return what code prints where scikit-learn can dispatch, which depends on the environment."""
    given = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=given, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_estimators_pass_the_checks_of_scikit_learn_under_array_api_dispatch() -> None:
    found = dispatching(
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from petabatch.sklearn import DictionaryLearner, SparseCoder\n"
        "for one in (SparseCoder(penalty=0.1), DictionaryLearner(penalty=0.1, epochs=2)):\n"
        "    for each in check_estimator(one, on_skip=None):\n"
        "        if 'array_api' in each['check_name']:\n"
        "            print(each['status'])\n"
    )
    assert found.split().count("passed") >= 4  # those of libraries that are not here are skipped
    assert set(found.split()) <= {"passed", "skipped"}


def test_arrays_of_other_libraries_have_the_codes_of_numpys_in_their_library() -> None:
    pytest.importorskip("array_api_strict")
    dispatching(
        "import array_api_strict as xp\n"
        "import numpy as np\n"
        "import pytest\n"
        "import sklearn\n"
        "from petabatch.sklearn import DictionaryLearner\n"
        "images = np.random.default_rng(0).standard_normal((6, 8, 8))\n"
        "for patch, samples in ((4, images), (None, images.reshape(24, 16))):\n"
        "    learner = DictionaryLearner(9, 0.5, patch=patch, epochs=1, random_state=0)\n"
        "    expected = learner.fit_transform(samples)\n"
        "    atoms, back = learner.components_, learner.inverse_transform(expected)\n"
        "    with sklearn.config_context(array_api_dispatch=True):\n"
        "        given = xp.asarray(samples, device=xp.Device('device1'))\n"
        "        code = learner.fit(given).transform(given)\n"
        "        shown = learner.inverse_transform(code)\n"
        "        for other in (samples, xp.asarray(samples)):\n"
        "            with pytest.raises(ValueError, match='same namespace'):\n"
        "                learner.transform(other)\n"
        "    for one, other in ((code, expected), (learner.components_, atoms), (shown, back)):\n"
        "        assert one.device == given.device\n"
        "        np.testing.assert_array_equal(np.from_dlpack(one, device='cpu', copy=True), other)\n"
    )
