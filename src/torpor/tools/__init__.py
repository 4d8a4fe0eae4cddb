"""Tools: Python functions, the protocol of tool servers, and the kit for writing one.

Names are loaded when they are first used, so that a program pays only for the parts it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torpor.tools.callbacks import Callbacks as Callbacks
    from torpor.tools.catalog import RapServer as RapServer
    from torpor.tools.client import HttpTransport as HttpTransport
    from torpor.tools.functions import FunctionTool as FunctionTool
    from torpor.tools.functions import ToolContext as ToolContext
    from torpor.tools.functions import tool as tool
    from torpor.tools.tokens import Keys as Keys

_HOMES = {
    "Callbacks": "callbacks",
    "FunctionTool": "functions",
    "HttpTransport": "client",
    "Keys": "tokens",
    "RapServer": "catalog",
    "ToolContext": "functions",
    "tool": "functions",
}

__all__ = ["Callbacks", "FunctionTool", "HttpTransport", "Keys", "RapServer", "ToolContext", "tool"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
