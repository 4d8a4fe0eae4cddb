"""Moving a session to another instance of the server, by the author's own function."""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
from yarl import URL

from torpor.tools.addresses import host_of
from torpor.tools.server.content import ToolError, error_text
from torpor.tools.server.courier import new_session
from torpor.tools.server.wire import is_private
from torpor.tools.strict import Malformed, parse_object

log = logging.getLogger("torpor.tools.server")

MANIFEST_PATH = "/.well-known/rap-toolset"
LARGEST_MANIFEST = 2 * 1024 * 1024
REACHED_WITHIN = 10.0
MOVED_WITHIN = 1_500.0

Move = Callable[[str, str], Any]


class Unmoved(Exception):
    """A session that stays here. `status`: how to answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Migration:
    """Moves the sessions of the server `name`, each move once however often it is asked for meanwhile."""

    def __init__(self, name: str, move: Move) -> None:
        self._name = name
        self._move = move
        self._moving: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def run(self, session: str, destination: str, *, private: bool) -> None:
        """Move a session; returns when it has moved. Unmoved says why it has not."""
        key = session, destination
        if key not in self._moving:
            task = asyncio.create_task(self._run(session, destination, private=private))
            self._moving[key] = task
            task.add_done_callback(lambda _: self._moving.pop(key, None))
        await asyncio.shield(self._moving[key])

    async def _run(self, session: str, destination: str, *, private: bool) -> None:
        if not private and is_private(host_of(destination)):
            raise Unmoved(400, "destination_url leads to a private address, which this server does not call")
        await self._reach(destination, private=private)
        try:
            async with asyncio.timeout(MOVED_WITHIN):
                await self._called(session, destination)
        except TimeoutError:
            raise Unmoved(504, "moving the session took too long") from None
        except ToolError as error:
            raise Unmoved(502, str(error)) from None
        except Exception as error:
            log.exception("a session could not be moved")
            raise Unmoved(500, error_text(error).removeprefix("Error: ")) from None

    async def _called(self, session: str, destination: str) -> None:
        if inspect.iscoroutinefunction(self._move):
            await self._move(session, destination)
        else:
            await asyncio.to_thread(self._move, session, destination)

    async def _reach(self, destination: str, *, private: bool) -> None:
        """Make sure that an instance of this server is there before anything is moved."""
        try:
            async with asyncio.timeout(REACHED_WITHIN), new_session(private=private) as http:
                at = URL(f"{destination}{MANIFEST_PATH}", encoded=True)
                async with http.get(at, allow_redirects=False) as answer:
                    found = answer.status
                    told = await answer.content.read(LARGEST_MANIFEST) if found == 200 else b"{}"
                    name = parse_object(told).get("name")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, Malformed) as error:
            raise Unmoved(502, f"the destination cannot be reached ({type(error).__name__})") from None
        # Without its token it does not tell its name.
        if found not in (200, 401, 403) or (found == 200 and name != self._name):
            raise Unmoved(502, f"the destination is no {self._name!r} server")
