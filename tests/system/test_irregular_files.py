"""Pipes, devices, sockets and folders are refused at once where a params file or a command names a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from pydantic.fields import FieldInfo

from petabatch import builtins
from petabatch.spec import paths
from petabatch.spec.model import Model
from support.forked import forked_code
from support.irregular_files import COMMANDS, KEYS, KINDS

assert builtins
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
    assert {(name, kind) for name, kind, *_ in found} == set(product([*KEYS, *COMMANDS], KINDS))
    wrong = [one for one in found if not is_answered(*one)]
    assert not wrong


def is_answered(name: str, kind: str, code: int, said: str, seconds: float) -> bool:
    """Return whether the exit code and the words are those for a file that is none, and come at once."""
    of_folder = name.startswith("import") and kind == "folder"  # which is one of parameter files
    of_option = name == "calibration" and kind == "folder"
    expected = 2 if of_option or ((name in KEYS or name in PARAMS) and not of_folder) else 1
    words = WORDS.get(kind, "") if name in KEYS and name != "plugins" else ""
    answered = words in said and "Traceback" not in said and len(said.strip()) > 20
    return code == expected and answered and seconds < 5


def test_the_table_has_each_key_that_names_files() -> None:
    named = {
        (cls, key) for cls in _models(Model) for key, field in cls.model_fields.items() if _names_files(field)
    }
    assert len(named) > 8
    for cls, key in named:
        table = cls.model_fields["type"].default if "type" in cls.model_fields else ""
        mine = [
            text
            for text in KEYS.values()
            if f'{key} = "FILE' in text and f'type = "{table}"' * bool(table) in text
        ]
        assert mine, f"{cls.__name__}.{key}"


def _models(cls: type[Model]) -> Iterator[type[Model]]:
    for one in cls.__subclasses__():
        if one.__module__.startswith("petabatch."):
            yield one
            yield from _models(one)


def _names_files(field: FieldInfo) -> bool:
    return paths._names_files((field.annotation, field.metadata))
