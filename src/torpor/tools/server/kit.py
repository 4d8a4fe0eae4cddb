"""The tool server that an author writes against."""

import asyncio
import contextlib
import inspect
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

from starlette.applications import Starlette

from torpor.core.errors import Refused
from torpor.tools.addresses import is_loopback
from torpor.tools.server import wire
from torpor.tools.server.call import ToolCall
from torpor.tools.server.courier import Courier
from torpor.tools.server.database import Database
from torpor.tools.server.front import Front
from torpor.tools.server.migration import Migration, Move
from torpor.tools.server.offer import LONG_TIMEOUT, TIMEOUT, Offer
from torpor.tools.server.outbox import Outbox
from torpor.tools.server.owed import Retry
from torpor.tools.server.work import Work
from torpor.tools.signatures import Secrets

F = TypeVar("F", bound=Callable[..., Any])

LARGEST_BODY = 2 * 1024 * 1024
KEEP = 7 * 86_400.0
_PRUNE_EVERY = 3600.0


class ToolServer:
    """Functions offered as tools over RAP.

    Calls are acknowledged at once and worked on in the background; what is owed to runtimes is kept in the
    SQLite file `outbox` (default: the server's name in the current directory; `:memory:` forgets it at exit),
    which one running server holds at a time. With a `token`, every request must bear it. `public_url` is the
    base URL under which runtimes reach the server, if that is not the address they ask. `allow_private` says
    whether callbacks may go to private addresses (default: only if the server itself listens on loopback).
    At most `most_running` calls are at work, and `requests_per_second` requests are taken in the long run;
    the rest is told to come again. A cancelled function has `grace` seconds to end; settled calls are known
    for `keep` seconds.

    With a `secret` (`whsec_…`; of several the first signs and all verify) callbacks are signed, and with
    `require_signatures` messages that are not signed with it are refused. Not so discovery, and tokens are
    wanted anyway.
    """

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        outbox: str | Path | None = None,
        token: str | None = None,
        secret: str | bytes | Sequence[str | bytes] | None = None,
        require_signatures: bool = False,
        public_url: str | None = None,
        allow_private: bool | None = None,
        retry: Retry | None = None,
        largest_body: int = LARGEST_BODY,
        most_running: int = 1000,
        requests_per_second: float = 1000.0,
        grace: float = 10.0,
        keep: float = KEEP,
    ) -> None:
        if not 0 < len(name) <= 128:
            raise ValueError("the name of a tool server has 1 to 128 characters")
        if token is not None and not token:
            raise ValueError("an empty token guards nothing; leave it out or set one")
        if require_signatures and secret is None:
            raise ValueError("signatures can only be required with a secret")
        self._secrets = _secrets(secret)
        self._require_signatures = require_signatures
        self.name = name
        self.description = description
        self.token = token
        self._outbox_path = outbox or f"{re.sub('[^A-Za-z0-9_-]+', '-', name)}.outbox.db"
        self._allow_private = allow_private
        self._public_url = public_url
        self._retry = retry or Retry()
        self._largest_body = largest_body
        self._most_running = most_running
        self._requests_per_second = requests_per_second
        self._grace = grace
        self._keep = keep
        self._offers: dict[str, Offer] = {}
        self._on_close: Callable[[str], Any] | None = None
        self._move: Move | None = None
        self._work: Work | None = None
        self._open = contextlib.AsyncExitStack()
        self._opening = asyncio.Lock()

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        long_running: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        read_only: bool | None = None,
        requires_auth: str | None = None,
        restartable: bool | None = None,
        timeout: float | None = None,
        annotations: Mapping[str, Any] | None = None,
        display_script: str | None = None,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: F | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        long_running: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        read_only: bool | None = None,
        requires_auth: str | None = None,
        restartable: bool | None = None,
        timeout: float | None = None,
        annotations: Mapping[str, Any] | None = None,
        display_script: str | None = None,
    ) -> F | Callable[[F], F]:
        """Offer a function, async or not, as a tool.

        Name, description and schema come from the function. A tool that is `idempotent`, `read_only` or
        `restartable` runs again, with the same key, if the server died while it ran; any other then ends with
        an error. `timeout` bounds, in seconds, the time until its result or subscription (ten minutes; a day
        if `long_running`), waits for people not counted. Calls of `destructive` tools may need approval;
        `requires_auth` names the provider that `ToolCall.authorize` sends people to. Raises TypeError or
        ValueError if the function cannot be offered.
        """
        promises = {
            "longRunning": long_running,
            "destructive": destructive,
            "idempotent": idempotent,
            "readOnly": read_only,
            "requiresAuth": requires_auth,
        }
        if restartable is None:
            restartable = bool(idempotent or read_only)

        def offer(function: F) -> F:
            made = Offer(
                function,
                name=name,
                description=description,
                annotations={
                    **{key: value for key, value in promises.items() if value is not None},
                    **(annotations or {}),
                },
                restartable=restartable,
                timeout=timeout or (LONG_TIMEOUT if long_running else TIMEOUT),
                display_script=display_script,
            )
            if made.name in self._offers:
                raise ValueError(f"there is a tool named {made.name!r} already")
            self._offers[made.name] = made
            return function

        return offer if function is None else offer(function)

    def on_close(self, function: F) -> F:
        """Have `function(thread)` called, in the background, when a thread is closed. It may never be."""
        self._on_close = function
        return function

    def migrate(self, function: F) -> F:
        """Have `function(session, destination)` move what the server keeps of a session to another instance.

        It returns once the instance at that base URL, which has been found there, can serve the session; what
        it raises is the reason why the session stays. The manifest then says that sessions have to be moved.
        """
        self._move = function
        return function

    def waiting(self, state: str) -> ToolCall | None:
        """The call that waits for an authorization with this `state`, if it is one that we gave out."""
        return None if self._work is None else self._work.waiting(state)

    async def authorized(self, call: ToolCall | str, *, problem: str = "") -> bool:
        """Let a call, or the one that waits with this `state`, go on, since a person has authorized it.

        With a `problem`, such as "access was denied", it ends with that error. False if nothing waits.
        """
        return self._work is not None and await self._work.authorized(call, problem)

    def manifest(self, endpoint: str) -> dict[str, Any]:
        """The toolset as runtimes discover it, with the URL that takes invocations."""
        described = {"description": self.description} if self.description else {}
        tools = [offer.definition() for offer in self._offers.values()]
        return {
            "name": self.name,
            **described,
            "endpoint": endpoint,
            "tools": tools,
            **({} if self._move is None else {"needsMigration": True}),
            "features": [wire.FEATURE],
        }

    @cached_property
    def app(self) -> Starlette:
        """The server as an ASGI application. Give it a `token` unless only this machine reaches it."""
        front = Front(
            work=self._started,
            manifest=self.manifest,
            clean_up=self._clean_up,
            migration=None if self._move is None else Migration(self.name, self._move),
            signed_by=self._secrets if self._require_signatures else None,
            token=self.token,
            public_url=self._public_url,
            allow_private=self._allow_private,
            largest_body=self._largest_body,
            requests_per_second=self._requests_per_second,
        )

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with self._running():
                yield

        return Starlette(routes=front.routes(), lifespan=lifespan)

    def run(self, host: str = "127.0.0.1", port: int = 0, *, announce: bool | None = None) -> None:
        """Serve until SIGINT or SIGTERM.

        With `announce` (default: when `RAP_EMBEDDED` is set) the line `{"port": N}` is printed once the
        server answers. Raises ValueError for an address beyond this machine without a token, OSError if it
        is taken.
        """
        if announce is None:
            announce = "RAP_EMBEDDED" in os.environ
        asyncio.run(self._serve(host, port, announce=announce))

    @contextlib.asynccontextmanager
    async def listening(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
        """Serve while the block runs; gives the base URL."""
        from torpor.tools.server import listening

        self._check_address(host)
        listener = listening.bind(host, port)
        try:
            async with self._running(), listening.serving(self.app, listener):
                shown = f"[{host}]" if ":" in host else host
                yield f"http://{shown}:{listener.getsockname()[1]}"
        finally:
            listener.close()

    async def _serve(self, host: str, port: int, *, announce: bool) -> None:
        from torpor.tools.server.listening import until_signalled

        async with self.listening(host, port) as url:

            def ready() -> None:
                if announce:
                    print(json.dumps({"port": int(url.rsplit(":", 1)[1])}), flush=True)  # noqa: T201
                else:
                    print(f"{self.name} listens on {url}", file=sys.stderr)  # noqa: T201

            await until_signalled(ready)
        await _leave()

    def _check_address(self, host: str) -> None:
        if not self._offers:
            raise ValueError(f"tool server {self.name!r} has no tools; decorate a function with @server.tool")
        if not is_loopback(host) and self.token is None:
            raise ValueError(f"{host} can be reached from other machines: give the server a token first")

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        await self._started()
        try:
            yield
        finally:
            self._work = None
            self._opening = asyncio.Lock()
            await self._open.aclose()

    async def _started(self) -> Work:
        if self._work is None:
            async with self._opening:
                if self._work is None:
                    try:
                        self._work = await self._start()
                    except BaseException:
                        await self._open.aclose()
                        raise
        return self._work

    async def _start(self) -> Work:
        self._database = database = Database(self._outbox_path)
        await database.open()
        self._open.push_async_callback(database.close)
        outbox = Outbox(database, self._retry)
        courier = Courier(outbox, self._retry, self._secrets)
        work = Work(self._offers, outbox, courier, grace=self._grace, most_running=self._most_running)
        courier.start()
        self._open.push_async_callback(courier.stop, 2.0)
        self._open.push_async_callback(work.stop)
        await work.recover()
        pruning = asyncio.create_task(self._prune(outbox))
        self._open.callback(pruning.cancel)
        return work

    async def _prune(self, outbox: Outbox) -> None:
        while True:
            await outbox.prune(time.time() - self._keep)
            await asyncio.sleep(_PRUNE_EVERY)

    @property
    def _clean_up(self) -> Callable[[str], Awaitable[None]] | None:
        return None if self._on_close is None else self._clean

    async def _clean(self, thread: str) -> None:
        assert self._on_close is not None
        if inspect.iscoroutinefunction(self._on_close):
            await self._on_close(thread)
        else:
            await asyncio.to_thread(self._on_close, thread)


def _secrets(given: str | bytes | Sequence[str | bytes] | None) -> Secrets | None:
    try:
        return None if given is None else Secrets(given)
    except Refused as error:
        raise ValueError(str(error)) from None


async def _leave() -> None:
    """Make sure that the process can end, even if a tool's function refuses to."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, stubborn = await asyncio.wait(left, timeout=0.5)
        if stubborn:
            sys.stderr.flush()
            os._exit(0)
