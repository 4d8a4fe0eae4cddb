"""Does an end of the wire keep the protocol? Checks for tool servers and for runtimes.

Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torpor.conformance.ledger import Finding as Finding
    from torpor.conformance.ledger import Report as Report
    from torpor.conformance.server import Options as Options
    from torpor.conformance.server import check_server as check_server

_HOMES = {
    "Finding": "ledger",
    "Options": "server",
    "Report": "ledger",
    "check_server": "server",
}

__all__ = ["Finding", "Options", "Report", "check_server"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
