"""MCP servers at a URL, spoken to over Streamable HTTP in the ways of 2025 and of 2026.

A failure of one request is that request's alone: it is raised where the call waits. Redirects are followed
only within the server's origin and with the same method, such as one that adds a slash.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import httpx2
from httpx2 import EventSource
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from torpor.core.errors import Refused, TorporError
from torpor.tools.bridged import McpServer
from torpor.tools.mcp.faults import Lost, SignInNeeded, TooLarge
from torpor.tools.mcp.lines import Noise, failed, read_line
from torpor.tools.mcp.network import PublicTransport, blocked, quietly
from torpor.tools.mcp.refusals import beginning, judged, protocol_error, redirected, words

SESSION = "mcp-session-id"
_SESSION_ID = re.compile(r"[\x21-\x7e]{0,4096}")
VERSION = "mcp-protocol-version"
REDIRECTS = 3
NOTICE_SECONDS = 15.0
"""For a notification, or our answer to a question of the server, to be taken."""
GOODBYE_SECONDS = 2.0
RESUMPTIONS = 5
"""How often a broken stream of one call is picked up again without an event in between."""
AGAIN = 1.0
LONGEST_AGAIN = 60.0
"""Seconds between two streams for what a server says by itself; the longer, the sooner they end."""


class HttpTransport:
    """A server at a URL, as streams of messages for the SDK's session.

    ``on_end`` is called when the session at the server has expired: calls that are still under way may be
    answered, new ones are not; ``on_flow`` whenever more has come of a long answer. ``related`` gives, by the
    id of a question of the server, the id of the request of ours on whose stream it came.
    """

    def __init__(
        self,
        server: McpServer,
        on_end: Callable[[], None],
        on_flow: Callable[[], None],
        auth: httpx2.Auth | None = None,
    ) -> None:
        assert server.url is not None
        self.server = server
        self.noise = Noise()
        self.has_ended = False
        self.related: dict[int | str, int | str] = {}
        self._url = server.url
        self._auth = auth
        self._on_end = on_end
        self._on_flow = on_flow
        self._has_expired = False
        self._session = ""
        self._version = ""
        self._requests: dict[int | str, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    pid = None

    def account(self) -> str:
        """What is known of the server's state beyond what a request gave."""
        return self.server.hide(str(self.noise))

    async def has_exited(self, seconds: float) -> bool:  # noqa: ARG002
        """There is no process to end."""
        return False

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Give the messages from the server, and where those to it go. Nothing is sent yet."""
        outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        self._incoming, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        transport = PublicTransport(self.server.reach, self.server.result_limit, self._on_flow)
        timeout = httpx2.Timeout(NOTICE_SECONDS, read=None, pool=None)
        headers = {**self.server.headers, "User-Agent": "torpor", "Accept-Encoding": "identity"}
        async with httpx2.AsyncClient(
            transport=transport, headers=headers, timeout=timeout, auth=self._auth, trust_env=False
        ) as self._client:
            writer = asyncio.create_task(self._write(to_send))
            try:
                yield incoming, outgoing
            finally:
                tasks = [writer, *self._requests.values(), *self._others]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._say_goodbye()
                for stream in (incoming, outgoing, to_send, self._incoming):
                    stream.close()

    # -------------------------------------------------------------- what goes

    async def _write(self, to_send: Any) -> None:
        async for item in to_send:
            message = item.message
            headers = _headers(item.metadata)
            if isinstance(message, JSONRPCRequest):
                self._note_version(message, headers)
                task = asyncio.create_task(self._ask(message, headers))
                self._requests[message.id] = task
                task.add_done_callback(partial(self._forget, message.id))
            elif not self._is_cancelled(message) or self._version not in MODERN_PROTOCOL_VERSIONS:
                self._aside(self._tell(message, headers))
            if isinstance(message, JSONRPCNotification) and message.method == "notifications/initialized":
                await asyncio.gather(*self._others, return_exceptions=True)
                if self._session:
                    self._aside(self._listen())

    def _note_version(self, message: JSONRPCRequest, headers: Mapping[str, str]) -> None:
        if message.method == "initialize":
            self._session = self._version = ""
        else:
            self._version = headers.get(VERSION, self._version)

    def _forget(self, id: int | str, task: asyncio.Task[None]) -> None:
        if self._requests.get(id) is task:
            del self._requests[id]
        for question in [question for question, asked in self.related.items() if asked == id]:
            del self.related[question]

    def _aside(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    def _is_cancelled(self, message: JSONRPCMessage) -> bool:
        """Whether it says that nobody waits for a request any more. That one is broken off."""
        if not isinstance(message, JSONRPCNotification) or message.method != "notifications/cancelled":
            return False
        id = cancelled_request_id_from_params(message.params)
        task = None if id is None else self._requests.get(id)
        if task is not None:
            task.cancel()
        return True

    async def _tell(self, message: JSONRPCMessage, headers: Mapping[str, str]) -> None:
        """Send what gets no answer. It may be lost, as any notification."""
        with suppress(httpx2.HTTPError, OSError, TorporError, TimeoutError):
            async with asyncio.timeout(NOTICE_SECONDS), self._sent("POST", message, headers):
                pass

    async def _ask(self, message: JSONRPCRequest, headers: Mapping[str, str]) -> None:
        """One request and its answer, or the fault in place of one."""
        try:
            async with self._sent("POST", message, headers) as response:
                fault = await self._take(message, response)
        except TorporError as error:
            fault = error
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            fault = self._unreachable(error)
        except (httpx2.HTTPError, OSError) as error:
            fault = Lost(f"the connection broke ({words(error)})", sent=True)
        if fault is not None:
            await self._deliver(failed(message.id, fault))

    def _unreachable(self, error: Exception) -> TorporError:
        why = blocked(error)
        if why is not None:
            return Refused(f"its address may not be asked: {why}")
        return Lost(f"it cannot be reached ({words(error)})", sent=False)

    @asynccontextmanager
    async def _sent(
        self, method: str, message: JSONRPCMessage | None, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx2.Response]:
        """One request; a redirect within the origin is followed."""
        all_headers = {"accept": "application/json, text/event-stream", **self._ours(), **headers}
        body = None
        if message is not None:
            all_headers["content-type"] = "application/json"
            body = message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "replace")
        url = self._url
        for _ in range(REDIRECTS + 1):
            request = self._client.build_request(method, url, content=body, headers=all_headers)
            response = await quietly(self._client.send(request, stream=True, follow_redirects=False))
            try:
                target = redirected(response, url)
                if not target:
                    yield response
                    return
            finally:
                await response.aclose()
            url = target
        raise Refused("it redirects in circles")

    def _ours(self) -> dict[str, str]:
        given = {SESSION: self._session, VERSION: self._version}
        return {name: value for name, value in given.items() if value}

    # -------------------------------------------------------------- what comes

    async def _take(self, message: JSONRPCRequest, response: httpx2.Response) -> TorporError | None:
        """Pass an answer on; a fault if there is none."""
        if response.status_code != 200:
            return await self._refusal(message, response)
        if message.method == "initialize":
            session = response.headers.get(SESSION, "")
            if not _SESSION_ID.fullmatch(session):
                return Refused("it gives a session id that may not be one: visible ASCII characters only")
            self._session = session
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            return await self._whole(message, await response.aread())
        if kind == "text/event-stream":
            return await self._stream(message, response)
        return Refused(f"it answered with {kind[:60] or 'no content type'}, which is no MCP")

    async def _whole(self, message: JSONRPCRequest, body: bytes) -> TorporError | None:
        found = False
        for one in read_line(body, self.noise):
            found = await self._pass_on(one, message.id) or found
        return None if found else Lost("its answer is not what was asked for", sent=True)

    async def _stream(self, message: JSONRPCRequest, response: httpx2.Response) -> TorporError | None:
        """The events of a call, picked up again where the stream breaks and the server can."""
        mark = _Mark()
        if await self._events(response, mark, message.id):
            return None
        tries = 0
        while mark.id and mark.fault is None and self._version not in MODERN_PROTOCOL_VERSIONS:
            tries = 1 if mark.moved else tries + 1
            if tries > RESUMPTIONS:
                break
            mark.moved = False
            await asyncio.sleep(mark.wait)
            try:
                async with self._sent("GET", None, {"last-event-id": mark.id}) as again:
                    if again.status_code != 200:
                        break
                    if await self._events(again, mark, message.id):
                        return None
            except httpx2.HTTPError:
                continue
        return mark.fault or Lost("its stream ended before it had answered", sent=True)

    async def _events(self, response: httpx2.Response, mark: "_Mark", asked: int | str | None) -> bool:
        """Pass on the messages of a stream; whether the answer was among them."""
        limit = self.server.result_limit
        try:
            async for event in EventSource(response, max_event_size=limit):
                mark.note(event.id, event.retry)
                if event.event != "message" or not event.data:
                    continue
                for one in read_line(event.data.encode("utf-8", "replace"), self.noise):
                    if await self._pass_on(one, asked):
                        return True
        except httpx2.SSEError as error:
            large = "exceeded" in str(error)
            mark.fault = (
                TooLarge(f"the answer has more than {limit:,} bytes") if large else
                Lost("its stream of events cannot be read", sent=True)
            )  # fmt: skip
        except (httpx2.HTTPError, OSError):
            pass
        return False

    async def _pass_on(self, one: JSONRPCMessage, asked: int | str | None) -> bool:
        """Give a message to the session; whether it is the answer to what was asked."""
        if isinstance(one, JSONRPCResponse | JSONRPCError) and asked is not None:
            await self._deliver(one.model_copy(update={"id": asked}))
            return True
        if isinstance(one, JSONRPCRequest) and asked is not None:
            self.related[one.id] = asked
        await self._deliver(one)
        return False

    async def _deliver(self, message: JSONRPCMessage) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._incoming.send(SessionMessage(message))

    async def _refusal(self, message: JSONRPCRequest, response: httpx2.Response) -> TorporError | None:
        """What a status other than 200 means for a call; an error in the protocol's form is passed on."""
        body = await beginning(response)
        status, had_session = response.status_code, bool(response.request.headers.get(SESSION))
        if status == 401:
            return SignInNeeded("it wants a person to sign in, or other credentials (401)")
        error = protocol_error(body, message.id)
        told = error.error.message if error is not None else ""
        if had_session and (status == 404 or (status == 400 and "session" in told.lower())):
            self._expired()
            return Lost("the session at the server has expired", sent=False)
        if error is not None:
            await self._deliver(error)
            return None
        return judged(response)

    # -------------------------------------------------------------- the rest

    async def _listen(self) -> None:
        """What the server says by itself; only servers of 2025 with a session do."""
        wait = AGAIN
        while not self._has_expired:
            started = time.monotonic()
            mark = _Mark()
            try:
                async with self._sent("GET", None, {"accept": "text/event-stream"}) as response:
                    if response.status_code != 200:
                        return
                    await self._events(response, mark, None)
            except (httpx2.HTTPError, OSError):
                pass
            except TorporError:
                return
            long = time.monotonic() - started > LONGEST_AGAIN
            wait = AGAIN if long else min(2 * wait, LONGEST_AGAIN)
            await asyncio.sleep(max(wait, mark.wait))

    async def _say_goodbye(self) -> None:
        if self._session and not self._has_expired:
            with suppress(httpx2.HTTPError, OSError, TorporError, TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS), self._sent("DELETE", None, {}):
                    pass
        self.has_ended = True

    def _expired(self) -> None:
        if not self._has_expired:
            self._has_expired = True
            self._on_end()


class _Mark:
    """How far a stream of events has come."""

    def __init__(self) -> None:
        self.id = ""
        self.wait = AGAIN
        self.moved = False
        self.fault: TorporError | None = None

    def note(self, id: str, retry: int | None) -> None:
        if id and id != self.id:
            self.id, self.moved = id, True
        if retry is not None:
            self.wait = min(max(retry / 1000, 0.1), LONGEST_AGAIN)


def _headers(metadata: object) -> dict[str, str]:
    """What the SDK wants to be told in headers; their names in lower case, as all of ours."""
    given = metadata.headers if isinstance(metadata, ClientMessageMetadata) else None
    return {name.lower(): value for name, value in (given or {}).items()}
