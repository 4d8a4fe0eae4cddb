"""What the tools do: each begins something durable at most, and then waits for it within a bound."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from torpor.core.errors import Refused
from torpor.core.messages import Happened, Image, Result, Text
from torpor.core.request import instant
from torpor.mcp.asking import Given, read
from torpor.mcp.caller import CALLER, order
from torpor.mcp.clients import Client
from torpor.mcp.limits import ANSWER_LEAST, RESULT_MOST, WAIT, WAIT_MOST, WAITING_MOST
from torpor.mcp.offers import Answer, Answered, Ask, Listed, Listing, Offer, One, Start, ThreadList, Wait
from torpor.mcp.outcomes import REPLIED, Asked, Outcome, listed
from torpor.mcp.reach import Reach
from torpor.mcp.tickets import Ticket
from torpor.mcp.watching import Watch, questions_of
from torpor.ports import Row
from torpor.runtime.questions import UNKNOWN
from torpor.runtime.threads import Threads

A = TypeVar("A")

log = logging.getLogger("torpor.mcp")


class Calls:
    """What may be done to threads by clients within reach."""

    def __init__(self, threads: Threads, reach: Reach, user_id: str = "") -> None:
        self.threads = threads
        self.reach = reach
        self._user_id = user_id
        self._waiting = 0

    async def begin(self, offer: Offer, arguments: Mapping[str, Any], client: Client) -> tuple[Ticket, float]:
        """Do what a long tool begins; gives what to wait for, and for how many seconds. Durable then."""
        match offer.verb:
            case "start":
                return await self._start(offer.target, arguments_of(Start, arguments), client)
            case "ask":
                return await self._ask(offer.target, arguments_of(Ask, arguments), client)
            case "call":
                return await self._call(offer.target, dict(arguments), client)
            case _:
                return await self._wait(offer, arguments_of(Wait, arguments))

    async def _start(self, agent: str, given: Start, client: Client) -> tuple[Ticket, float]:
        begun = await self.threads.start(
            agent, (Text(given.text),), owner=self.reach.owner, user_id=self._user_id,
            by=client.by, key=given.key, known_only=agent in self.threads.roster.names,
        )  # fmt: skip
        assert begun.receipt is not None
        return Ticket(begun.row.thread, begun.receipt.signal, began=begun.row.created), given.wait

    async def _ask(self, agent: str, given: Ask, client: Client) -> tuple[Ticket, float]:
        row = await self.reach.row(given.thread, agent)
        receipt = await self.threads.say(
            row.thread, (Text(given.text),), mode=given.mode, by=client.by, key=given.key
        )
        return Ticket(row.thread, receipt.signal, since=row.length, began=time.time()), given.wait

    async def _wait(self, offer: Offer, given: Wait) -> tuple[Ticket, float]:
        calls = offer.verb == "await"
        row = await self.reach.row(given.thread, CALLER if calls else offer.target)
        ticket = Ticket(row.thread, after=given.after, calls=calls, since=row.length, began=time.time())
        return ticket, given.wait

    async def _call(self, tool: str, arguments: dict[str, Any], client: Client) -> tuple[Ticket, float]:
        begun = await self.threads.start(
            CALLER, (Text(order(tool, arguments)),), owner=self.reach.owner, user_id=self._user_id,
            by=client.by,
        )  # fmt: skip
        return Ticket(begun.row.thread, calls=True, began=begun.row.created), WAIT

    def seconds(self, offer: Offer, arguments: Mapping[str, Any]) -> float:
        """For how many seconds a call that is made again waits."""
        wait = arguments.get("wait", WAIT)
        fits = offer.verb != "call" and isinstance(wait, int | float) and 0 <= wait <= WAIT_MOST
        return float(wait) if fits else WAIT

    async def check(self, ticket: Ticket) -> Row:
        """The thread of a ticket that a client gave back. ``Refused`` if it is out of reach."""
        return await self.reach.row(ticket.thread)

    async def finish(
        self, ticket: Ticket, seconds: float, client: Client, known: frozenset[str] = frozenset()
    ) -> Outcome | list[Asked]:
        """Wait within a bound; the client's user is asked what comes up, if the client can do that.

        A list is what a client of the revisions without connections must ask and bring back. ``known``: waits
        that its user has been asked about already.
        """
        if self._waiting >= WAITING_MOST:
            return await self.stands(ticket, client)
        self._waiting += 1
        try:
            return await self._finish(ticket, seconds, client, known)
        finally:
            self._waiting -= 1

    async def _finish(
        self, ticket: Ticket, seconds: float, client: Client, known: frozenset[str]
    ) -> Outcome | list[Asked]:
        deadline = time.monotonic() + seconds
        open_ = listed(await questions_of(self.threads, ticket.thread))
        known |= {one.wait for one in open_ if not client.can_ask(one)}
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            outcome = await Watch(self.threads, ticket, client.tell).end(left, known=known)
            fresh = [one for one in outcome.asks if one.wait not in known and client.can_ask(one)]
            if outcome.is_final or not fresh:
                return outcome
            if client.is_modern:
                return fresh
            known |= {one.wait for one in fresh}
            seconds = max(deadline - time.monotonic(), ANSWER_LEAST)
            if not await self._answered(fresh, ticket, client, seconds):
                return await self.stands(ticket, client)

    async def stands(self, ticket: Ticket, client: Client) -> Outcome:
        """Where it stands now."""
        return await Watch(self.threads, ticket, client.tell).now()

    async def _answered(self, asks: Sequence[Asked], ticket: Ticket, client: Client, seconds: float) -> bool:
        """Ask the client's user, for so long; not any more once the thread goes on without that."""
        watching = asyncio.create_task(Watch(self.threads, ticket, client.tell).end(seconds))
        asking = asyncio.create_task(self._ask_all(asks, client))
        try:
            await asyncio.wait([watching, asking], return_when=asyncio.FIRST_COMPLETED)
            return asking.done() and asking.result()
        finally:
            for task in (watching, asking):
                task.cancel()
            await asyncio.gather(watching, asking, return_exceptions=True)

    async def _ask_all(self, asks: Sequence[Asked], client: Client) -> bool:
        return any([await self._asked(one, client) for one in asks])

    async def _asked(self, asked: Asked, client: Client) -> bool:
        """Ask the client's user; whether that brought an answer."""
        given = await client.ask(asked)
        if given is None:
            return asked.kind == "authorization"
        return await self._settled(asked.wait, given, client)

    async def _settled(self, wait: str, given: Given, client: Client) -> bool:
        """Whether an answer is one; else the question stays open."""
        try:
            await self._settle(wait, given, client)
        except Refused as error:
            log.info("an answer was refused: %s", error)
            return False
        return True

    async def take(self, responses: Mapping[str, Any], thread: str, client: Client) -> frozenset[str]:
        """Answers that a client brings back, by wait."""
        open_ = {one.wait: one for one in listed(await questions_of(self.threads, thread))}
        for wait, response in responses.items():
            if wait in open_:
                given = read(open_[wait], getattr(response, "action", ""), getattr(response, "content", None))
                if given is not None:
                    await self._settled(wait, given, client)
        return frozenset(responses)

    async def _settle(self, wait: str, given: Given, client: Client) -> str:
        settled = await self.threads.answer(wait, given.value, by=client.by, comment=given.comment)
        return settled.outcome

    async def quick(self, offer: Offer, arguments: Mapping[str, Any], client: Client) -> msgspec.Struct:
        """Do what a short tool does."""
        match offer.verb:
            case "threads":
                return await self._listing(arguments_of(Listing, arguments))
            case "answer":
                return await self._answer(arguments_of(Answer, arguments), client)
            case _:
                return await self._stop(arguments_of(One, arguments).thread, client)

    async def _listing(self, given: Listing) -> ThreadList:
        if given.agent and given.agent not in self.reach.agents:
            raise Refused(f"No agent {given.agent!a:.130} is served. Served: {', '.join(self.reach.agents)}.")
        rows = await self.reach.listed(given.agent, given.limit)
        return ThreadList(
            [
                Listed(row.thread, row.agent, row.state, row.title, instant(row.updated), row.waits)
                for row in rows
            ]
        )

    async def _answer(self, given: Answer, client: Client) -> Answered:
        await self.reach.of_wait(given.wait)
        outcome = await self._settle(given.wait, Given(given.value, given.comment), client)
        if outcome == UNKNOWN:
            raise Refused(f"There is no wait {given.wait!a:.130}, and there never was.")
        return Answered(given.wait, outcome)

    async def _stop(self, thread: str, client: Client) -> Outcome:
        row = await self.reach.row(thread)
        await self.threads.stop(row.thread, client.by)
        return Outcome(thread=row.thread, state="stopped", text="It is told to stop.")

    async def answer_of(self, outcome: Outcome) -> Result | Happened | None:
        """The message that ended a wait for a call: a result, or an event of what the call opened."""
        if outcome.state != REPLIED:
            return None
        entries = await self.threads.history(outcome.thread, outcome.position - 1, 1)
        message = entries[0].message if entries else None
        return message if isinstance(message, Result | Happened) else None

    async def whole(self, thread: str, answer: Result | Happened) -> str:
        """The whole text of a long answer, up to a bound; empty if it is not long."""
        if not answer.handle:
            return ""
        body = await self.threads.side.get_blob(thread, answer.handle, 0, RESULT_MOST)
        return (body or b"").decode(errors="replace")

    async def let_go(self, outcome: Outcome, answer: Result | Happened) -> None:
        """Close the thread of a call from which nothing more comes."""
        more = isinstance(answer, Result) and (answer.subscription or answer.cause)
        if not (more or (isinstance(answer, Happened) and not answer.final)):
            await self.threads.close(outcome.thread)


def arguments_of(kind: type[A], given: Mapping[str, Any]) -> A:
    """A tool's arguments as they must be. ``Refused`` says what is wrong."""
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(f"The arguments do not fit: {error}.") from None


def contents(answer: Result | Happened) -> list[Text | Image]:
    """What an answer holds, as far as MCP can show it."""
    shown: list[Text | Image] = []
    for part in answer.parts:
        if isinstance(part, Image) and part.data:
            shown.append(part)
        else:
            shown.append(Text(part.text) if isinstance(part, Text) else Text(f"[{type(part).__name__}]"))
    return shown
