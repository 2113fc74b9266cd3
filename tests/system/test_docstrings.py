"""The docstrings of exported names: numpy's sections, and examples that run."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory, plotting
from petabatch.lasso import Lasso
from petabatch.sklearn import DictionaryLearner, SparseCoder
from support.commands import SMALL, alone

EXPORTED: dict[str, Any] = {
    **{
        name: getattr(petabatch, name)
        for name in petabatch.__all__
        if inspect.isfunction(getattr(petabatch, name))
    },
    "Driver": petabatch.Driver,
    "Simulator": petabatch.Simulator,
    "in_memory.run": in_memory.run,
    "plotting.live": plotting.live,
}


@pytest.mark.parametrize("name", EXPORTED)
def test_docstrings_have_the_sections_of_numpy_and_every_argument(name: str) -> None:
    one = EXPORTED[name]
    text = inspect.cleandoc(one.__doc__)
    titles = re.findall(r"^(\w+)\n-+$", text, re.M)
    expected = ["Parameters", "Returns", "Raises", "Examples"]
    assert titles == [title for title in expected if title != "Returns" or not inspect.isclass(one)]
    listed = re.split(r"\n\w+\n-+\n", text)[1]
    documented = [word for line in re.findall(r"^\S.*", listed, re.M) for word in line.split(", ")]
    called = one.__init__ if inspect.isclass(one) else one
    assert documented == [key for key in inspect.signature(called).parameters if key != "self"]


DOCUMENTED: dict[str, Any] = {
    **{
        f"plotting.{name}": value
        for name, value in vars(plotting).items()
        if inspect.isfunction(value) and not name.startswith("_")
    },
    "Lasso": Lasso,
    "SparseCoder": SparseCoder,
    "DictionaryLearner": DictionaryLearner,
}
"""What else is public."""


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstrings_of_what_else_is_public_name_every_argument(name: str) -> None:
    one = DOCUMENTED[name]
    sections = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(one.__doc__), flags=re.M)
    texts = dict(zip(sections[1::2], sections[2::2], strict=True))
    documented = [
        word
        for line in re.findall(r"^\S.*", texts["Parameters"], re.M)
        for word in line.split(" :")[0].split(", ")
    ]
    assert documented == list(inspect.signature(one).parameters)
    if not inspect.isclass(one):
        assert ("Returns" in texts) == (inspect.signature(one).return_annotation not in ("None", None))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that examples name: a params file and its run."""
    site = tmp_path_factory.mktemp("docstrings")
    (site / "params").mkdir()
    np.save(site / "images.npy", np.random.default_rng(3).random((7, 12, 12, 3)).astype("f4"))
    file = site / "params" / "natural_images.toml"
    file.write_text(SMALL.replace("images.npy", str(site / "images.npy")))
    alone(file, "../runs/natural_images", "run.displays=1")
    return site


@pytest.mark.parametrize("name", EXPORTED)
def test_examples_run(name: str, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(site)
    text = inspect.cleandoc(EXPORTED[name].__doc__)
    known = {"petabatch": petabatch, "np": np}
    test = doctest.DocTestParser().get_doctest(text, known, name, None, None)
    assert test.examples
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=said.append)
    assert not said, "".join(said)
