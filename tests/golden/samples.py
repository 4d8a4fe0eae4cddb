"""A value of every shape that is ever stored: once with the least in it, once with all fields set."""

import typing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from torpor.core import effects, head, messages, record, signals
from torpor.core.codec import SHAPE

Decoder = typing.Literal["message", "signal", "effect", "record", "head"]

GOLDEN = Path(__file__).parent

UNIONS: dict[Decoder, Any] = {
    "message": messages.Message,
    "signal": signals.AnySignal,
    "effect": effects.Effect,
    "record": record.SliceRecord,
    "head": head.Head,
}


def members(union: Any) -> tuple[type[msgspec.Struct], ...]:
    """The kinds of a union; of one kind, that one."""
    return typing.get_args(union) or (union,)


def samples() -> dict[str, Any]:
    """Values by file name: ``union.kind.least`` and ``union.kind.most``; of notes, every kind."""
    found: dict[str, Any] = {}
    for union, kinds in UNIONS.items():
        for kind in members(kinds):
            notes = members(messages.Note) if kind is messages.Noted else (None,)
            for note in notes:
                name = f"{union}.{kind.__name__}" + (f".{note.__name__}" if note else "")
                found[f"{name}.least"] = build(kind, note, all_fields=False)
                found[f"{name}.most"] = build(kind, note, all_fields=True)
    return found


def file_of(name: str, body: bytes) -> Path:
    """Where a sample is kept: under its shape and a hash of its bytes, so that each generation stays."""
    digest = blake2b(body, digest_size=4).hexdigest()
    return GOLDEN / "shapes" / f"v{SHAPE}" / f"{name}.{digest}.msgpack"


def build(kind: type[msgspec.Struct], note: type[msgspec.Struct] | None = None, *, all_fields: bool) -> Any:
    """A value of a kind, made from the types of its fields."""
    hints = typing.get_type_hints(kind)
    fields = {}
    for field in msgspec.structs.fields(kind):
        if field.required or all_fields:
            hint = note if note is not None and field.name == "note" else hints[field.name]
            fields[field.name] = field.default is not True and _value(hint, field.name, all_fields)
    return kind(**fields)


_PLAIN: dict[Any, Any] = {int: 7, float: 1_764_432_000.25, bool: True}


def _value(hint: Any, name: str, all_fields: bool) -> Any:
    if hint is str:
        return '{"a":[1,2.5,null]}' if name == "arguments" else f"{name} é\U0001f600"
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return build(hint, all_fields=all_fields)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return tuple(_value(kind, name, all_fields) for kind in typing.get_args(inner[0]) or inner[:1])
    if origin is dict:
        return {f"{name}1": _value(inner[1], name, all_fields), "": _value(inner[1], name, False)}
    return _value(next(kind for kind in inner if kind is not type(None)), name, all_fields)
