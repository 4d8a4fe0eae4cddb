"""Models: each only translates requests and chunks. SDKs are imported when a model is first asked."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torpor.models.anthropic import Anthropic
    from torpor.models.names import resolve
    from torpor.models.openai import OpenAI
    from torpor.models.scripted import (
        ScriptedModel,
        call,
        empty,
        fail,
        reason,
        say,
        stall,
        stop,
        tries,
        used,
    )

_HOMES = {
    "Anthropic": "anthropic",
    "OpenAI": "openai",
    "ScriptedModel": "scripted",
    "call": "scripted",
    "empty": "scripted",
    "fail": "scripted",
    "reason": "scripted",
    "resolve": "names",
    "say": "scripted",
    "stall": "scripted",
    "stop": "scripted",
    "tries": "scripted",
    "used": "scripted",
}

__all__ = [
    "Anthropic",
    "OpenAI",
    "ScriptedModel",
    "call",
    "empty",
    "fail",
    "reason",
    "resolve",
    "say",
    "stall",
    "stop",
    "tries",
    "used",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
