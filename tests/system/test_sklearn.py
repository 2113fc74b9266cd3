"""The estimators of `petabatch.sklearn`: scikit-learn's own checks, and what they compute."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from petabatch.errors import ArgumentError
from petabatch.learning.statistics import Statistics
from petabatch.sklearn import DictionaryLearner, SparseCoder


@parametrize_with_checks([SparseCoder(penalty=0.1), DictionaryLearner(penalty=0.1, epochs=2)])
def test_estimators_pass_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def patches(count: int, features: int = 16, seed: int = 0) -> np.ndarray:
    """Return samples that five in twenty atoms make up, and some noise."""
    rng = np.random.default_rng(seed)
    atoms = np.random.default_rng(99).standard_normal((20, features))
    code = rng.laplace(size=(count, 20)) * (rng.random((count, 20)) < 0.25)
    return code @ atoms / 4 + 0.05 * rng.standard_normal((count, features))


def objective(samples: np.ndarray, code: np.ndarray, atoms: np.ndarray, penalty: float) -> float:
    squares = np.square(samples - code @ atoms).sum(axis=1)
    return float(np.mean(0.5 * squares + penalty * np.abs(code).sum(axis=1)))


def test_codes_are_dense_or_sparse_and_stand_for_samples() -> None:
    samples = patches(40)
    dictionary = patches(30, seed=1)
    coder = SparseCoder(dictionary, 1e-3).fit(samples)
    code = coder.transform(samples)
    assert np.abs(coder.inverse_transform(code) - samples).max() < 0.05
    sparse = coder.set_params(output="sparse", n_jobs=2).transform(samples)
    assert issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), code)
    np.testing.assert_allclose(coder.inverse_transform(sparse), code @ dictionary)
    np.testing.assert_array_equal(coder.inverse_transform(np.eye(30, dtype=int)), dictionary)
    assert coder.score(samples) == pytest.approx(-objective(samples, code, dictionary, 1e-3), rel=1e-12)
    assert list(coder.get_feature_names_out()[:2]) == ["sparsecoder0", "sparsecoder1"]
    table = SparseCoder(dictionary, 1e-3).set_output(transform="pandas").fit(samples).transform(samples)
    np.testing.assert_array_equal(table.to_numpy(), code)


def test_a_dictionary_in_a_file_is_flattened(tmp_path: Path) -> None:
    np.save(tmp_path / "dictionary.npy", dictionary := patches(5).reshape(5, 4, 4))
    coder = SparseCoder(tmp_path / "dictionary.npy").fit(patches(3))
    np.testing.assert_array_equal(coder.components_, dictionary.reshape(5, 16))


def test_a_dictionary_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ArgumentError, match=r"dictionary: it does not fit the samples\n.*\[5, 4\]\n.*, 16\]"):
        SparseCoder(np.ones((5, 4))).fit(patches(3))
    with pytest.raises(ArgumentError, match="penalty"):
        SparseCoder(penalty=-1.0).fit(patches(3)).transform(patches(3))
    with pytest.raises(ArgumentError, match="n_jobs"):
        SparseCoder(n_jobs=0).fit(patches(3)).transform(patches(3))
    for features in (15, 17, 1000):
        with pytest.raises(ArgumentError, match="dictionary: it does not fit the samples"):
            DictionaryLearner(dictionary=np.ones((5, features))).fit(patches(3))
    with pytest.raises(ArgumentError, match=r"n_components: the dictionary has others\n.*4\n.*5"):
        DictionaryLearner(4, dictionary=np.ones((5, 16))).fit(patches(3))


@pytest.mark.parametrize("negative", [False, True])
def test_each_atom_is_moved_to_its_minimum_in_the_unit_ball(negative: bool) -> None:
    rng = np.random.default_rng(2)
    code, samples = (
        rng.standard_normal((50, 6)) * (rng.random((50, 6)) < 0.5),
        2 * rng.standard_normal((50, 4)),
    )
    code[:, 3] = 0
    atoms = rng.standard_normal((6, 4)) / 4
    found = Statistics.none(6, 4).with_items(code, samples)
    np.testing.assert_allclose(found.products, code.T @ code, atol=1e-12)
    np.testing.assert_allclose(found.images, code.T @ samples, atol=1e-12)
    expected = atoms.copy()
    for j in (0, 1, 2, 4, 5):
        others = samples - code @ expected + np.outer(code[:, j], expected[j])
        best = code[:, j] @ others / (code[:, j] @ code[:, j])
        best = best if negative else np.maximum(best, 0)
        expected[j] = best / max(1.0, float(np.linalg.norm(best)))
    np.testing.assert_allclose(found.fitted(atoms, negative=negative), expected, atol=1e-12)
    np.testing.assert_array_equal(found.unused, [3])
    halved = found.with_items(code[:0], samples[:0], kept=0.5)
    np.testing.assert_allclose(halved.images, found.images / 2)
    items = np.stack([samples[0], samples[1], -samples[2]])
    fresh, without = found.refreshed(atoms, items, np.array([1.0, 0.0, 2.0]), negative=negative)
    taken = items[2] if negative else np.abs(items[2])
    np.testing.assert_allclose(fresh[3], taken / np.linalg.norm(taken))
    np.testing.assert_array_equal(np.delete(fresh, 3, 0), np.delete(atoms, 3, 0))
    assert not without.products[:, 3].any()
    described, same = found.refreshed(atoms, items, np.zeros(3), negative=negative)
    np.testing.assert_array_equal(described, atoms)
    np.testing.assert_array_equal(same.images, found.images)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_learned_dictionary_describes_new_samples_as_well_as_that_of_scikit_learn() -> None:
    samples, others = patches(600), patches(200, seed=7)
    ours = DictionaryLearner(20, 0.1, epochs=4, batch_size=50, random_state=0).fit(samples)
    theirs = MiniBatchDictionaryLearning(
        20,
        alpha=0.1,
        max_iter=4,
        batch_size=50,
        fit_algorithm="cd",
        random_state=0,
        tol=0,
        max_no_improvement=None,
    ).fit(samples)
    expected = SparseCoder(theirs.components_, 0.1).fit(samples).score(others)
    assert ours.score(others) > expected * 1.02  # scores are negative
    once = DictionaryLearner(20, 0.1, epochs=1, batch_size=600, random_state=0).fit(samples)
    assert ours.score(others) > 0.8 * once.score(others)
    assert np.linalg.norm(ours.components_, axis=1).max() <= 1 + 1e-12
    assert ours.n_seen_ == 2400


def test_a_dictionary_is_learned_in_parts_and_pickled_in_between() -> None:
    samples = patches(300)
    given = {"n_components": 20, "penalty": 0.1, "batch_size": 50, "dictionary": patches(20, seed=3)}
    whole = DictionaryLearner(**given).partial_fit(samples)
    half = pickle.loads(pickle.dumps(DictionaryLearner(**given).partial_fit(samples[:150])))
    np.testing.assert_array_equal(half.partial_fit(samples[150:]).components_, whole.components_)
    fresh = clone(whole).fit(samples)
    assert fresh.n_seen_ == 3000
    two = DictionaryLearner(**given, n_jobs=2).partial_fit(samples)
    np.testing.assert_array_equal(two.components_, whole.components_)


def test_atoms_without_use_are_replaced() -> None:
    samples, dictionary = patches(200), np.zeros((20, 16))
    dictionary[:10] = patches(10, seed=3)
    found = DictionaryLearner(penalty=0.1, epochs=2, dictionary=dictionary, random_state=0).fit(samples)
    assert (np.abs(found.transform(samples)).max(axis=0) > 0).all()


def test_atoms_and_codes_that_are_not_negative() -> None:
    samples = np.abs(patches(200))
    found = DictionaryLearner(10, 0.1, epochs=2, signed=False, negative_atoms=False, random_state=0).fit(
        samples
    )
    assert found.components_.min() >= 0
    assert found.transform(samples).min() >= 0


def test_a_pipeline_is_searched_for_the_best_penalty() -> None:
    images, digits = load_digits(return_X_y=True)
    train, test, known, asked = train_test_split(images / 16, digits, random_state=0)
    learner = DictionaryLearner(64, epochs=1, signed=False, random_state=0)
    pipeline = make_pipeline(learner, LogisticRegression(max_iter=2000))
    search = GridSearchCV(pipeline, {"dictionarylearner__penalty": [0.03, 3.0]}, cv=2).fit(train, known)
    assert search.best_params_ == {"dictionarylearner__penalty": 0.03}
    assert search.score(test, asked) > 0.93
