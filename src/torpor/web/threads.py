"""The API over threads: start, speak, read, ask, command. Each request is one call of ``Threads``."""

from starlette.requests import Request
from starlette.responses import Response

from torpor.core.errors import Refused
from torpor.core.messages import By
from torpor.ports import Asked
from torpor.runtime.deletion import delete
from torpor.runtime.given import filters
from torpor.runtime.questions import UNKNOWN
from torpor.runtime.threads import Begun, Threads
from torpor.web.access import verified
from torpor.web.bodies import value
from torpor.web.problems import Problem, answer
from torpor.web.shapes import (
    Answering,
    Done,
    ForkWanted,
    Listing,
    NewThread,
    Questions,
    Records,
    Saying,
    Started,
    ThreadView,
    Ticket,
    TicketWanted,
    Views,
    look_up,
    page,
    shown_view,
    view,
)
from torpor.web.tickets import SECONDS, Tickets

PAGE = 100
LARGEST_PAGE = 1_000
KEY_LIMIT = 200
"""Characters of an Idempotency-Key."""


class ThreadWeb:
    """The endpoints under ``/threads``, ``POST /waits/{wait}``, and ``POST /tickets``."""

    def __init__(self, threads: Threads, tickets: Tickets, body_limit: int) -> None:
        self._threads = threads
        self._tickets = tickets
        self._body_limit = body_limit

    async def start(self, request: Request) -> Response:
        wanted = await value(request, NewThread, self._body_limit)
        begun = await self._threads.start(
            wanted.agent,
            wanted.to_parts(),
            thread=wanted.thread,
            owner=_short("owner", wanted.owner),
            user_id=_short("user_id", wanted.user_id),
            context=wanted.context_text(),
            tier=wanted.tier,
            by=_by(request),
            key=_key(request),
            known_only=bool(self._threads.roster.names),
        )
        return self._begun(request, begun)

    def _begun(self, request: Request, begun: Begun) -> Response:
        headers = {"Location": f"{request.scope.get('root_path', '')}/threads/{begun.row.thread}"}
        return answer(200 if begun.repeat else 201, view(begun.row, Started, receipt=begun.receipt), headers)

    async def find(self, request: Request) -> Response:
        given = request.query_params
        limit = _number(request, "limit", PAGE, LARGEST_PAGE, least=1)
        asked = filters(**{name: given.get(name) for name in Asked.__annotations__})
        rows = await self._threads.store.threads(**asked, after=given.get("after", ""), limit=limit)
        after = rows[-1].thread if len(rows) == limit else None
        return answer(200, Listing([view(row, ThreadView) for row in rows], after))

    async def fork(self, request: Request) -> Response:
        id = _id(request)
        await self._threads.row(id)
        wanted = await value(request, ForkWanted, self._body_limit)
        begun = await self._threads.fork(id, wanted.at, by=_by(request), key=_key(request))
        return self._begun(request, begun)

    async def children(self, request: Request) -> Response:
        rows = await self._threads.children(_id(request))
        return answer(200, Listing([view(row, ThreadView) for row in rows], None))

    async def views(self, request: Request) -> Response:
        kept = await self._threads.views(_id(request))
        return answer(200, Views([shown_view(one) for one in kept]))

    async def get(self, request: Request) -> Response:
        return answer(200, await look_up(self._threads, _id(request)))

    async def explain(self, request: Request) -> Response:
        return answer(200, await self._threads.explain(_id(request)))

    async def waits(self, request: Request) -> Response:
        return answer(200, Questions(await self._threads.waits(_id(request))))

    async def answer(self, request: Request) -> Response:
        wait: str = request.path_params["wait"]
        given = await value(request, Answering, self._body_limit)
        settled = await self._threads.answer(wait, given.value, by=_by(request), comment=given.comment)
        if settled.outcome == UNKNOWN:
            raise Problem(404, f"There is no wait {wait!a:.130}, and there never was.")
        return answer(200, settled)

    async def say(self, request: Request) -> Response:
        id = _id(request)
        await self._threads.row(id)
        saying = await value(request, Saying, self._body_limit)
        receipt = await self._threads.say(
            id, saying.to_parts(), mode=saying.mode, by=_by(request), key=_key(request), tier=saying.tier
        )
        return answer(202, receipt)

    async def messages(self, request: Request) -> Response:
        after = _number(request, "after", 0, 1 << 53)
        limit = _number(request, "limit", PAGE, LARGEST_PAGE, least=1)
        entries = await self._threads.history(_id(request), after, limit + 1)
        return answer(200, page(entries, after, limit))

    async def records(self, request: Request) -> Response:
        id = _id(request)
        await self._threads.row(id)
        after = _number(request, "after", 0, 1 << 53)
        limit = _number(request, "limit", LARGEST_PAGE, LARGEST_PAGE, least=1)
        found = await self._threads.store.records(id, after, limit + 1)
        kept = found[:limit]
        return answer(200, Records(kept, after + len(kept), len(found) > limit))

    async def stop(self, request: Request) -> Response:
        await self._threads.stop(_id(request), _by(request))
        return answer(202, Done(_id(request), "stop"))

    async def compact(self, request: Request) -> Response:
        await self._threads.compact(_id(request), _by(request))
        return answer(202, Done(_id(request), "compact"))

    async def nudge(self, request: Request) -> Response:
        await self._threads.nudge(_id(request), _by(request))
        return answer(202, Done(_id(request), "nudge"))

    async def close(self, request: Request) -> Response:
        await self._threads.close(_id(request), _by(request))
        return answer(202, Done(_id(request), "close"))

    async def delete(self, request: Request) -> Response:
        forks = request.query_params.get("forks", "false")
        if forks not in ("true", "false"):
            raise Problem(400, "forks is true or false.")
        gone = await delete(self._threads.store, self._threads.queue, _id(request), forks=forks == "true")
        return answer(200, gone)

    async def ticket(self, request: Request) -> Response:
        wanted = await value(request, TicketWanted, self._body_limit)
        row = await self._threads.row(wanted.thread)
        ticket = self._tickets.issue(f"/threads/{row.thread}/events")
        return answer(201, Ticket(ticket, SECONDS))


def _id(request: Request) -> str:
    id: str = request.path_params["thread"]
    return id


def _by(request: Request) -> By:
    """Whoever asks here is a person; no body can say otherwise."""
    return By("person", verified=verified(request.scope))


def _key(request: Request) -> str:
    key = request.headers.get("idempotency-key", "")
    if len(key) > KEY_LIMIT or not (key.isascii() and key.isprintable()):
        raise Problem(400, f"An Idempotency-Key has at most {KEY_LIMIT} printable ASCII characters.")
    return key


def _short(name: str, text: str) -> str:
    if len(text) > 200:
        raise Refused(f"{name} has more than 200 characters.")
    return text


def _number(request: Request, name: str, default: int, most: int, *, least: int = 0) -> int:
    given = request.query_params.get(name, str(default))
    if not (given.isascii() and given.isdigit() and len(given) < 17 and least <= int(given) <= most):
        raise Problem(400, f"{name} is a whole number from {least} to {most}.")
    return int(given)
