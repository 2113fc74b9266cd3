"""Random texts of layers of equations, of all words of the language."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

CALLED = {
    **dict.fromkeys(("exp", "expm1", "exprel", "log", "log1p", "sqrt", "sin", "cos", "tan", "sinh"), 1),
    **dict.fromkeys(("cosh", "tanh", "arctan", "abs", "floor", "ceil", "sign"), 1),
    "min": 2,
    "max": 2,
    "clip": 3,
}
"""Functions, and how many arguments they have."""
_SAFE = ("sin", "cos", "tanh", "arctan", "abs", "floor", "sign", "min", "max", "clip")
"""Those of which constant coefficients are made, which must be finite."""
_SIGNS = ("<", "<=", ">", ">=", "==", "!=")
_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.Pow: "**",
    ast.USub: "negative", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==",
    ast.NotEq: "!=", ast.And: "and", ast.Or: "or", ast.Not: "not", ast.IfExp: "if",
}  # fmt: skip
_KINDS = (
    "variable", "definition", "number", "value per slice", "value of each unit", "current", "t", "dt", "pi",
    "xi", "xi_NAME",
)  # fmt: skip
METHODS = ("exact", "exponential_euler", "euler", "heun", "rk4", "euler_maruyama")
WORDS = (
    *_OPERATORS.values(), *CALLED, "int", *_KINDS, *(f"method {one}" for one in METHODS), "auto", "spike",
    "refractory", "unless refractory", *(f"reset {sign}=" for sign in ("", "+", "-", "*", "/")),
    "t of a reset", "activity", "activity of a name", "activity of dt",
)  # fmt: skip
"""All that can be drawn; functions and operators are counted in the texts."""


@dataclass
class Drawn:
    """The texts of a layer, and what its names are."""

    seed: int
    rng: np.random.Generator = field(repr=False)
    words: Counter[str] = field(default_factory=Counter, repr=False)
    equations: str = ""
    variables: tuple[str, ...] = ()
    currents: tuple[str, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)
    per_slice: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    spike: str | None = None
    reset: str | None = None
    refractory: float | None = None
    activity: str | None = None
    method: str = "auto"
    methods: tuple[str, ...] = ()
    """Those that it may have."""
    dt: float = 0.25
    called: tuple[str, ...] = tuple(CALLED)
    """The functions of its expressions."""

    def chance(self, p: float) -> bool:
        """Return true with some probability."""
        return bool(self.rng.random() < p)

    def one_of(self, *given: str) -> str:
        """Return one of some words."""
        return given[self.rng.integers(len(given))]

    def value(self, depth: int, names: tuple[str, ...], called: tuple[str, ...] = ()) -> str:
        """Return an expression that is a number."""
        called = called or self.called
        if depth == 0 or self.chance(0.15):
            constants = ("pi", "0.1", "2", "1e-3", "0.7", "7", "30.0")
            return self.one_of(*names) if names and self.chance(0.75) else self.one_of(*constants)

        def inner() -> str:
            return self.value(depth - 1, names, called)

        safe = called == _SAFE
        match self.one_of(
            *["sum"] * 3,
            *["called"] * 5,
            *(["%"] if safe else ["/", "%", "**", "**", "**"]),
            "-",
            "if",
            "int",
        ):
            case "sum":
                return f"({inner()} {self.one_of('+', '-', '*')} {inner()})"
            case "called":
                name = self.one_of(*called)
                return f"{name}({', '.join(inner() for _ in range(CALLED[name]))})"
            case "/":
                return f"({inner()} / {inner()})"
            case "%":
                return f"({inner()} % {self.one_of('0.7', '3', '-2.5') if safe else inner()})"
            case "**":
                return f"({inner()} ** {self.one_of('2', '3', '-1', '-2', '0', '0.5', inner())})"
            case "-":
                return f"(-{inner()})"
            case "if":
                return f"({inner()} if {self.condition(depth - 1, names, called)} else {inner()})"
        return f"int({self.condition(depth - 1, names, called)})"

    def condition(self, depth: int, names: tuple[str, ...], called: tuple[str, ...] = ()) -> str:
        """Return an expression that is a condition."""
        called = called or self.called
        match self.rng.integers(6 if depth > 0 else 3):
            case 3:
                return f"(not {self.condition(depth - 1, names, called)})"
            case 4:
                word = self.one_of("and", "or")
                return (
                    f"({self.condition(depth - 1, names, called)} {word} {self.condition(0, names, called)})"
                )
            case 5:
                a, b, c = (self.value(depth - 1, names, called) for _ in range(3))
                return f"({a} {self.one_of(*_SIGNS)} {b} {self.one_of(*_SIGNS)} {c})"
        a, b = (self.value(max(depth - 1, 0), names, called) for _ in range(2))
        return f"({a} {self.one_of(*_SIGNS)} {b})"

    def bounded(self, text: str) -> str:
        """Return an expression that is mostly small."""
        return self.one_of(f"tanh({text})", f"sin({text})", f"clip({text}, -1, 1)", text)


def draw(seed: int) -> Drawn:
    """Return the texts of a layer."""
    one = Drawn(seed, np.random.default_rng(seed))
    one.variables = ("v", "g", "h")[: one.rng.integers(1, 4)]
    one.currents = ("I", "J")[: one.rng.integers(3)]
    one.numbers = {name: float(one.rng.uniform(-1, 2)) for name in ("k", "tau")[: one.rng.integers(1, 3)]}
    one.per_slice = tuple(name for name in one.numbers if one.chance(0.4))
    one.units = ("u",) if one.chance(0.5) else ()
    one.dt = float(one.rng.choice([0.1, 0.25, 1.0]))
    one.called = _SAFE if one.chance(0.5) else one.called  # of which most runs stay finite
    form = one.one_of("exact", "exponential", "any", "any", "noise", "noise")
    if one.chance(0.5):
        one.spike = "_"
        if one.chance(0.6):
            one.refractory = float(one.rng.choice([0.3, 1.0, 2.5]))
    _equations(one, form)
    _events(one)
    _count(one)
    return one


def _equations(one: Drawn, form: str) -> None:
    """Draw the lines of equations, and the method."""
    numbers = (*one.numbers, "dt")
    known = (*numbers, *one.units, *one.currents, *(() if form == "exact" else ("t", "t")))
    lines, definitions = [], list[str]()
    constant = numbers
    if one.chance(0.5):
        lines.append(f"c = {one.value(2, numbers, _SAFE)}  # a number")
        constant, definitions = (*numbers, "c"), ["c"]
    for name in ("w", "s")[: one.rng.integers(3)]:
        inside = known if form == "exact" else (*known, *one.variables, *definitions)
        lines.append(f"{name} = {one.value(2, inside)}")
        definitions.append(name)
    everything = (*known, *one.variables, *definitions)
    outer = tuple(name for name in (*known, *definitions) if form == "exact")
    noisy = form == "noise" or (form != "any" and one.chance(0.2))
    multiplied = form == "noise" and one.chance(0.6)
    for number, name in enumerate(one.variables):
        if form == "exact":
            terms = [
                f"tanh({one.value(1, constant, _SAFE)}) * {other}"
                for other in one.variables
                if one.chance(0.7)
            ]
            right = " + ".join([f"-{name} / 4", *terms, one.bounded(one.value(2, outer))])
        elif form == "exponential":
            others = tuple(other for other in everything if other not in (name, "w", "s"))
            rate = f"({one.value(2, others)})" if one.chance(0.6) else f"tanh({one.value(2, numbers, _SAFE)})"
            right = f"-(1 + {rate}) * {name} + {one.bounded(one.value(2, others))}"
            right = f"{right} - {name} / 3" if one.chance(0.3) else right
        else:
            right = f"-{name} / 3 + {one.bounded(one.value(3, everything))}"
        if noisy:
            noise = f"xi_{number}" if form == "exact" or one.chance(0.5) else "xi"
            inside = everything if multiplied else tuple(n for n in numbers if form == "exact" or n != "t")
            factor = (
                f"(0.3 + abs({one.value(1, inside, _SAFE)}))"
                if form == "exact"
                else one.bounded(one.value(1, inside, _SAFE))
            )
            right += f" + {factor} * {noise}"
        paused = one.refractory is not None and one.chance(0.5)
        right = f"({right}\n  )" if one.chance(0.1) else right
        lines.insert(
            one.rng.integers(len(lines) + 1),
            f"d{name}/dt = {right}{' : unless refractory' if paused else ''}",
        )
    one.equations, one.definitions = "\n".join(lines), tuple(definitions)
    one.variables = tuple(sorted(one.variables, key=lambda name: one.equations.index(f"d{name}/dt")))
    explicit = ("euler", "heun", "rk4")
    one.methods = {
        "exact": ("exact", "exponential_euler", *explicit),
        "exponential": ("exponential_euler", "exact", *explicit),
        "any": ("exact", "exponential_euler", *explicit),
        "noise": explicit,
    }[form]
    if noisy:
        one.methods = ("euler_maruyama",) if multiplied else (*one.methods, "euler_maruyama")
    suited = {"exact": ("exact", "exact", *explicit), "exponential": ("exponential_euler", *explicit)}.get(
        form, explicit
    )
    suited = (*suited, "euler_maruyama") if noisy else suited
    one.method = "auto" if one.chance(0.4) else "euler_maruyama" if multiplied else one.one_of(*suited)


def _events(one: Drawn) -> None:
    """Draw the condition of a spike and its reset, or the activity."""
    seen = (*one.variables, *one.definitions, *one.numbers, *one.units, "t", "dt")
    first = one.variables[0]
    if one.spike is not None:
        one.spike = f"{first} > 0.3" if one.chance(0.5) else one.condition(2, seen)
        if one.chance(0.8):
            inside = (*one.variables, *one.numbers, *one.units, "t", "dt")
            statements = []
            for _ in range(one.rng.integers(1, 4)):
                sign = one.one_of("", "", "+", "-", "*", "/")
                statements.append(f"{one.one_of(*one.variables)} {sign}= {one.bounded(one.value(2, inside))}")
            one.reset = one.one_of("; ", "\n").join(statements)
    elif one.chance(0.7):
        one.activity = one.one_of(*seen) if one.chance(0.3) else one.value(2, seen)


def _count(one: Drawn) -> None:
    """Count the words of the texts."""
    kinds = {
        **dict.fromkeys(one.variables, "variable"), **dict.fromkeys(one.definitions, "definition"),
        **dict.fromkeys(one.numbers, "number"), **dict.fromkeys(one.per_slice, "value per slice"),
        **dict.fromkeys(one.units, "value of each unit"), **dict.fromkeys(one.currents, "current"),
        "t": "t", "dt": "dt", "pi": "pi", "xi": "xi", **{f"xi_{n}": "xi_NAME" for n in range(3)},
    }  # fmt: skip
    lines = one.equations.replace("\n  )", ")").split("\n")
    rights = [line.split("#")[0].split("=", 1)[1].split(":")[0] for line in lines]
    resets = [] if one.reset is None else one.reset.replace(";", "\n").split("\n")
    rights += [one.spike or "", one.activity or "", *(line.split("=", 1)[1] for line in resets)]
    for text in filter(str.strip, rights):
        for node in ast.walk(ast.parse(text.strip(), mode="eval")):
            if isinstance(node, ast.Call):
                assert isinstance(node.func, ast.Name)
                one.words[node.func.id] += 1
            elif isinstance(node, ast.Name) and node.id in kinds:
                one.words[kinds[node.id]] += 1
            else:
                one.words.update(word for kind, word in _OPERATORS.items() if isinstance(node, kind))
    one.words["auto"] += one.method == "auto"
    one.words["spike"] += one.spike is not None
    one.words["refractory"] += one.refractory is not None
    one.words["unless refractory"] += "unless" in one.equations
    one.words.update(f"reset {line.split('=', 1)[0].strip()[1:].strip()}=" for line in resets)
    one.words["t of a reset"] += any(
        "t" in line.split("=", 1)[1].replace("(", " ").split() for line in resets
    )
    one.words["activity"] += one.activity is not None
    one.words["activity of a name"] += (one.activity or "") in kinds
    one.words["activity of dt"] += "dt" in (one.activity or "").replace("(", " ").replace(")", " ").split()
