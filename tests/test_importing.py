"""Imports of a command."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from petabatch.importing import importing


def test_nothing_is_collected_while_modules_are_imported() -> None:
    with importing():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collection_goes_on_after_a_failed_import() -> None:
    with pytest.raises(ImportError), importing():
        raise ImportError
    assert gc.isenabled()


def test_collection_stays_off_where_the_caller_has_switched_it_off() -> None:
    gc.disable()
    try:
        with importing():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_command_ends_without_looking_for_garbage_among_its_modules() -> None:
    code = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000, gc.isenabled()))\n"
        "sys.argv = ['petabatch', '--version']\n"
        "from petabatch.main import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True True"


def test_a_virtual_dataset_among_garbage_does_not_crash_the_end_of_a_command(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "import h5py\n"
        "import petabatch.report.command\n"
        "from petabatch.main import main\n"
        "def command(run):\n"
        "    layout = h5py.VirtualLayout((2,), 'f4')\n"
        "    layout[:] = h5py.VirtualSource(run, 'values', shape=(2,))\n"
        "    with h5py.File(run, 'w') as file:\n"
        "        file['values'] = [1.0, 2.0]\n"
        "        file.create_virtual_dataset('virtual', layout)\n"
        "    with h5py.File(run) as file:\n"
        "        garbage = [file['virtual']]\n"
        "        garbage += [garbage, garbage[0][()], garbage[0].virtual_sources()]\n"
        "petabatch.report.command.info = command\n"
        "sys.argv[:1] = ['petabatch', 'info']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.h5")], capture_output=True)
    assert done.returncode == 0, done.stderr
