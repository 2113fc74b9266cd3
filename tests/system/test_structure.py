"""The structure of the code: parts answer for themselves, and one place decides who makes the steps."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import petabatch
from petabatch.engine.steppers import Stepper
from petabatch.spec.model import Part

PACKAGE = Path(petabatch.__file__).parent
STEPPERS = PACKAGE / "engine" / "steppers"


@cache
def sources() -> list[tuple[Path, ModuleType, ast.Module]]:
    """Return every module outside of the steppers' room."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if STEPPERS in path.parents or path.name == "__main__.py":
            continue
        if PACKAGE / "torch" in path.parents and find_spec("torch") is None:
            continue
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        found.append((path, importlib.import_module(name), ast.parse(path.read_text())))
    return found


def types_asked_for(tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    """Yield the types named by `isinstance`, `issubclass` and comparisons with `type(...)`, with lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                named = node.args[1]
                yield from ((node.lineno, one) for one in getattr(named, "elts", [named]))
        elif isinstance(node, ast.Compare):
            both = [node.left, *node.comparators]
            if any(isinstance(one, ast.Call) and getattr(one.func, "id", "") == "type" for one in both):
                for one in both:
                    yield from ((node.lineno, each) for each in getattr(one, "elts", [one]))


def resolve(expression: ast.expr, module: ModuleType) -> object:
    """Return what a name or a dotted name means in a module, None for other expressions."""
    if isinstance(expression, ast.Name):
        return getattr(module, expression.id, None)
    if isinstance(expression, ast.Attribute):
        return getattr(resolve(expression.value, module), expression.attr, None)
    return None


def questions(tree: ast.Module, module: ModuleType) -> list[int]:
    """Return the lines that ask for the type of a part or a stepper."""
    found = []
    for line, expression in types_asked_for(tree):
        kind = resolve(expression, module)
        # `isinstance(x, Part)` tells parts from what is none; it does not tell one part from another.
        if isinstance(kind, type) and issubclass(kind, (Part, Stepper)) and kind is not Part:
            found.append(line)
    return found


def none_tests(tree: ast.Module) -> list[int]:
    """Return the lines that ask whether there is a stepper."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(isinstance(one, ast.Constant) and one.value is None for one in node.comparators)
        and "stepper" in (getattr(node.left, "id", ""), getattr(node.left, "attr", ""))
    ]


def attribute_tests(tree: ast.Module) -> list[int]:
    """Return the lines that ask whether a part has an attribute, instead of asking the part."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in ("hasattr", "getattr")
        and getattr(node.args[0], "id", "") in ("layer", "connection", "probe")
        and isinstance(node.args[1], ast.Constant)
    ]


def test_nobody_outside_of_the_steppers_asks_for_the_type_of_a_part_or_whether_there_is_a_stepper() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path, module, tree in sources()
        for line in (*questions(tree, module), *none_tests(tree), *attribute_tests(tree))
    ]
    assert found == []


def test_the_assembly_alone_makes_engines() -> None:
    benchmarks = (PACKAGE.parent / "benchmarks").glob("*.py")
    trees = [(path, tree) for path, _, tree in sources()]
    trees += [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in benchmarks]
    found = {
        str(path.relative_to(PACKAGE.parent))
        for path, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Engine"
    }
    assert found == {"petabatch/engine/assembly.py"}


def test_the_walk_finds_what_it_looks_for() -> None:
    code = (
        "from petabatch.layers import LCA\n"
        "import petabatch.layers as layers\n"
        "def f(layer, lane):\n"
        "    isinstance(layer, (int, LCA))\n"
        "    type(layer) is layers.FISTA\n"
        "    type(layer) in (int, LCA)\n"
        "    lane.stepper is not None\n"
        "    hasattr(layer, 'threshold')\n"
    )
    module = ModuleType("asking")
    exec(code, module.__dict__)
    tree = ast.parse(code)
    assert questions(tree, module) == [4, 5, 6]
    assert none_tests(tree) == [7]
    assert attribute_tests(tree) == [8]


def names_called(node: ast.AST) -> set[str]:
    """Return the names of the methods and attributes of modules that are called within a node."""
    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return {func.attr for func in calls if isinstance(func, ast.Attribute)}


def test_the_driver_has_the_only_loop_over_sync_events() -> None:
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.While | ast.For) and {"next_sync", "advance"} <= names_called(node):
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"engine/driver.py"}


def test_provenance_is_collected_in_one_place() -> None:
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "metadata.version":
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"storage/provenance.py"}


CONVERTED = {"display", "period", "flush", "checkpoint", "judgement", "evaluation"}
"""Numbers of steps by which steps are divided to count displays, updates or files."""


def name_of(node: ast.expr) -> str:
    """Return the last name of `a`, `a.b` or `a.b(...)`, without underscores."""
    node = node.func if isinstance(node, ast.Call) else node
    return (getattr(node, "id", "") or getattr(node, "attr", "")).strip("_")


def conversions(tree: ast.Module) -> list[int]:
    """Return the lines that convert between steps, displays, updates and t."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            left, right = node.left, node.right
        elif isinstance(node, ast.AugAssign):
            left, right = node.target, node.value
        else:
            continue
        both = [(left, right), (right, left)]
        if isinstance(node.op, ast.Mod | ast.FloorDiv):
            asks = name_of(right) in CONVERTED
        elif isinstance(node.op, ast.Mult):
            asks = any(
                (name_of(one) == "dt" and "step" in ast.unparse(other))
                or (name_of(one) == "display" and "displays" in ast.unparse(other))
                for one, other in both
            )
        else:
            # Time constants over dt are numbers of formulas, not times of steps.
            asks = isinstance(node.op, ast.Div) and name_of(right) == "dt" and "tau" not in ast.unparse(left)
        if asks:
            found.append(node.lineno)
    return sorted(found)


def test_time_has_one_owner() -> None:
    # Compiled steps cannot call it; they say which of its verbs they follow.
    kernels = PACKAGE / "kernels"
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if kernels not in path.parents]
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{line}"
        for path in paths
        for line in conversions(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {one for one in found if not one.startswith("clock.py:")} == set()
    assert found


def test_the_walk_finds_conversions_of_time() -> None:
    code = (
        "t = (step - 1) * dt\n"
        "t = self.dt * ctx.step\n"
        "number = (step - 1) // run.display\n"
        "made = step % self._period\n"
        "length = run.display * displays\n"
        "count = time / dt\n"
        "time //= display\n"
        "k = (tau_e - tau_s) / dt\n"
        "decay = exp(-dt / tau)\n"
        "place = step % depth\n"
        "frame = (display * batch + slice) % count\n"
    )
    assert conversions(ast.parse(code)) == [1, 2, 3, 4, 5, 6, 7]
