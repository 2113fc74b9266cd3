"""What others have named is printed with control characters escaped, whichever command prints it."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import pytest

import petabatch
from petabatch import logs
from petabatch.errors import PetabatchError, StorageError, printable
from petabatch.main import main
from support.commands import SMALL, alone
from support.sealing import reseal

EVIL = "\x1b]0;mine\x07\x1b[2J\x9b31m\u202e"
CONTROL = set(EVIL) - set("]0;mine[2J31m")


def test_control_characters_are_escaped_and_everything_else_is_left() -> None:
    assert printable("a\x1b[2Jb\rc\x9bd\u202ee\udcff") == "a\\x1b[2Jb\\rc\\x9bd\\u202ee\\udcff"
    text = "two\nlines\twith µ, ü, ×, …, 漢字\u3000and \xa0"
    assert printable(text) == text
    assert str(PetabatchError("\x1b[2J")) == "\\x1b[2J"


def test_no_command_prints_a_control_character(
    small: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def call(*arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", ["petabatch", *map(str, arguments)])
        with pytest.raises(SystemExit):
            main()
        said = "".join(capfd.readouterr())
        assert "\\x1b" in said
        assert not CONTROL & set(said)

    monkeypatch.chdir(small.parent)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # which the command line replaces
    toml = EVIL.encode("unicode_escape").decode().replace("\\x", "\\u00")
    small.write_text(f'title = "{toml}"\nplugins = ["{toml}.py"]\n' + SMALL)
    call("check", small)
    named = SMALL.replace("layers.recon]", f'layers."recon{toml}"]').replace('"recon"', f'"recon{toml}"')
    small.write_text(f'title = "{toml}"\n' + named.replace("recon =", f'"recon{toml}" ='))
    call("check", small, "--explain")
    call("draw", small)
    call("check", small, "-s", f"layers.V1.{EVIL}=1")
    call("run", small, "--out", small, "-s", f"layers.V1.{EVIL}=1")
    call("info", EVIL)
    call("info", small, EVIL)
    call("check", small, EVIL)
    call(EVIL)
    call("run", small, f"--{EVIL}")
    call("run", small, "--device", EVIL)
    call("check", f"{EVIL}.toml")
    small.write_text(f'title = "{toml}"\n' + SMALL)
    out = alone(small, "out", "run.displays=1")
    call("info", out)
    with h5py.File(out / "run.h5", "r+") as file:
        file.attrs["status"] = EVIL
    reseal(out / "run.h5")
    theirs = out.rename(out.parent / EVIL.rstrip("\u202e"))
    call("verify", theirs)
    out = theirs.rename(out)
    with petabatch.open(out) as run:
        assert not CONTROL & set(repr(run))
        assert "\\x1b" in repr(run)
    with pytest.raises(StorageError, match=r"\\x1b"):
        petabatch.open(out / EVIL)


def test_the_log_holds_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.console(quiet=False)
    with logs.to_file(tmp_path / "log.txt", 0):
        logs.log.warning("file %s", EVIL)
    for text in (capsys.readouterr().err, (tmp_path / "log.txt").read_text()):
        assert "file \\x1b]0;mine" in text
        assert not CONTROL & set(text)
