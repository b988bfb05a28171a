"""Golden vectors of kernels: calls that Python has run, and what came of each.

A package with kernels has a file of them, `vectors.bin`. They say which signatures of a kernel are
compiled ahead, and each process tries them on the machine code that it loads. They are recorded
from calls that tests make, and run by the plain Python function (`make vectors`).

The file is JSON, then the bytes of all arrays, both compressed as one. Names of kernels are without
their package.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from math import isnan
from typing import Any

import numba
import numpy as np

typeof: Any = numba.typeof
FILE_NAME = "vectors.bin"
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Vector:
    """A call of a kernel: its arguments, its result, and the arguments after it."""

    arguments: tuple[Any, ...]
    result: Any
    after: tuple[Any, ...]

    @property
    def types(self) -> tuple[str, ...]:
        """Return the types of its arguments, as numba names them."""
        return tuple(map(str, map(typeof, self.arguments)))

    def holds_for(self, function: Callable[..., Any]) -> bool:
        """Return whether `function` does what Python did, to the last bit."""
        arguments = copied(self.arguments)
        result = function(*arguments)
        return same(result, self.result) and same(arguments, self.after)


@dataclass(frozen=True)
class Partial:
    """An array of which a kernel has filled a part: the rest is whatever lay in the memory."""

    array: np.ndarray
    filled: np.ndarray  # of bools


def copied(value: Any) -> Any:
    """Return the same with arrays of its own, laid out as these are."""
    if isinstance(value, np.ndarray):
        return _laid_out(value, value.flags.writeable, _layout(value))
    if isinstance(value, tuple):
        parts = [copied(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _layout(array: np.ndarray) -> str:
    return "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else "A"


def _laid_out(values: np.ndarray, writeable: bool, layout: str) -> np.ndarray:
    if layout == "A":
        array = np.zeros((*values.shape[:-1], 2 * values.shape[-1] + 2), values.dtype)
        array = array[..., : 2 * values.shape[-1] : 2]
        array[...] = values
    else:
        array = np.array(values, order="F" if layout == "F" else "C")
    array.flags.writeable = writeable
    return array


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal to the last bit. One NaN is as good as another."""
    if isinstance(other, Partial):
        same_form = isinstance(one, np.ndarray) and one.shape == other.array.shape
        return same_form and same(one[other.filled], other.array[other.filled])
    if isinstance(one, np.ndarray):
        if not isinstance(other, np.ndarray) or one.dtype != other.dtype:
            return False
        is_float = one.dtype.kind == "f"
        return np.array_equal(one, other, equal_nan=is_float) and (
            not is_float or np.array_equal(np.signbit(one[one == 0]), np.signbit(other[other == 0]))
        )
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(same, one, other))
    one, other = _plain(one), _plain(other)
    if isinstance(one, float) and isinstance(other, float):
        if isnan(one) or isnan(other):
            return isnan(one) and isnan(other)
        return struct.pack("<d", one) == struct.pack("<d", other)
    return type(one) is type(other) and bool(one == other)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


class Vectors(dict[str, list[Vector]]):
    """The vectors of a package, by the name of their kernel in it, such as "kernel.run"."""

    def to_bytes(self) -> bytes:
        """Return the file."""
        writer = _Writer()
        calls = {
            name: [
                [writer.written(part) for part in (one.arguments, one.result, one.after)]
                for one in self[name]
            ]
            for name in sorted(self)
        }
        head = json.dumps(calls, separators=(",", ":")).encode()
        return zlib.compress(b"".join((_LENGTH.pack(len(head)), head, *writer.parts)), 9)

    @staticmethod
    def from_bytes(data: bytes) -> "StoredVectors":
        """Read a file."""
        data = zlib.decompress(data)
        start = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        calls = json.loads(data[_LENGTH.size : start])
        return StoredVectors(calls, _Reader(memoryview(data)[start:]))


class StoredVectors(Mapping[str, Sequence[Vector]]):
    """The vectors of a file. The vectors of a kernel are read when they are asked for: a command
    loads a few of a package's kernels.
    """

    def __init__(self, calls: dict[str, list[Any]], reader: "_Reader") -> None:
        self._calls, self._reader = calls, reader
        self._read: dict[str, list[Vector]] = {}

    def __getitem__(self, name: str) -> list[Vector]:
        if name not in self._read:
            self._read[name] = [
                Vector(*map(self._reader.read, parts)) for parts in self._calls[name]
            ]
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)


@dataclass
class _Writer:
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def written(self, value: Any) -> Any:
        """Return `value` as JSON has it; bytes are put aside."""
        match value:
            case np.ndarray():
                laid_out = [value.flags.writeable, _layout(value)]
                at = self._put(value.tobytes())
                return ["array", value.dtype.str, list(value.shape), laid_out, at]
            case Partial():
                bits = np.packbits(value.filled).tobytes()
                return ["partial", self.written(value.array), self._put(bits)]
            case np.generic():
                return ["scalar", value.dtype.str, self._put(value.tobytes())]
            case bool() | int() | str() | None:
                return value
            case float():
                return ["float", value.hex()]
            case bytes():
                return ["bytes", self._put(value), len(value)]
            case tuple() if hasattr(value, "_fields"):
                kind = type(value)
                parts = [self.written(part) for part in value]
                return ["named", kind.__module__, kind.__qualname__, parts]
            case tuple():
                return ["tuple", [self.written(part) for part in value]]
        raise TypeError(f"no vector holds a {type(value).__name__}")

    def _put(self, data: bytes) -> int:
        at = self.size
        self.parts.append(data)
        self.size += len(data)
        return at


@dataclass(frozen=True)
class _Reader:
    data: memoryview

    def read(self, value: Any) -> Any:
        match value:
            case ["array", str(kind), list(shape), [bool(writeable), str(layout)], int(at)]:
                return _laid_out(self._array(kind, shape, at), writeable, layout)
            case ["partial", array, int(at)]:
                values = self.read(array)
                bits = self._array("|u1", [-(-values.size // 8)], at)
                filled = np.unpackbits(bits, count=values.size).astype(bool)
                return Partial(values, filled.reshape(values.shape))
            case ["scalar", str(kind), int(at)]:
                return self._array(kind, [], at)[()]
            case ["float", str(digits)]:
                return float.fromhex(digits)
            case ["bytes", int(at), int(size)]:
                return bytes(self.data[at : at + size])
            case ["named", str(module), str(name), list(parts)]:
                return getattr(import_module(module), name)(*map(self.read, parts))
            case ["tuple", list(parts)]:
                return tuple(map(self.read, parts))
        return value

    def _array(self, kind: str, shape: Sequence[int], at: int) -> np.ndarray:
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self.data, kind, count, at).reshape(shape)


@cache
def vectors_of(package: str) -> Mapping[str, Sequence[Vector]]:
    """Return the vectors of a package; none where it has no file."""
    try:
        data = files(package).joinpath(FILE_NAME).read_bytes()
    except FileNotFoundError:
        return {}
    return Vectors.from_bytes(data)


def kernels_of(package: str) -> Iterator[tuple[str, Any]]:
    """Yield each kernel of a package that has vectors, with its name. Imports their modules."""
    for name in vectors_of(package):
        module, _, function = name.rpartition(".")
        yield name, getattr(import_module(f"{package}.{module}"), function)
