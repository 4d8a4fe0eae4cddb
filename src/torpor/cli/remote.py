"""The desk behind HTTP: the server that registered itself, if it proves to hold the store's token."""

import hmac
import json
import re
import secrets
from collections.abc import AsyncIterator
from typing import Any, Self, TypeVar, Unpack

import aiohttp
import msgspec

from torpor.cli.tokens import read_token
from torpor.core.errors import Broken, Refused, TorporError, Unavailable
from torpor.core.record import SliceRecord
from torpor.core.text import clean
from torpor.ports import Asked, LiveEvent, Side
from torpor.runtime.given import idempotency_key, thread_id
from torpor.runtime.questions import Question, Settled, Value
from torpor.runtime.replies import Entry
from torpor.runtime.threads import Receipt
from torpor.settings import Settings
from torpor.web.proof import proof
from torpor.web.shapes import (
    Found,
    Listing,
    NewThread,
    Page,
    Questions,
    Records,
    Saying,
    Started,
    ThreadView,
    entry_of,
)
from torpor.wiring import ADDRESSES, address_of, ask_health

PAGE = 1_000

_WAIT = re.compile(r"[\w-]+(\.[\w-]+)+", re.ASCII)
"""An id that a wait may have."""

T = TypeVar("T")


async def reach(side: Side, settings: Settings) -> "Remote | None":
    """The server of this store; None if there is no token, or nobody answers who holds it."""
    token = read_token(settings.token_path)
    local = (await side.get(ADDRESSES, "local") or b"").decode()
    public = address_of(await side.get(ADDRESSES, "public")).url
    for url in dict.fromkeys(filter(None, (local, public))):
        if token and await _answers(url, token):
            return Remote(url, token)
    return None


async def _answers(url: str, token: str) -> bool:
    """Whether a server of ours is there. The token goes only to who proves to have it already."""
    challenge = secrets.token_urlsafe(24)
    health = await ask_health(url, challenge)
    return health is not None and hmac.compare_digest(health.proof.encode(), proof(token, challenge).encode())


class Remote:
    """See ``Desk``. An async context manager."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5.0),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def start(self, wanted: NewThread) -> Started:
        return await self._ask("POST", "/threads", Started, body=_given(wanted))

    async def say(self, thread: str, saying: Saying, key: str = "") -> Receipt:
        headers = {"Idempotency-Key": idempotency_key(key) or secrets.token_urlsafe(16)}
        path = f"/threads/{_step(thread)}/messages"
        return await self._ask("POST", path, Receipt, body=_given(saying), headers=headers)

    async def waits(self, thread: str) -> list[Question]:
        return (await self._ask("GET", f"/threads/{_step(thread)}/waits", Questions)).waits

    async def answer(self, wait: str, value: Value, comment: str = "") -> Settled:
        if not _WAIT.fullmatch(wait):
            raise Refused(f"There is no wait {wait!a:.130}, and there never was.")
        body = {"value": clean(value) if isinstance(value, str) else value, "comment": clean(comment)}
        return await self._ask("POST", f"/waits/{wait}", Settled, body=body)

    async def find(self, *, limit: int, **asked: Unpack[Asked]) -> list[ThreadView]:
        query = {name: clean(value) for name, value in asked.items() if isinstance(value, str)}
        return (await self._ask("GET", "/threads", Listing, query={**query, "limit": str(limit)})).threads

    async def fork(self, thread: str, at: int | None, key: str = "") -> Started:
        headers = {"Idempotency-Key": idempotency_key(key) or secrets.token_urlsafe(16)}
        path, body = f"/threads/{_step(thread)}/fork", {} if at is None else {"at": at}
        return await self._ask("POST", path, Started, body=body, headers=headers)

    async def get(self, thread: str) -> Found:
        return await self._ask("GET", f"/threads/{_step(thread)}", Found)

    async def entries(self, thread: str, after: int = 0) -> list[Entry]:
        path, found, more = f"/threads/{_step(thread)}/messages", [], True
        while more:
            page = await self._ask("GET", path, Page, query={"after": str(after), "limit": str(PAGE)})
            found += [entry_of(message) for message in page.messages]
            after, more = page.after, page.more
        return found

    async def records(self, thread: str) -> list[SliceRecord]:
        path, found, more = f"/threads/{_step(thread)}/records", list[SliceRecord](), True
        while more:
            query = {"after": str(len(found)), "limit": str(PAGE)}
            page = await self._ask("GET", path, Records, query=query)
            found += page.records
            more = page.more
        return found

    async def command(self, thread: str, word: str) -> None:
        await self._ask("POST", f"/threads/{_step(thread)}/{word}", dict[str, Any])

    async def watch(self, thread: str, after: int) -> AsyncIterator[Entry | LiveEvent]:
        path = f"/threads/{_step(thread)}/events"
        try:
            async with self._open("GET", path, query={"after": str(after)}) as response:
                await _check(response)
                async for name, body in _events(response):
                    yield _item(name, body)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(f"The server at {self.url} does not answer: {error}.") from None
        raise Unavailable(f"The server at {self.url} ended the stream. Ask again.")

    async def _ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: Any = None,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> T:
        try:
            async with self._open(method, path, body=body, query=query, headers=headers) as response:
                await _check(response)
                return msgspec.json.decode(await response.read(), type=kind)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(f"The server at {self.url} does not answer: {error}.") from None
        except msgspec.MsgspecError as error:
            raise Broken(
                f"The server at {self.url} answers in a way this release cannot read ({error})."
            ) from None

    def _open(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        assert self._session is not None, "used outside of its block"
        return self._session.request(
            method, self.url + path, json=body, params=query, headers=headers, allow_redirects=False
        )


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status < 300:
        return
    body = await response.content.read(100_000)
    try:
        text = str(msgspec.json.decode(body)["error"]["message"])
    except (msgspec.MsgspecError, LookupError, TypeError):
        text = f"The server answered {response.status}."
    kind: type[TorporError] = Refused if response.status < 500 else Broken
    raise Unavailable(text) if response.status == 503 else kind(text)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, bytes]]:
    """Name and data of each event; ours hold one line of data."""
    name, data, rest = "", b"", b""
    async for piece in response.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"event: "):
                name = line[7:].decode()
            elif line.startswith(b"data: "):
                data = line[6:]
            elif not line and name:
                yield name, data
                name, data = "", b""


def _item(name: str, body: bytes) -> Entry | LiveEvent:
    found = msgspec.json.decode(body)
    if name == "message":
        return entry_of(found)
    if name == "error":
        raise Unavailable(found["error"]["message"])
    return LiveEvent(name, found.get("text", ""))


def _given(value: Any) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(clean(json.dumps(msgspec.to_builtins(value), ensure_ascii=False)))
    return {name: field for name, field in fields.items() if field not in (None, "")}


def _step(thread: str) -> str:
    """A thread id as a step of a path; one that cannot be an id is refused before it is sent."""
    return thread_id(thread)
