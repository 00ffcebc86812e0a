"""Strict JSON: capped, no duplicate keys, no NaN, bounded depth; canonical writing; dataclass reading."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import types
import typing
from typing import Any, NoReturn, TypeVar

from backends.clean import clean
from backends.errors import DamagedError

T = TypeVar("T")
Document = dict[str, Any]

STATUS_LIMIT = 1 << 20  # bytes a node may send in one answer
FEED_LIMIT = 16 << 20  # bytes of a feed
DEPTH_LIMIT = 32


def loads(data: bytes | str, *, what: str, limit: int = STATUS_LIMIT) -> Document:
    """Parse one JSON object; raise DamagedError naming `what` for anything odd.

    Refused: more than `limit` bytes, deeper than 32, duplicate keys, NaN or infinities, integers beyond 2^63,
    a top level that is no object, bytes that are no UTF-8.
    """
    size = len(data)
    if size > limit:
        raise DamagedError(f"{what}: {size} bytes, at most {limit} are read")

    def pairs(items: list[tuple[str, Any]]) -> Document:
        result = dict(items)
        if len(result) != len(items):
            raise ValueError("a key occurs twice")
        return result

    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a number here")

    def integer(text: str) -> int:
        value = int(text) if len(text) <= 20 else 1 << 64
        if not -(1 << 63) <= value < (1 << 63):
            raise ValueError("an integer is out of range")
        return value

    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        _check_depth(text)
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_int=integer)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{what} is not the JSON expected: {clean(error)}") from None
    if not isinstance(value, dict):
        raise DamagedError(f"{what}: a JSON object was expected, found {type(value).__name__}")
    return value


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


def _check_depth(text: str) -> None:
    """Refuse nesting deeper than the limit before the parser recurses into it."""
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > DEPTH_LIMIT:
            raise ValueError(f"nested deeper than {DEPTH_LIMIT}")


def canonical(document: object) -> bytes:
    """The one byte form of a document: sorted keys, no blanks, UTF-8, no NaN. Signatures are taken over it."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8")


def is_canonical(data: bytes, document: object) -> bool:
    """Whether `data` is the one byte form of `document`: no other spelling of a signed record is accepted."""
    try:
        return canonical(document) == data
    except ValueError:  # lone surrogates
        return False


_PLAIN = frozenset({str, int, float, bool, type(None)})


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def to_document(record: Any) -> Document:
    """A dataclass as a plain document (tuples become lists); the reverse of `read`."""

    def plain(value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if dataclasses.is_dataclass(kind):
            return {
                name: item if type(item := getattr(value, name)) in _PLAIN else plain(item)
                for name in _names(kind)
            }
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return {str(key): plain(item) for key, item in value.items()}
        return value

    result = plain(record)
    if not isinstance(result, dict):
        raise TypeError("to_document takes a dataclass instance")
    return result


def read(kind: type[T], document: object, *, what: str, ignore_unknown: bool = False) -> T:
    """Build the dataclass `kind` from a parsed document, checking every type.

    Understands str, int, float (ints accepted), bool, None, Any, nested dataclasses, `X | None`, `list[X]`,
    `tuple[X, ...]`, `dict[str, X]`, Literal. Text is kept as it is: clean it where it is drawn or stored.

    Raises:
        DamagedError: naming `what` and the path of the first wrong, missing or unknown field.
    """
    value = _read(kind, document, what, ignore_unknown)
    return typing.cast(T, value)


def _read(kind: Any, value: Any, path: str, ignore: bool) -> Any:
    if kind is Any:
        return value
    origin, arguments, record = _form(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(kind, value, path, ignore)
    if origin is typing.Literal:
        if value in arguments:
            return value
        _wrong(path, " or ".join(map(repr, arguments)), value)
    if origin in (list, tuple):
        if not isinstance(value, list):
            _wrong(path, "a list", value)
        inner = arguments[0]
        items = [_read(inner, item, f"{path}[{index}]", ignore) for index, item in enumerate(value)]
        return items if origin is list else tuple(items)
    if origin is dict:
        if not isinstance(value, dict):
            _wrong(path, "an object", value)
        inner = arguments[1]
        return {
            key: _read(inner, item, f"{path}.{clean(key, limit=64)}", ignore) for key, item in value.items()
        }
    if record:
        return _read_dataclass(kind, value, path, ignore)
    return _read_scalar(kind, value, path)


def _read_union(kind: Any, value: Any, path: str, ignore: bool) -> Any:
    options = _form(kind)[1]
    if value is None and type(None) in options:
        return None
    errors = []
    for option in options:
        if option is type(None):
            continue
        try:
            return _read(option, value, path, ignore)
        except DamagedError as error:
            errors.append(error)
    raise errors[-1]


@functools.cache
def _form(kind: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Origin and arguments of an annotation, and whether it is a record: asked for every value, told once."""
    return typing.get_origin(kind), typing.get_args(kind), dataclasses.is_dataclass(kind)


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[Any, Any, bool]]:
    """Field → its annotation, the plain type that passes without a further look (None: there is none), whether it is needed."""
    hints = typing.get_type_hints(kind)  # evaluating annotations costs more than reading a record with them
    found = {}
    for field in dataclasses.fields(kind):
        if field.init:
            hint = hints[field.name]
            options = [each for each in _form(hint)[1] or (hint,) if each is not type(None)]
            union = _form(hint)[0] in (typing.Union, types.UnionType)
            single = options[0] if len(options) == 1 and (union or hint is options[0]) else None
            needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            found[field.name] = (hint, single if single in _PLAIN else None, needed)
    return found


def _read_dataclass(kind: Any, value: Any, path: str, ignore: bool) -> Any:
    if not isinstance(value, dict):
        _wrong(path, "an object", value)
    fields = _fields(kind)
    for key in value:
        if key not in fields and not ignore:
            raise DamagedError(f"{path}: unknown field {clean(key, limit=64)!r}")
    arguments = {}
    for name, (hint, plain, needed) in fields.items():
        if name in value:
            item = value[name]
            if plain is not None and type(item) is plain:
                arguments[name] = item
            else:
                arguments[name] = _read(hint, item, f"{path}.{name}", ignore)
        elif needed:
            raise DamagedError(f"{path}: field {name!r} is missing")
    try:
        return kind(**arguments)
    except ValueError as error:
        raise DamagedError(f"{path}: {clean(error)}") from None


def _read_scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is type(None) and value is None:
        return None
    if isinstance(kind, type) and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    return _wrong(path, getattr(kind, "__name__", str(kind)), value)


def _wrong(path: str, expected: str, value: object) -> NoReturn:
    raise DamagedError(f"{path}: {expected} expected, found {clean(value, limit=64)!r}")
