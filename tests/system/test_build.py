"""The commit that installed copies know."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from petabatch.storage import provenance

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The build hook, with a stand-in for the interface of hatchling, which only builds have."""
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")

    class BuildHookInterface:
        def __init__(self, root: Path) -> None:
            self.root = str(root)

    interface.BuildHookInterface = BuildHookInterface  # type: ignore[attr-defined]
    for name in (
        "hatchling",
        "hatchling.builders",
        "hatchling.builders.hooks",
        "hatchling.builders.hooks.plugin",
    ):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = importlib.util.spec_from_file_location("hatch_build", REPOSITORY / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CommitHook


def git(folder: Path, *arguments: str) -> str:
    name = ("-c", "user.name=x", "-c", "user.email=x@x")
    done = subprocess.run(
        ["git", "-C", str(folder), *name, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_build_includes_its_commit(hook: Any, tmp_path: Path) -> None:
    package = tmp_path / "petabatch"
    package.mkdir()
    (package / "code.py").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")

    def included(version: str) -> str | None:
        build: dict[str, Any] = {"force_include": {}}
        built = hook(tmp_path)
        built.initialize(version, build)
        found = {to: Path(file).read_text() for file, to in build["force_include"].items()}
        built.finalize(version, build, "")
        assert not any(Path(file).exists() for file in build["force_include"])
        return found.get("petabatch/COMMIT")

    assert included("standard") == f"{commit}\n"
    assert included("editable") is None
    (package / "code.py").write_text("changed = True")
    assert included("standard") == f"{commit}+\n"


def test_a_build_from_a_source_distribution_keeps_its_commit(hook: Any, tmp_path: Path) -> None:
    build: dict[str, Any] = {"force_include": {}}
    hook(tmp_path).initialize("standard", build)
    assert build["force_include"] == {}


def test_a_wheel_with_compiled_kernels_is_one_for_a_version_of_python(hook: Any, tmp_path: Path) -> None:
    built: list[dict[str, Any]] = [{"force_include": {}}, {"force_include": {}}]
    hook(tmp_path).initialize("standard", built[0])
    (tmp_path / "petabatch" / "kernels" / "compiled").mkdir(parents=True)
    hook(tmp_path).initialize("standard", built[1])
    assert [build.get("infer_tag", False) for build in built] == [False, True]


def test_an_installed_copy_knows_the_commit_it_was_built_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "storage" / "provenance.py"))
    assert provenance.commit() is None
    (tmp_path / "COMMIT").write_text("0123abc\n")
    assert provenance.commit() == "0123abc"


def test_builds_use_the_hook() -> None:
    assert "[tool.hatch.build.hooks.custom]" in (REPOSITORY / "pyproject.toml").read_text()
