"""Estimators of scikit-learn: sparse codes of samples, and dictionaries learned from them.

Needs the `sklearn` extra: raises ResourceError without it.
"""

from petabatch.errors import ResourceError, install

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ResourceError(f"scikit-learn is not installed\n    hint:     {install('sklearn')}") from error

from petabatch.sklearn.coder import SparseCoder
from petabatch.sklearn.learner import DictionaryLearner

__all__ = ["DictionaryLearner", "SparseCoder"]
