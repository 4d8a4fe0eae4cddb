"""JSON Schema for tools: made from a Python function, checked, and compiled into a check of arguments.

`describe` reads a signature and a docstring. `check_schema` and `compile_schema` take any schema,
a stranger's included: no reference is ever fetched, and every answer is bounded.
"""

import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import jsonschema_rs
import msgspec

from torpor.tools.effort import Effort

MOST_VIOLATIONS = 10
LONGEST_VIOLATION = 300
BACKTRACK_LIMIT = 100_000

_SECTION = re.compile(
    r"^(args|arguments|parameters|returns|raises|yields|examples?|notes?):\s*$", re.IGNORECASE
)
_ARGUMENT = re.compile(r"^(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_ROOT = "__arguments__"


@dataclass(frozen=True, slots=True)
class Description:
    """What a function looks like as a tool.

    `schema` is a JSON Schema (draft 2020-12) of an object. `bind` turns arguments of that shape into
    typed keyword arguments and raises ValueError, saying where, if they do not fit. `context` names the
    parameter that takes a skipped type (None if there is none); the caller fills it in itself.
    """

    name: str
    description: str
    schema: dict[str, Any]
    bind: Callable[[dict[str, Any]], dict[str, Any]]
    context: str | None = None


def describe(function: Callable[..., Any], *, skip: Sequence[type] = ()) -> Description:
    """Read name, description and schema of a tool from a function.

    The first paragraph of the docstring is the description; its `Args:` section and
    `Annotated[..., "text"]` describe parameters. A parameter whose type is in `skip` stays out of the schema.

    Raises TypeError for a signature that cannot be called with a JSON object.
    """
    name = getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise TypeError("a tool needs a named function; a lambda or partial has no name to offer")
    hints = _hints(function, name)
    context: str | None = None
    fields: dict[str, tuple[Any, Any]] = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = _checked(parameter, hints, name)
        if _is_skipped(kind, skip):
            if context is not None:
                raise TypeError(
                    f"tool {name}: parameters {context} and {parameter.name} both take the context"
                )
            context = parameter.name
        else:
            fields[parameter.name] = (kind, parameter.default)
    summary, documented = _docstring(inspect.getdoc(function) or "")
    shape = _shape(name, fields)
    schema = _object_schema(name, shape, documented)
    return Description(name, summary or name.replace("_", " "), schema, _binder(shape), context)


def check_schema(schema: object) -> list[str]:
    """Say what is wrong with a tool's input schema; an empty list means nothing is."""
    if not isinstance(schema, dict):
        return ["an input schema is a JSON object"]
    if not Effort(schema).is_bounded():
        return ["its references go in circles, or lead to the same place too often"]
    try:
        _validator(schema)
    except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
        return [_cut(str(error).split("\n", 1)[0] or "the schema cannot be used")]
    return []


def fits(schema: str, value: object) -> list[str]:
    """What is wrong with a value by a schema given as JSON text; see ``compile_schema``."""
    try:
        return compile_schema(msgspec.json.decode(schema, type=dict[str, Any]))(value)
    except (ValueError, RecursionError) as error:
        return [_cut(f"the schema cannot be used: {error}")]


def compile_schema(schema: dict[str, Any]) -> Callable[[object], list[str]]:
    """Make a function that lists how a value violates `schema` (an empty list: it conforms).

    The function takes JSON text (bytes or str) or a parsed value. It gives at most ten violations of
    at most 300 characters, each with the place. Raises ValueError if the schema itself is unusable;
    references to other documents count as unusable and are never fetched.
    """
    problems = check_schema(schema)
    if problems:
        raise ValueError(f"unusable schema: {problems[0]}")
    validator = _validator(schema)
    effort = Effort(schema)

    def violations(value: object) -> list[str]:
        try:
            parsed = msgspec.json.decode(value) if isinstance(value, (bytes, str)) else value
            if not effort.fits(parsed, len(value) if isinstance(value, (bytes, str)) else math.inf):
                return ["too much nested in each other, or too large, to be checked against the schema"]
            return list(_violations(validator, parsed))
        except (ValueError, RecursionError) as error:
            return [_cut(f"not usable as JSON: {error}")]

    return violations


def _validator(schema: dict[str, Any]) -> Any:
    patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT)
    return jsonschema_rs.validator_for(schema, offline=True, pattern_options=patterns)


def _violations(validator: Any, value: object) -> Iterator[str]:
    for count, error in enumerate(validator.iter_errors(value)):
        if count == MOST_VIOLATIONS:
            yield "and more"
            return
        place = "/".join(str(step) for step in error.instance_path)
        yield _cut(f"at {place}: {error.message}" if place else error.message)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VIOLATION else text[: LONGEST_VIOLATION - 2] + " …"


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError:
        pass
    # Types defined inside the function that decorates are visible only in its frame.
    try:
        return typing.get_type_hints(function, localns=_names_in_callers(), include_extras=True)
    except NameError as error:
        raise TypeError(
            f"tool {name}: {error}; annotate with types visible where the tool is defined"
        ) from None


def _names_in_callers() -> dict[str, Any]:
    names: dict[str, Any] = {}
    frame: types.FrameType | None = inspect.currentframe()
    while frame is not None:
        for key, value in frame.f_locals.items():
            names.setdefault(key, value)
        frame = frame.f_back
    return names


def _checked(parameter: inspect.Parameter, hints: Mapping[str, Any], tool: str) -> Any:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(f"tool {tool}: *{parameter.name} has no place in a JSON object; name each parameter")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError(
            f"tool {tool}: parameter {parameter.name} is positional-only; tools are called by name"
        )
    if parameter.name not in hints:
        raise TypeError(f"tool {tool}: parameter {parameter.name} needs a type annotation")
    return hints[parameter.name]


def _is_skipped(kind: Any, skip: Sequence[type]) -> bool:
    if typing.get_origin(kind) is Annotated:
        return _is_skipped(typing.get_args(kind)[0], skip)
    if isinstance(kind, type):
        return issubclass(kind, tuple(skip))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(_is_skipped(part, skip) for part in typing.get_args(kind))
    return False


def _shape(name: str, fields: Mapping[str, tuple[Any, Any]]) -> type[msgspec.Struct]:
    specs = [(parameter, _described(kind), _field(default)) for parameter, (kind, default) in fields.items()]
    try:
        return msgspec.defstruct(_ROOT, specs, forbid_unknown_fields=True, kw_only=True)
    except (TypeError, ValueError) as error:
        raise TypeError(f"tool {name}: {error}") from None


def _field(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return msgspec.field()
    if isinstance(default, (list, dict, set, bytearray)):
        return msgspec.field(default_factory=default.copy)
    try:
        msgspec.json.encode(default)
    except (TypeError, ValueError):
        # A factory keeps a default without JSON form out of the schema.
        return msgspec.field(default_factory=lambda: default)
    return msgspec.field(default=default)


def _described(kind: Any) -> Any:
    """Turn Annotated[T, "text"] into what msgspec reads as a description."""
    if kind is object:
        return Any
    if typing.get_origin(kind) is not Annotated:
        return kind
    inner, *notes = typing.get_args(kind)
    text = " ".join(note for note in notes if isinstance(note, str))
    kept = [note for note in notes if isinstance(note, msgspec.Meta)]
    metas = [msgspec.Meta(description=text), *kept] if text else kept
    for meta in metas:
        inner = Annotated[inner, meta]
    return inner


def _object_schema(name: str, shape: type[msgspec.Struct], documented: Mapping[str, str]) -> dict[str, Any]:
    try:
        _, components = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    except (TypeError, ValueError):
        raise TypeError(f"tool {name}: {_formless(shape)}") from None
    schema: dict[str, Any] = components.pop(_ROOT)
    schema.pop("title", None)
    for parameter, text in documented.items():
        if parameter in schema["properties"]:
            schema["properties"][parameter].setdefault("description", text)
    for definition in components.values():
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    if components:
        schema["$defs"] = components
    problems = check_schema(schema)
    if problems:
        raise TypeError(f"tool {name}: its schema is invalid: {problems[0]}")
    return schema


def _formless(shape: type[msgspec.Struct]) -> str:
    """Which parameter has a type that cannot be described, and what can."""
    for field in msgspec.structs.fields(shape):
        try:
            msgspec.json.schema(field.type)
        except (TypeError, ValueError):
            kind = field.type.__name__ if isinstance(field.type, type) else str(field.type)
            return (
                f"the type of parameter {field.name} ({kind}) cannot be put in a JSON Schema; "
                "use str, int, float, bool, list, dict, Literal, one dataclass, TypedDict or msgspec struct"
            )
    return "its parameters cannot be put in a JSON Schema"


def _binder(shape: type[msgspec.Struct]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    names = shape.__struct_fields__

    def bind(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = msgspec.convert(arguments, shape)
        except msgspec.ValidationError:
            # JSON Schema counts 1.0 as an integer, msgspec does not.
            bound = msgspec.convert(_integral(arguments), shape)
        return {name: getattr(bound, name) for name in names}

    return bind


def _integral(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _integral(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_integral(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into its first paragraph and the descriptions of its parameters."""
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading:
            current = heading.group(1).lower()
        sections.setdefault(current, []).append("" if heading else line)
    paragraph = "\n".join(sections[""]).strip().split("\n\n", 1)[0]
    lines = next((sections[key] for key in ("args", "arguments", "parameters") if key in sections), [])
    return " ".join(paragraph.split()), _parameters(lines)


def _parameters(lines: Sequence[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    indent, current = None, ""
    for line in lines:
        stripped = line.strip()
        if not stripped:
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        found = _ARGUMENT.match(stripped) if depth <= indent else None
        if found:
            current = found.group(1)
            texts[current] = found.group(2)
        elif current:
            texts[current] = f"{texts[current]} {stripped}".strip()
    return texts
