"""Short vectors of float32 or float64 in compiled functions: operations a compiler does not find by itself.

Each is the vector form of a line of plain code, named in its docstring; arrays are indexed as if they were
flat, without bounds check or negative indices. Written for no processor in particular: vectors longer or
shorter than its registers work too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from petabatch.kernels.cpu.arrays import place_in

_INT32 = ir.IntType(32)


class Vector(types.Type):  # type: ignore[misc]
    """The type of a vector of `lanes` numbers of a type, as arrays have them."""

    def __init__(self, lanes: int, real: Any) -> None:
        self.lanes, self.real = lanes, real
        super().__init__(f"{real}x{lanes}")


def vector_type(kind: Vector) -> Any:
    """Return the type of a vector in generated code."""
    return ir.VectorType(ir.FloatType() if kind.real == types.float32 else ir.DoubleType(), kind.lanes)


def _bytes(array: Any) -> int:
    """Return how many bytes a number of an array has."""
    found: int = array.dtype.bitwidth // 8
    return found


@register_model(Vector)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, vector_type(kind))


class Operations(NamedTuple):
    """Operations on vectors of one length; to be bound to names and called in compiled functions."""

    zeros: Any
    """zeros(array) = [0, 0, ...] of its type"""
    load: Any
    """load(array, i) = array[i : i + lanes]"""
    store: Any
    """store(array, i, v): array[i : i + lanes] = v"""
    add_to: Any
    """add_to(array, i, v): array[i : i + lanes] += v"""
    broadcast_fma: Any
    """broadcast_fma(total, array, i, v) = total + array[i] * v"""
    scaled: Any
    """scaled(array, i, v) = array[i] * v, rounded whatever is done with it"""
    nonzero: Any
    """nonzero(array, i): bit j of the result says that array[i + j] != 0"""


def operations(lanes: int) -> Operations:
    """Return the operations on vectors of `lanes` numbers, a power of two up to 64."""

    @intrinsic
    def zeros(typing: Any, array: Any) -> Any:
        kind = Vector(lanes, array.dtype)
        nothing = ir.Constant(vector_type(kind), [0.0] * lanes)
        return kind(array), lambda context, builder, signature, args: nothing

    @intrinsic
    def load(typing: Any, array: Any, index: Any) -> Any:
        kind = Vector(lanes, array.dtype)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(_place(context, builder, array, args, kind), align=_bytes(array))

        return kind(array, types.intp), generate

    @intrinsic
    def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[2], _place(context, builder, array, args[:2], value), align=_bytes(array))
            return context.get_dummy_value()

        return types.none(array, types.intp, value), generate

    @intrinsic
    def add_to(typing: Any, array: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer, align = _place(context, builder, array, args[:2], value), _bytes(array)
            builder.store(builder.fadd(builder.load(pointer, align=align), args[2]), pointer, align=align)
            return context.get_dummy_value()

        return types.none(array, types.intp, value), generate

    @intrinsic
    def broadcast_fma(typing: Any, total: Any, array: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = builder.load(place_in(context, builder, array, *args[1:3]), align=_bytes(array))
            return builder.call(_fma(builder, value), [_splat(builder, number, lanes), args[3], args[0]])

        return total(total, array, types.intp, value), generate

    @intrinsic
    def scaled(typing: Any, array: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = builder.load(place_in(context, builder, array, *args[:2]), align=_bytes(array))
            return builder.fmul(_splat(builder, number, lanes), args[2])

        return value(array, types.intp, value), generate

    @intrinsic
    def nonzero(typing: Any, array: Any, index: Any) -> Any:
        kind = Vector(lanes, array.dtype)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = builder.load(_place(context, builder, array, args, kind), align=_bytes(array))
            nothing = ir.Constant(vector_type(kind), [0.0] * lanes)
            bits = builder.bitcast(builder.fcmp_unordered("!=", values, nothing), ir.IntType(lanes))
            return bits if lanes == 64 else builder.zext(bits, ir.IntType(64))

        return types.uint64(array, types.intp), generate

    return Operations(zeros, load, store, add_to, broadcast_fma, scaled, nonzero)


class PairOperations(NamedTuple):
    """Operations on two vectors of one length."""

    fma: Any
    """fma(total, v, w) = total + v * w"""
    horizontal_sum: Any
    """horizontal_sum(v) = sum(v): halves are added until one number is left"""
    below_mask: Any
    """below_mask(x, a, b, i, c, j): bit k of the result says that not b[i + k] > x * a[i + k] + c[j + k]"""
    add: Any
    """add(v, w) = v + w"""


def pair_operations(lanes: int) -> PairOperations:
    """Return the operations on two vectors of `lanes` numbers, a power of two up to 64."""

    @intrinsic
    def fma(typing: Any, total: Any, v: Any, w: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.call(_fma(builder, total), [args[1], args[2], args[0]])

        return total(total, v, w), generate

    @intrinsic
    def horizontal_sum(typing: Any, v: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            (value,), half = args, lanes // 2
            while half:
                order = ir.Constant(ir.VectorType(_INT32, half), [half + j for j in range(half)])
                first = ir.Constant(ir.VectorType(_INT32, half), list(range(half)))
                nothing = ir.Constant(value.type, ir.Undefined)
                value = builder.fadd(
                    builder.shuffle_vector(value, nothing, first),
                    builder.shuffle_vector(value, nothing, order),
                )
                half //= 2
            return builder.extract_element(value, _INT32(0))

        return v.real(v), generate

    @intrinsic
    def below_mask(typing: Any, x: Any, a: Any, b: Any, i: Any, c: Any, j: Any) -> Any:
        kind = Vector(lanes, a.dtype)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def part(index: int, place: int) -> Any:
                given = (args[index], args[place])
                pointer = _place(context, builder, signature.args[index], given, kind)
                return builder.load(pointer, align=_bytes(a))

            terms = [_splat(builder, args[0], lanes), part(1, 3), part(4, 5)]
            limit = builder.call(_fma(builder, kind), terms)
            bits = builder.bitcast(builder.fcmp_unordered("<=", part(2, 3), limit), ir.IntType(lanes))
            return bits if lanes == 64 else builder.zext(bits, ir.IntType(64))

        return types.uint64(a.dtype, a, b, types.intp, c, types.intp), generate

    @intrinsic
    def add(typing: Any, v: Any, w: Any) -> Any:
        return v(v, w), lambda context, builder, signature, args: builder.fadd(*args)

    return PairOperations(fma, horizontal_sum, below_mask, add)


class Block(types.Type):  # type: ignore[misc]
    """The type of a fixed number of values of one type, all in registers."""

    def __init__(self, element: Any, count: int) -> None:
        self.element, self.count = element, count
        super().__init__(f"block({element}, {count})")


@register_model(Block)
class _BlockModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Block) -> None:
        super().__init__(manager, kind, ir.ArrayType(manager[kind.element].get_value_type(), kind.count))


class BlockOperations(NamedTuple):
    """Operations on a block of vectors, which are sums, and one of indices, where each sum reads.

    The vectors are of `lanes` float32, or of half as many float64: so they take as many registers.
    """

    load: Any
    """load(array, i): the vector from array[i] on"""
    zeros: Any
    """zeros(array) = [[0, 0, ...], ...] of its type"""
    starts: Any
    """starts(array, m, start)[k] = start + array[m + k]; beyond its end that of the last number"""
    shift: Any
    """shift(starts, by)[k] = starts[k] + by"""
    fma: Any
    """fma(totals, array, starts, i, v)[k] = totals[k] + array[starts[k] + i] * v"""
    store: Any
    """store(array, i, pitch, totals): the vector from array[i + k * pitch] on = totals[k]"""


def block_operations(lanes: int, count: int) -> BlockOperations:
    """Return the operations on blocks of `count` vectors."""
    index, places = ir.IntType(64), Block(types.intp, count)

    def vector(array: Any) -> Vector:
        return Vector(lanes if array.dtype == types.float32 else lanes // 2, array.dtype)

    @intrinsic
    def load(typing: Any, array: Any, i: Any) -> Any:
        kind = vector(array)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(_place(context, builder, array, args, kind), align=_bytes(array))

        return kind(array, types.intp), generate

    @intrinsic
    def zeros(typing: Any, array: Any) -> Any:
        kind = vector(array)
        value = ir.Constant(ir.ArrayType(vector_type(kind), count), [[0.0] * kind.lanes] * count)
        return Block(kind, count)(array), lambda context, builder, signature, args: value

    @intrinsic
    def starts(typing: Any, array: Any, m: Any, start: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given, first, begin = args
            size = context.make_array(array)(context, builder, given).nitems
            last, found = builder.sub(size, index(1)), ir.Constant(ir.ArrayType(index, count), ir.Undefined)
            for k in range(count):
                own = builder.add(first, index(k))
                own = builder.select(builder.icmp_signed("<", own, last), own, last)
                place = builder.load(place_in(context, builder, array, given, own))
                found = builder.insert_value(found, builder.add(place, begin), k)
            return found

        return places(array, types.intp, types.intp), generate

    @intrinsic
    def shift(typing: Any, begins: Any, by: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found, step = args
            for k in range(count):
                found = builder.insert_value(found, builder.add(builder.extract_value(found, k), step), k)
            return found

        return places(places, types.intp), generate

    @intrinsic
    def fma(typing: Any, totals: Any, array: Any, begins: Any, i: Any, v: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            (found, given, begin, offset, factor), function = args, _fma(builder, v)
            for k in range(count):
                own = builder.add(builder.extract_value(begin, k), offset)
                number = builder.load(place_in(context, builder, array, given, own), align=_bytes(array))
                terms = [_splat(builder, number, v.lanes), factor, builder.extract_value(found, k)]
                found = builder.insert_value(found, builder.call(function, terms), k)
            return found

        return totals(totals, array, places, types.intp, v), generate

    @intrinsic
    def store(typing: Any, array: Any, i: Any, pitch: Any, totals: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given, to, step, values = args
            for k in range(count):
                place = _place(context, builder, array, (given, to), totals.element)
                builder.store(builder.extract_value(values, k), place, align=_bytes(array))
                to = builder.add(to, step)
            return context.get_dummy_value()

        return types.none(array, types.intp, types.intp, totals), generate

    return BlockOperations(load, zeros, starts, shift, fma, store)


def _place(context: Any, builder: Any, array: Any, at: Any, kind: Vector) -> Any:
    """Return the pointer to a vector of a `kind` in an array, `at` = (array, index)."""
    return place_of(context, builder, array, at[0], at[1], vector_type(kind))


def place_of(context: Any, builder: Any, array_type: Any, array: Any, index: Any, kind: Any) -> Any:
    """Return the pointer to a vector of a `kind` in an array, for the code of an intrinsic."""
    return builder.bitcast(place_in(context, builder, array_type, array, index), kind.as_pointer())


def _splat(builder: Any, number: Any, lanes: int) -> Any:
    """Return the vector whose numbers are all this one."""
    nothing = ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined)
    first = builder.insert_element(nothing, number, _INT32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT32, lanes), [0] * lanes))


def _fma(builder: Any, kind: Vector) -> Any:
    """Return the function a * b + c: one rounding where the processor has the instruction, two where not."""
    vector = vector_type(kind)
    function = ir.FunctionType(vector, [vector] * 3)
    name = f"llvm.fmuladd.v{kind.lanes}f{kind.real.bitwidth}"
    return cgutils.get_or_insert_function(builder.module, function, name)


@intrinsic
def lowest_bit(typing: Any, bits: Any) -> Any:
    """Return the number of the lowest bit set in a uint64, 64 if there is none."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Prefetch array[index] into the cache; it need not exist."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(place_in(context, builder, array, *args), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [pointer, _INT32(0), _INT32(3), _INT32(1)])
        return context.get_dummy_value()

    return types.none(array, types.intp), generate
