"""What the runtime itself knows of a thread, for standing beside a summary: a model may forget it."""

from torpor.core.head import Head
from torpor.core.request import instant

SHOWN = 50
"""Children, calls and the like that are named."""
TITLE = 100
"""Characters of a title or question."""


def facts(head: Head) -> str:
    """What the runtime itself knows of the thread, for standing beside a summary."""
    lines = [f"Title: {_line(head.title)}"] if head.title else []
    lines += _listed(
        "Child threads that live",
        [
            f"{id} ({child.state}){': ' + _line(child.title) if child.title else ''}"
            for id, child in head.children.items()
        ],
    )
    lines += _listed(
        "Active subscriptions",
        [f"{id} of {open_.name}, since {instant(open_.at)}" for id, open_ in head.subscriptions.items()],
    )
    lines += _listed(
        "Calls that still run",
        [
            f"{id} of {call.name}, since {instant(call.at)}"
            for id, call in (head.pending | head.detached).items()
            if not call.given_up
        ],
    )
    lines += _listed(
        "People are asked",
        [
            f"{wait.kind} for {wait.call} of {wait.name}{': ' + _line(wait.prompt) if wait.prompt else ''}"
            for wait in head.waits.values()
        ],
    )
    return "\n".join(lines)


def _listed(what: str, entries: list[str]) -> list[str]:
    if not entries:
        return []
    more = [f"- and {len(entries) - SHOWN} more"] if len(entries) > SHOWN else []
    return [f"{what}:", *(f"- {entry}" for entry in entries[:SHOWN]), *more]


def _line(text: str) -> str:
    return " ".join(text.split())[:TITLE]
