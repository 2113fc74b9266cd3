"""Base classes of params models, and the `type` discriminator that plug-ins can extend."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from petabatch.arrays import as_numpy, described, is_array
from petabatch.errors import ArgumentError, Problem, TableError, did_you_mean, with_article
from petabatch.spec.docstrings import docstrings
from petabatch.spec.memory import stored
from petabatch.spec.signature import Readable

Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
LARGEST = 2**53
"""Largest whole number of a params file: it and its sums with others are exact in every format."""
Count = Annotated[int, Field(strict=True, ge=1, le=LARGEST)]
Index = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
Offset = Annotated[int, Field(strict=True, ge=-LARGEST, le=LARGEST)]
Fraction = Annotated[float, Field(strict=True, ge=0, le=1)]

Flag = Annotated[bool, Field(strict=True)]


DERIVED = "derived"
"""Key of what a run has stored of the derivations of its parts, in the context of their validation."""
CONSENT = "the file is not below the current directory; --allow-code executes its code, if you trust it"
"""Hint where code was not executed."""


_PYTHONS = frozenset((int, float, str, bool, type(None)))
_PYDANTIC = frozenset(dir(BaseModel))


class Model(BaseModel, metaclass=Readable):
    """An immutable table of parameters; unknown keys, wrong types and values out of range are errors."""

    # A table's validator is built when the table is first used: a network uses few of the types there are.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="strings")

    @model_validator(mode="before")
    @classmethod
    def _plain_numbers(cls, data: Any, info: ValidationInfo) -> Any:
        """Take numbers of any library, arrays of them in place of lists, and paths for those of Python.

        Plug-ins get back the arrays of a run that is resumed.
        """
        if not isinstance(data, dict):
            return data
        folder, fields = (info.context or {}).get("arrays"), cls.model_fields
        if folder is not None and not is_built_in(cls):
            data = {key: _with_arrays(value, folder) for key, value in data.items()}
        return {
            key: _plain(value, fields[key].annotation if key in fields else None)
            for key, value in data.items()
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the keys by their docstrings."""
        found = handler(schema)
        properties = handler.resolve_ref_schema(found).get("properties", {})
        for key, text in docstrings(cls).items():
            properties[key]["description"] = text
        return found

    def draws_from(self, key: str) -> bool:
        """Return whether what is drawn before the first step follows from a number under `key`."""
        return False

    def __init__(self, *values: Any, **keys: Any) -> None:
        """Build a table in Python; raises TableError with every error found."""
        name = type(self).__name__
        if values:
            found = ", ".join(repr(value)[:40] for value in values)
            first = next((key for key in type(self).model_fields if key != "type"), "key")
            hint = f"{name}({first}=...)"
            problem = Problem("", "values are given without their keys", found, "key=value", hint)
            raise TableError([problem], name)
        try:
            super().__init__(**keys)
        except ValidationError as error:
            raise TableError(_problems(error, type(self), keys), name) from None

    def __copy__(self) -> Self:
        """Return a table with the same keys, without what has been derived of them."""
        made, fields = type(self).__new__(type(self)), type(self).__pydantic_fields__
        kept = {key: value for key, value in vars(self).items() if key in fields or key[0] == "_"}
        object.__setattr__(made, "__dict__", kept)
        object.__setattr__(made, "__pydantic_extra__", None)
        object.__setattr__(made, "__pydantic_fields_set__", set(self.__pydantic_fields_set__))
        object.__setattr__(made, "__pydantic_private__", None)
        return made

    @property
    def context(self) -> Mapping[str, Any]:
        """What it is validated with, beside its keys."""
        return {}

    def __dir__(self) -> list[str]:
        """Return what users need: the keys, and what the table says of itself, without pydantic's names."""
        return [name for name in super().__dir__() if not name.startswith("_") and name not in _PYDANTIC]

    # pydantic would otherwise validate nested tables by this method, too, and lose their context.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: object) -> None:
        table = type(self).__name__
        hint = f"make another one: {table}(**{{**dict(table), {name!r}: ...}})"
        raise TableError([Problem(name, "a table cannot be changed", repr(value)[:80], hint=hint)], table)


def is_built_in(part: type) -> bool:
    """Return whether a class is petabatch's own, and not of a plug-in."""
    return part.__module__.partition(".")[0] == "petabatch"


class Part(Model):
    """A table whose class is selected by its `type` key; each subclass with a literal `type` is one choice.

    Importing the module that defines a subclass registers it.
    """

    kind: ClassVar[str] = "part"
    answers: ClassVar[tuple[str, ...]] = ()
    """Methods and properties by which exactly this class answers for itself: its subclasses do not inherit
    the answer, since what they override may make it wrong, but that of the abstract base class."""
    elsewhere: ClassVar[tuple[str, ...]] = ()
    """What other programs call the type, for hints."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Give back the base class's answers to a subclass that does not answer for itself."""
        super().__pydantic_init_subclass__(**kwargs)
        for name in cls.answers:
            if name not in cls.__dict__:
                base = next(b for b in reversed(cls.__mro__) if name in b.__dict__)
                setattr(cls, name, base.__dict__[name])
        if not is_built_in(cls):
            cls.model_rebuild(raise_errors=False)  # errors of a plug-in are found when it is imported

    @classmethod
    def hint(cls, value: Any) -> str:
        """Return how what is given in place of a table becomes one, where that is likely meant."""
        known = isinstance(value, str) and value in cls.choices()
        return f'write {{ type = "{value}" }}' if known else ""

    def doubts(self, dt: float, batch: int, steps: int) -> Iterable[str]:
        """Return notes on what is allowed and hardly meant, for so many slices and steps of length `dt`."""
        return ()

    @classmethod
    def table(cls, value: Any) -> Any:
        """Return the table that a value of Python stands for, or the value where it stands for none."""
        return value

    @classmethod
    def choices(cls) -> dict[str, type[Part]]:
        """Return all concrete subclasses imported so far, by the value of their `type` key."""
        return {name: parts[-1] for name, parts in cls.named().items()}

    @classmethod
    def named(cls) -> dict[str, list[type[Part]]]:
        """Return the same with all classes of a type, but for those that inherit it or have an empty one."""
        found: dict[str, list[type[Part]]] = {}
        for part in _subclasses(cls):
            default = part.model_fields["type"].default if "type" in inspect.get_annotations(part) else None
            if isinstance(default, str) and default and not inspect.isabstract(part):
                found.setdefault(default, []).append(part)
        return dict(sorted(found.items()))


def _with_arrays(value: Any, folder: Path) -> Any:
    """Return a value of the params of a run with the arrays that its texts stand for."""
    if isinstance(value, list):
        return [_with_arrays(one, folder) for one in value]
    if isinstance(value, dict):
        return {key: _with_arrays(one, folder) for key, one in value.items()}
    found = stored(value, folder)
    return value if found is None else found


def _plain(value: Any, annotation: Any = None) -> Any:
    """Return numbers and paths as Python's own; an array as a list where `annotation` has a tuple."""
    if type(value) in _PYTHONS:
        return value
    if getattr(value, "ndim", None) == 0 or (
        getattr(value, "ndim", None) == 1 and is_array(value) and _is_tuple(annotation)
    ):
        try:
            return as_numpy("value", value).tolist()
        except ArgumentError:
            return value  # which is refused with the key
    if type(value) in (list, tuple):
        found = [_plain(one) for one in value]
        # The same object where nothing changed: a plug-in may hold on to a list.
        return value if all(a is b for a, b in zip(found, value, strict=True)) else type(value)(found)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


def _is_tuple(annotation: Any) -> bool:
    """Return whether a field may be a tuple."""
    return get_origin(annotation) is tuple or any(map(_is_tuple, get_args(annotation)))


def _problems(error: ValidationError, model: type[Model], keys: dict[str, Any]) -> list[Problem]:
    from petabatch.spec.all_problems import all_problems  # which needs this module

    return all_problems(error, model, keys).problems


def _hint(name: str, choices: dict[str, list[type[Part]]]) -> str:
    """Return which type may be meant by a name that none has."""
    elsewhere = {
        other: one for one, parts in choices.items() for other in vars(parts[-1]).get("elsewhere", ())
    }
    if name in elsewhere:
        return f"did you mean {elsewhere[name]}?"
    kinds = [base.kind for base in Part.__subclasses__() if name in base.choices()]
    return f"it is a type of {kinds[0]}" if kinds else did_you_mean(name, choices)


def _subclasses(cls: type[Part]) -> Iterator[type[Part]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


class OneOf:
    """Annotation for a table of the given kind of part, validated by the class that its `type` selects."""

    def __init__(self, base: type[Part]) -> None:
        self.base = base

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Look up the choices at validation, so that plug-ins are included."""
        return core_schema.with_info_plain_validator_function(
            self._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda part: part.model_dump()),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return a placeholder that `petabatch.spec.schema` replaces by the choices."""
        return {"part": self.base.kind}

    def _choices(self, value: Any) -> dict[str, list[type[Part]]]:
        """Return the choices; the built-in ones are imported if `value` names none of those imported."""
        choices = self.base.named()
        if isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in choices:
            return choices
        import_module("petabatch.builtins")  # by name, as a plug-in: this module comes before all types
        return self.base.named()

    def _validate(self, value: Any, info: core_schema.ValidationInfo) -> Part:
        if isinstance(value, self.base):
            return value
        value = self.base.table(value)
        choices = self._choices(value)
        listed = ", ".join(choices)
        if not isinstance(value, dict):
            hint = f"make one: {value.__name__}(...)" if isinstance(value, type) else self.base.hint(value)
            raise PydanticCustomError(
                "not_a_table",
                "a table with a `type` is required here",
                {
                    **({"got": str(described(value))} if is_array(value) else {}),
                    "expected": f"{with_article(self.base.kind)} table; types: {listed}",
                    "hint": hint,
                },
            )
        if "type" not in value:
            raise PydanticCustomError(
                "type_missing",
                "the `type` of this {kind} is missing",
                {"kind": self.base.kind, "expected": listed},
            )
        parts = choices.get(value["type"]) if isinstance(value["type"], str) else None
        if parts is None and (info.context or {}).get("not executed"):
            raise PydanticCustomError(
                "type_unknown",
                "this type of {kind} is not built in, and plug-ins were not executed",
                {
                    "kind": self.base.kind,
                    "got": repr(value["type"]),
                    "expected": listed,
                    "hint": CONSENT,
                },
            )
        if parts is None:
            raise PydanticCustomError(
                "type_unknown",
                "there is no {kind} of this type",
                {
                    "kind": self.base.kind,
                    "got": repr(value["type"]),
                    "expected": listed,
                    "hint": _hint(str(value["type"]), choices),
                },
            )
        built_in = [part for part in parts if is_built_in(part)]
        if built_in and len(parts) > 1:
            names = " and ".join(f"{part.__module__}.{part.__qualname__}" for part in parts)
            raise PydanticCustomError(
                "type_ambiguous",
                "the type of a plug-in is that of a built-in {kind}",
                {
                    "kind": self.base.kind,
                    "got": repr(value["type"]),
                    "expected": "a type of its own for each class",
                    "hint": f"these classes have it: {names}",
                },
            )
        return parts[-1].model_validate(value, context=info.context)
