"""The mistakes of a beginner in Python in `python_mistakes.txt`: each raises the error given there."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch.errors import PetabatchError
from support.commands import SMALL, alone

LIST = Path(__file__).with_name("python_mistakes.txt")


@dataclass
class Mistake:
    """One case of the list."""

    title: str
    code: list[str] = field(default_factory=list)
    error: str = ""
    message: list[str] = field(default_factory=list)


def read(text: str) -> list[Mistake]:
    """Return the cases of a list in the format that its first lines explain."""
    cases: list[Mistake] = []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "==":
            cases.append(Mistake(rest))
        elif kind == ">":
            cases[-1].code.append(rest)
        elif kind == "!":
            cases[-1].error = rest
        elif kind == "|":
            cases[-1].message.append(rest)
        else:
            assert kind in ("", "#"), line
    return cases


MISTAKES = read(LIST.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a params file, its images and a finished run."""
    folder = tmp_path_factory.mktemp("python")
    np.save(folder / "images.npy", images())
    (folder / "small.toml").write_text(SMALL)
    alone(folder / "small.toml", "out", "run.displays=2")
    return folder


def images() -> np.ndarray:
    return np.random.default_rng(3).random((7, 12, 12, 3)).astype(np.float32)


def tables() -> dict[str, Any]:
    """Return the tables of a small network."""
    image = {"type": "input", "shape": (12, 12, 3), "source": {"type": "array", "data": images()}}
    return {
        "run": {"batch": 3, "display": 10, "displays": 2},
        "layers": {
            "image": image,
            "error": {"type": "linear", "shape": (12, 12, 3)},
            "V1": {"type": "lca", "shape": (6, 6, 8), "tau": 10.0, "threshold": 0.3},
            "recon": {"type": "linear", "shape": (12, 12, 3)},
        },
        "connections": {
            "image_to_error": {"type": "identity", "pre": "image", "post": "error"},
            "recon_to_error": {
                "type": "identity", "pre": "recon", "post": "error", "channel": "inh", "feedback": True
            },
            "dictionary": {
                "type": "conv", "pre": "V1", "post": "recon", "patch": (4, 4),
                "init": {"type": "gaussian"}, "normalize": {"type": "l2"},
            },
            "drive": {"type": "transpose", "of": "dictionary", "pre": "error", "post": "V1"},
        },
        "probes": {"energy": {"type": "energy", "error": "error", "code": "V1", "coefficient": 0.3}},
        "output": {"layers": {"V1": {}}},
    }  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_a_mistake_is_answered(mistake: Mistake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    known = {
        "petabatch": petabatch,
        "np": np,
        "network": deepcopy(tables()),
        "images": images(),
        "dictionary": np.random.default_rng(4).normal(size=(8, 4, 4, 3)),
        "small": "small.toml",
        "out": "out",
    }
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is compared below
        exec("\n".join(mistake.code), known)
    error = raised.value
    said = str(error).replace(f"{folder}/", "FOLDER/")
    pattern = re.escape("\n".join(mistake.message)).replace(re.escape("..."), ".*")
    classes = {one.__name__ for one in type(error).__mro__}
    if mistake.error not in classes or not re.fullmatch(pattern, said):
        pytest.fail(f"! {type(error).__name__}\n" + "".join(f"| {line}\n" for line in said.splitlines()))
    assert isinstance(error, PetabatchError | AttributeError)
    assert error.__suppress_context__ or error.__context__ is None or error.__cause__ is not None
    assert "pydantic" not in said
    assert not (folder / "new").exists()


def test_the_network_without_a_mistake_runs(folder: Path) -> None:
    petabatch.run(petabatch.Network(**tables()), folder / "sound", quiet=True).close()


def test_the_list_has_thirty_mistakes_and_no_two_alike() -> None:
    assert len({mistake.title for mistake in MISTAKES}) == len(MISTAKES) >= 30
