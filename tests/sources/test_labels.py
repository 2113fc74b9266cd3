"""Labels from the names of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch.errors import InputError, ParamsError
from petabatch.regular_files import read_text
from petabatch.sources import Images, Labels

NAMES = ("a/3_cat.png", "a/0_dog.png", "a/2_cat_dog.png", "a/1_owl.png")


def shown(source: Labels, shape: tuple[int, int, int], batch: int = 2, displays: int = 2) -> np.ndarray:
    """Return what is shown, `[display, slice, ny, nx, nf]`."""
    read = source.open(shape, batch, 1)
    return np.array([[read(b, display) for b in range(batch)] for display in range(displays)])


def test_a_name_is_of_each_class_that_it_contains() -> None:
    found = shown(Labels(names=NAMES, classes=("cat", "dog"), off=-1.0), (1, 1, 2))
    assert found.reshape(4, 2).tolist() == [[1, -1], [-1, 1], [1, 1], [-1, -1]]


def test_classes_that_no_name_contains_are_noted() -> None:
    def notes(*classes: str) -> list[str]:
        return list(Labels(names=NAMES, classes=classes).stream((1, 1, len(classes)), 2, 1).notes)

    assert notes("cat", "dog") == []
    assert notes("cat", "Dog") == ["no name contains the class 'Dog'; a name is 'a/3_cat.png'"]
    assert notes("A", "B", "C", "D")[0].startswith("no name contains the classes 'A', 'B', 'C' and 1 more;")


def test_digits_are_the_number_of_a_class() -> None:
    found = shown(Labels(names=NAMES, classes=5, digits=(2, 1), on=2.0), (1, 1, 5))
    assert found.reshape(4, 5).argmax(axis=1).tolist() == [3, 0, 2, 1]
    assert set(found.ravel()) == {0.0, 2.0}
    with pytest.raises(InputError, match=r"a/3_cat.png: these characters are not the number of a class"):
        Labels(names=NAMES, classes=3, digits=(2, 1)).gallery()
    with pytest.raises(InputError, match=r"found: +'/3', from character 1"):
        Labels(names=NAMES, classes=30, digits=(1, 2)).gallery()


@pytest.mark.parametrize(
    "given",
    [{"classes": 3}, {"classes": ("a", "b"), "digits": (0, 1)}, {"classes": "c.txt", "digits": (0, 1)}],
)
def test_classes_are_numbers_or_texts(given: dict[str, Any]) -> None:
    with pytest.raises(ParamsError, match="by their number and digits, or by texts"):
        Labels(names=NAMES, **given)


@pytest.mark.parametrize("order", ["sequential", "shuffled", "by_movie"])
def test_labels_follow_the_images_of_the_same_list(tmp_path: Path, order: Any) -> None:
    """Of comments in a list neither source shows anything."""
    for name in range(6):
        np.save(tmp_path / f"{name}.npy", np.full((1, 1, 1), name, np.float32))
    (tmp_path / "list.txt").write_text("# all\n\n" + "".join(f"{name}.npy\n" for name in range(6)))
    images = Images(files=str(tmp_path / "list.txt"), order=order).open((1, 1, 1), 2, 7)
    labels = Labels(names=str(tmp_path / "list.txt"), classes=6, digits=(0, 1), order=order)
    read = labels.open((1, 1, 6), 2, 7)
    for b in range(2):
        for display in range(9):
            assert read(b, display).argmax() == images(b, display).item()


def test_a_list_that_is_missing_or_empty_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone.txt: this list of classes cannot be read: No such file"):
        Labels(names=NAMES, classes=str(tmp_path / "gone.txt")).gallery()
    (tmp_path / "empty.txt").write_text("# none\n")
    with pytest.raises(InputError, match=r"empty.txt: this list of files is empty"):
        Labels(names=str(tmp_path / "empty.txt"), classes=("a",)).gallery()


def test_a_list_of_classes_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    found = list[Path]()

    def noted(path: Path) -> str:
        found.append(path)
        return read_text(path)

    monkeypatch.setattr("petabatch.sources.labels.read_text", noted)
    Labels(names=NAMES, classes=str(tmp_path / "classes.txt")).gallery()
    assert len(found) == 1
