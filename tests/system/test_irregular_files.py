"""Pipes, devices, sockets and folders are refused at once where a params file or a command names a file."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

from support.forked import forked_code
from support.irregular_files import COMMANDS, KEYS, KINDS

SOURCE = "from support.irregular_files import main; main()"
PARAMS = {
    "check", "check .params", "run .py", "draw", "bench",
    "import", "import .lua", "module of Lua", "inputPath",
}  # fmt: skip
"""Commands of which FILE is the params file, or named by it."""
WORDS = {"pipe": "it is a pipe, not a file", "zero": "it is a device, not a file"}


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    done = forked_code(SOURCE, tmp_path)
    assert done.returncode == 0, done.stderr.splitlines()[-1]  # the name of the case that took too long
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(name, kind) for name, kind, _, _ in found} == set(product([*KEYS, *COMMANDS], KINDS))
    wrong = [one for one in found if not is_answered(*one)]
    assert not wrong


def is_answered(name: str, kind: str, code: int, said: str) -> bool:
    """Return whether the exit code and the words are those for a file that is none."""
    of_folder = name.startswith("import") and kind == "folder"  # which is one of parameter files
    expected = 2 if (name in KEYS or name in PARAMS) and not of_folder else 1
    words = WORDS.get(kind, "") if name in KEYS and name != "plugins" else ""
    return code == expected and words in said and "Traceback" not in said and len(said.strip()) > 20
