"""Models by name: ``provider:name``."""

import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from torpor.core.errors import Refused, TorporError
from torpor.ports import Model


def resolve(name: str) -> Model:
    """The model that ``provider:name`` names, such as ``openai:gpt-5-mini``.

    ``scripted:package.module:name`` is a ``ScriptedModel``, or replies for one, made by a module. Raises
    ``Refused`` for an unknown provider, an SDK that is not installed, or a script that cannot be found.
    """
    check(name)
    provider, _, rest = name.partition(":")
    return PROVIDERS[provider](rest)


def check(name: str) -> None:
    """Raise ``Refused`` unless a name has the form of one; imports nothing."""
    provider, _, rest = name.partition(":")
    if provider not in PROVIDERS or not rest:
        known = ", ".join(f"{known}:NAME" for known in sorted(PROVIDERS))
        raise Refused(f"{name!r} names no model: write one of {known}")
    if provider == "scripted" and ":" not in rest:
        raise Refused(f"{name!r} names no script: write scripted:package.module:name")


def _openai(name: str) -> Model:
    from torpor.models.openai import OpenAI

    return OpenAI(name)


def _anthropic(name: str) -> Model:
    from torpor.models.anthropic import Anthropic

    return Anthropic(name)


def _scripted(name: str) -> Model:
    from torpor.models.scripted import ScriptedModel

    module, _, attribute = name.rpartition(":")
    value = _attribute(module, attribute)
    return value if hasattr(value, "stream") else ScriptedModel(value, name=f"scripted:{name}")


def _attribute(module: str, attribute: str) -> Any:
    imported = import_by_name(module, f"The script {module}:{attribute}")
    try:
        return getattr(imported, attribute)
    except AttributeError as error:
        raise Refused(f"There is no script {attribute!r} in the module {module!r}.") from error


def import_by_name(module: str, what: str) -> ModuleType:
    """A module that somebody names. ``Refused`` says where its code failed and how, on one line."""
    try:
        return import_module(module)
    except (Exception, SystemExit) as error:
        raise Refused(f"{what} cannot be loaded: {_failure(error)}.") from error


def _failure(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    kind = "" if isinstance(error, TorporError) else f"{type(error).__name__}: "
    text = " ".join(str(error).split()).rstrip(".")
    return f"{_place(error)}{kind}{text}".rstrip(": ")


def _place(error: BaseException) -> str:
    """File and line of the innermost code that is neither ours nor the importing itself."""
    ours = ("<frozen importlib", import_module.__code__.co_filename, str(Path(__file__).parents[1]))
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{one.filename}:{one.lineno}: " for one in frames if not one.filename.startswith(ours)]
    return places[-1] if places else ""


PROVIDERS: dict[str, Callable[[str], Model]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "scripted": _scripted,
}
