"""Torpor's own runtime as the checks see it: in this process, with a scripted model."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any

from torpor.agent import Agent
from torpor.conformance.harness import Line, Question, Running, Server, Shown, Think
from torpor.core.errors import Refused
from torpor.core.messages import Call, Equipped, Happened, Message, Noted, Result, Said, Turn, text_of
from torpor.core.request import AnyItem, InjectedItem, InputItem, Request, ResultsItem, TurnItem
from torpor.models.scripted import ScriptedModel, Words, call, fail, say
from torpor.public import Runtime
from torpor.tools.catalog import RapServer

AGENT = "conformance"


class OurRuntime:
    """The harness for this package's own runtime. Each run has a store of its own, in a file."""

    name = "torpor"
    built: frozenset[str] = frozenset(
        {"approvals", "children", "choices", "migration", "oauth", "status", "views"}
    )

    def options(self, servers: Sequence[RapServer]) -> dict[str, Any]:  # noqa: ARG002 - for who extends this
        """Further options for ``Runtime``."""
        return {}

    def running(self, servers: Sequence[Server], think: Think) -> AbstractAsyncContextManager[Running]:
        """Run it while the block runs."""
        return self._running(servers, think)

    @asynccontextmanager
    async def _running(self, servers: Sequence[Server], think: Think) -> AsyncIterator[Running]:
        async def reply(request: Request) -> Words:
            try:
                said = await think(_shown(request))
            except RuntimeError as error:
                return fail(Refused(str(error)))
            return say(said) if isinstance(said, str) else [call(w.name, _raw=w.arguments) for w in said]

        def runtime(place: str, moved: Mapping[str, str]) -> Runtime:
            tools = [RapServer(moved.get(one.url, one.url), token=one.token or None) for one in servers]
            agent = Agent(AGENT, model=ScriptedModel(reply), tools=tools)
            return Runtime(f"sqlite:///{folder}/{place}.db", agents=[agent], **self.options(tools))

        with TemporaryDirectory() as folder:
            running = _Running(runtime)
            await running.begin()
            try:
                yield running
            finally:
                await running.end()


class _Running:
    """Our runtime while it runs."""

    def __init__(self, make: Callable[[str, Mapping[str, str]], Runtime]) -> None:
        self._make = make
        self._stack = AsyncExitStack()
        self._runtime: Runtime

    async def begin(self) -> None:
        """Start it on what is stored."""
        self._runtime = await self._stack.enter_async_context(self._make("threads", {}))

    async def end(self) -> None:
        """End it; what it stored stays."""
        await self._stack.aclose()

    async def restart(self) -> None:
        await self.end()
        await self.begin()

    async def start(self, text: str) -> str:
        return (await self._runtime.start(AGENT, text, user_id="a-person")).id

    async def say(self, thread: str, text: str) -> None:
        await self._runtime.thread(thread).send(text)

    async def interrupt(self, thread: str, text: str) -> None:
        await self._runtime.thread(thread).send(text, "interrupt")

    async def close(self, thread: str) -> None:
        await self._runtime.thread(thread).close()

    async def history(self, thread: str) -> list[Line]:
        history = await self._runtime.thread(thread).history()
        return [line for message in history for line in _line(message)]

    async def problems(self, thread: str) -> str:
        history = await self._runtime.thread(thread).history()
        notes = [message.note for message in history if isinstance(message, Noted)]
        return "\n".join(f"{note.server}: {note.reason}" for note in notes if isinstance(note, Equipped))

    async def move(self, thread: str, servers: Mapping[str, str]) -> None:
        there = await self._stack.enter_async_context(self._make("there", servers))
        await self._runtime.move(thread, there, servers=servers)
        self._runtime = there

    async def waits(self, thread: str) -> list[Question]:
        asked = await self._runtime.thread(thread).waits()
        return [
            Question(
                one.id,
                one.thread,
                one.kind,
                one.prompt or one.url or f"{one.name} {one.arguments}",
                one.call,
                one.choices,
            )
            for one in asked
        ]

    async def answer(self, thread: str, wait: str, value: str | None) -> None:
        await self._runtime.thread(thread).answer(wait, value)

    async def views(self, thread: str) -> dict[str, str]:
        return {view.type: view.content for view in await self._runtime.thread(thread).views()}


def _line(message: Message) -> Iterator[Line]:
    match message:
        case Said():
            yield Line("said", text_of(message.parts))
        case Turn():
            yield Line("turn", _turn_text(message.parts))
        case Result():
            yield Line("result", text_of(message.parts), message.call, message.is_error)
        case Happened():
            yield Line("event", text_of(message.parts), message.call)
        case _:
            pass


def _shown(request: Request) -> Shown:
    tools = {tool.name: (tool.description, tool.schema) for tool in request.tools}
    return Shown(tools, tuple(line for item in request.items for line in _item(item)))


def _item(item: AnyItem) -> Iterator[Line]:
    match item:
        case InputItem():
            yield Line("said", item.text)
        case TurnItem():
            yield Line("turn", _turn_text(item.parts))
        case ResultsItem():
            for result in item.results:
                yield Line("result", result.text, result.call, result.is_error)
        case InjectedItem():
            yield Line("event" if item.source == "event" else "late", item.text, item.call)
        case _:
            yield Line("notice", item.text)


def _turn_text(parts: Sequence[object]) -> str:
    calls = [f"{part.name}({part.arguments})" for part in parts if isinstance(part, Call)]
    return "\n".join([text_of(tuple(parts)), *calls]).strip()
