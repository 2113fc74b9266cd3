"""The mistakes of a beginner in `mistakes.txt`: each ends with the exit code and message given there."""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from petabatch import cli
from support.commands import SMALL, Command
from support.situations import SITUATIONS

LIST = Path(__file__).with_name("mistakes.txt")


@dataclass
class Mistake:
    """One case of the list."""

    title: str
    situation: list[str] = field(default_factory=list)
    """Functions of `support.situations` that prepare the folder."""
    changes: list[tuple[str, str]] = field(default_factory=list)
    """Lines of the params file and what they become."""
    command: list[str] = field(default_factory=list)
    fresh: bool = False
    """Run in a process of its own."""
    message: list[str] = field(default_factory=list)
    """`...` stands for any text, alone on a line for any lines."""
    code: int = 0


def read(text: str) -> Iterator[Mistake]:
    """Yield the cases of a list in the format that its first lines explain."""
    case: Mistake | None = None
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "==":
            if case is not None:
                yield case
            case = Mistake(rest)
        elif case is None or kind in ("", "#"):
            continue
        elif kind == "given":
            case.situation.append(rest)
        elif kind == "-":
            case.changes.append((rest, ""))
        elif kind == "+":
            old, new = case.changes[-1]
            case.changes[-1] = (old, f"{new}\n{rest}" if new else rest)
        elif kind in ("$", "$$"):
            case.command, case.fresh = shlex.split(rest)[1:], kind == "$$"
        elif kind == "|":
            case.message.append(rest)
        else:
            assert kind == "exit", line
            case.code = int(rest)
    assert case is not None
    yield case


MISTAKES = list(read(LIST.read_text(encoding="utf-8")))


def pattern(message: list[str]) -> str:
    """Return the regular expression of a message."""
    lines = ["(?:.*\n)*?" if line == "..." else f"{re.escape(line)}\n" for line in message]
    return "".join(lines).replace(re.escape("..."), ".*")


@pytest.mark.sampled(32)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_a_mistake_is_answered(
    mistake: Mistake,
    small: Path,
    petabatch: Command,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = small.parent
    monkeypatch.chdir(folder)
    text = SMALL
    for old, new in mistake.changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    small.write_text(text)
    for situation in mistake.situation:
        SITUATIONS[situation](folder)
    if mistake.fresh:
        done = petabatch(*mistake.command)
        code, said = done.returncode, done.stdout + done.stderr
    else:
        code, said = in_this_process(mistake.command, monkeypatch, capfd)
    said = said.replace(f"{folder}/", "FOLDER/").replace(str(folder), "FOLDER")
    if not re.fullmatch(pattern(mistake.message), said):
        pytest.fail(said)
    assert code == mistake.code
    assert "Traceback" not in said


def in_this_process(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Return the exit code of a command, and what it prints."""
    monkeypatch.setattr("petabatch.progress.PATIENCE", math.inf)  # no notice of what takes long
    monkeypatch.setattr(sys, "argv", ["petabatch", *command])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capfd.readouterr()
    assert end.value.code is None or isinstance(end.value.code, int)
    return end.value.code or 0, said.out + said.err


def test_the_list_has_sixty_mistakes_and_no_two_alike() -> None:
    assert len({mistake.title for mistake in MISTAKES}) == len(MISTAKES) >= 60
