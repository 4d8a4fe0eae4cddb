"""What is kept of each call to an MCP server, so that it finds its way on after its process has died.

A record is written before what it says may matter: that the request goes out, that a task runs there, that a
person is asked. Answers of people stand beside it, each under the number of its question: they may come
meanwhile.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from torpor.core.errors import Conflict
from torpor.core.signals import RequestedSignal
from torpor.ports import MCP_CALLS, Clock, Side

DAY = 86_400.0
"""Seconds after which a record is written again, that it is not taken for one that was left behind."""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that a person is asked for a call."""

    number: int
    kind: str
    """``choice``, ``form`` or ``authorization``."""
    key: str = ""
    """The server's name for it, where it asks several things at once."""
    values: tuple[Any, ...] = ()
    """What each choice says, as the content of an accepted form; a choice beyond them declines."""
    at: float = 0.0


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a call has come."""

    server: str
    """Its address."""
    phase: str = ""
    """``sent`` (its request is out), ``task`` (the server works on it as a task), ``asked`` (it goes on with
    what people answer); empty: nothing has reached the server."""
    started: float = 0.0
    """When it was sent out first."""
    sent: int = 0
    """How often."""
    task: str = ""
    poll: float = 0.0
    """Seconds between looks at the task."""
    heard: float = 0.0
    """When there was last a sign of life."""
    paused: float = 0.0
    """Seconds for which it waited for people; they count for no limit."""
    state: str | None = None
    """What the server wants back with the answers."""
    questions: tuple[Question, ...] = ()
    """Those that are open."""
    asked: int = 0
    """How many questions there were."""
    put: tuple[RequestedSignal, ...] = ()
    """By which the open questions are asked; perhaps not posted yet."""
    rounds: int = 0
    """How often it was sent on with answers."""
    answers: dict[str, Any] = {}
    """What the server gets with the next request, by its names for its questions."""
    given: tuple[str, ...] = ()
    """The names of the questions whose answers a task has."""
    signing: int = 0
    """The number of the question by which a person signs in; 0: none is open."""
    signed: float = 0.0
    """When that was asked."""
    consent: str = ""
    """What the sign-in is known by."""
    failed: int = 0
    """How often in a row the server could not be reached."""
    kept: float = 0.0
    """When this was written."""


class Sampled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What servers had of an agent's model in one exchange of a thread."""

    since: float
    """When the exchange began."""
    tokens: int = 0
    times: int = 0


def key_of(thread: str, call: str) -> str:
    """Where a call's record is kept."""
    return f"{thread}/{call}"


class Records:
    """Records of calls, in a store."""

    def __init__(self, side: Side) -> None:
        self._side = side

    async def get(self, thread: str, call: str) -> Record | None:
        """What is kept of a call."""
        kept = await self._side.get(MCP_CALLS, key_of(thread, call))
        return msgspec.json.decode(kept, type=Record) if kept else None

    async def put(self, thread: str, call: str, record: Record) -> None:
        """Keep this of a call from now on; durable when this returns."""
        await self._side.put(MCP_CALLS, key_of(thread, call), msgspec.json.encode(record))

    async def forget(self, thread: str, call: str) -> None:
        """Keep nothing more of a call and its questions."""
        record = await self.get(thread, call)
        for number in range(1, record.asked + 1 if record else 1):
            await self._side.put(MCP_CALLS, f"{key_of(thread, call)}/{number}", b"")
        if record is not None:
            await self._side.put(MCP_CALLS, key_of(thread, call), b"")

    async def sampled(self, thread: str, since: float) -> Sampled:
        """What servers had of the model in the exchange that began at an instant."""
        kept = await self._side.get(MCP_CALLS, f"{thread}/sampled")
        found = msgspec.json.decode(kept, type=Sampled) if kept else None
        return found if found is not None and found.since == since else Sampled(since)

    async def sample(self, thread: str, since: float, tokens: int) -> None:
        """Count one completion more."""
        before = await self.sampled(thread, since)
        now = Sampled(since, before.tokens + tokens, before.times + 1)
        await self._side.put(MCP_CALLS, f"{thread}/sampled", msgspec.json.encode(now))

    async def answer(self, thread: str, call: str, number: int, value: str) -> None:
        """Keep what a person said to a question."""
        await self._side.put(MCP_CALLS, f"{key_of(thread, call)}/{number}", value.encode())

    async def answered(self, thread: str, call: str, number: int) -> str | None:
        """What a person said to a question; None while nobody did."""
        kept = await self._side.get(MCP_CALLS, f"{key_of(thread, call)}/{number}")
        return kept.decode() if kept else None


class Facts(Protocol):
    """What the runtime knows of a call."""

    @property
    def thread(self) -> str: ...
    @property
    def call(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def user_id(self) -> str: ...
    @property
    def repeat(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def trace(self) -> str: ...


class Run:
    """One run of a call: what the runtime knows of it, and its record as it is kept by now."""

    def __init__(self, facts: Facts, record: Record, records: Records, clock: Clock) -> None:
        self.facts = facts
        self.record = record
        self.records = records
        self.clock = clock

    @property
    def elapsed(self) -> float:
        """Seconds since the call was sent out first, without those for which it waited for people."""
        started = self.record.started or self.facts.at or self.clock.now()
        return max(0.0, self.clock.now() - started - self.record.paused)

    async def save(self, **fields: Any) -> None:
        """Keep the record with other values; durable when this returns."""
        self.record = msgspec.structs.replace(self.record, **fields, kept=self.clock.now())
        await self.records.put(self.facts.thread, self.facts.call, self.record)

    async def make_sure(self) -> None:
        """Raise ``Conflict`` if somebody else has gone on with the call: this process was away for long."""
        kept = await self.records.get(self.facts.thread, self.facts.call)
        mine, now = self.record, kept or Record(self.record.server)
        if (now.kept, now.phase, now.sent) != (mine.kept, mine.phase, mine.sent):
            raise Conflict(f"The call {self.facts.call} is carried on by another process.")

    async def touch(self) -> None:
        """Write the record again if it is old: what nobody touches for long is forgotten one day."""
        if self.record.kept and self.clock.now() - self.record.kept > DAY:
            await self.save()

    async def answered(self, number: int) -> str | None:
        """What a person said to a question."""
        return await self.records.answered(self.facts.thread, self.facts.call, number)


def said(question: Question, value: str) -> Mapping[str, Any]:
    """A person's answer as the result of an elicitation, in its wire form."""
    match question.kind, value:
        case "choice", place if place.isdecimal() and int(place) < len(question.values):
            return {"action": "accept", "content": question.values[int(place)]}
        case "form", text if text.startswith("{"):
            return {"action": "accept", "content": msgspec.json.decode(text)}
        case "authorization", "done":
            return {"action": "accept"}
        case _, "dismiss":
            return {"action": "cancel"}
        case _:
            return {"action": "decline"}
