"""What the checks of a runtime need of it: a small harness that its author writes, or ours."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec


class Server(msgspec.Struct, frozen=True):
    """A tool server that the runtime is to be configured with. ``token`` is its credential."""

    url: str
    token: str = ""


class Wish(msgspec.Struct, frozen=True):
    """A call that the model makes. ``arguments`` is JSON text of an object."""

    name: str
    arguments: str = "{}"


class Line(msgspec.Struct, frozen=True):
    """One thing in a history, or in what a model is shown.

    ``kind``: ``said`` (by a person), ``turn`` (of the model), ``result`` (of the call ``call``), ``event``
    (news of the subscription that ``call`` opened), ``late`` (a result that came after its call was answered)
    or ``notice``. ``call`` is the id that tool servers see.
    """

    kind: str
    text: str
    call: str = ""
    is_error: bool = False


class Shown(msgspec.Struct, frozen=True):
    """What a model is shown when it is asked. ``tools``: description and schema by name."""

    tools: dict[str, tuple[str, dict[str, Any]]]
    lines: tuple[Line, ...]

    @property
    def fresh(self) -> tuple[Line, ...]:
        """The lines since the model's last turn."""
        turns = [place for place, line in enumerate(self.lines) if line.kind == "turn"]
        return self.lines[turns[-1] + 1 :] if turns else self.lines


class Question(msgspec.Struct, frozen=True):
    """What people are asked for a call. ``kind``: ``choice``, ``authorization`` or ``approval``.

    ``text`` is the prompt, the URL to open, or the call that is to be approved: its tool and arguments.
    """

    id: str
    thread: str
    kind: str
    text: str
    call: str = ""
    choices: tuple[str, ...] = ()


Reply = str | Sequence[Wish]
"""What the model answers: words, or calls."""

Think = Callable[[Shown], Awaitable[Reply]]
"""The model. An exception that it raises is a failure of the model."""


class Running(Protocol):
    """A runtime that runs. Threads are named by the id that tool servers see as ``group_id``."""

    async def start(self, text: str) -> str:
        """Start a thread with a person's words; gives its id. Returns without waiting for the model."""

    async def say(self, thread: str, text: str) -> None:
        """A person speaks to a thread."""

    async def interrupt(self, thread: str, text: str) -> None:
        """A person speaks in place of whatever is pending: its calls are cancelled."""

    async def close(self, thread: str) -> None:
        """End a thread for good."""

    async def history(self, thread: str) -> list[Line]:
        """All that the thread remembers, oldest first."""

    async def problems(self, thread: str) -> str:
        """What was reported about its tool servers; empty: nothing."""

    async def restart(self) -> None:
        """End it and start it again with all that it stored; needed for ``status``."""

    async def move(self, thread: str, servers: Mapping[str, str]) -> None:
        """Have a session, by its root thread, go on in another runtime of the kind; needed for ``migration``.

        ``servers``: tool servers that keep state, by URL, each with its URL there; the others are the same
        there. From then on all that is asked about the thread is about that place. Raises if it stays.
        """

    async def waits(self, thread: str) -> list[Question]:
        """What people are asked for it now; needed for ``choices``, ``oauth`` and ``approvals``."""

    async def answer(self, thread: str, wait: str, value: str | None) -> None:
        """A person answers: a choice by its text, an approval by ``approve``; None dismisses a choice."""

    async def views(self, thread: str) -> dict[str, str]:
        """What it shows in each type of view, as JSON text; needed for ``views``."""


class RuntimeUnderTest(Protocol):
    """A runtime, as the checks see it.

    ``built`` names what it has of: ``approvals``, ``children``, ``choices``, ``migration``, ``oauth``,
    ``status``, ``views``. ``running`` gives a fresh runtime with one agent that thinks with ``think`` and has
    the tools of these servers; it reaches them by loopback and is reached by it. It may refuse servers, by
    any exception.
    """

    name: str
    built: frozenset[str]

    def running(self, servers: Sequence[Server], think: Think) -> AbstractAsyncContextManager[Running]:
        """Run it while the block runs."""
