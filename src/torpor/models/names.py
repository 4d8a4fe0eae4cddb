"""Models by name: ``provider:name``."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from torpor.core.errors import Refused
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
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Refused(f"there is no script {attribute!r} in module {module!r}: {error}") from error


PROVIDERS: dict[str, Callable[[str], Model]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "scripted": _scripted,
}
