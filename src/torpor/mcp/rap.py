"""The tools of RAP servers, as the servers describe them now."""

import asyncio
import logging
from collections.abc import Sequence

from torpor.core.definition import ToolSpec
from torpor.core.errors import TorporError
from torpor.mcp.desk import Discover
from torpor.ports import Transport
from torpor.runtime.roster import Member

log = logging.getLogger("torpor.mcp")


def discovery(transport: Transport, member: Member) -> Discover:
    """Asks the caller's servers for their tools; those that do not answer are left out."""

    async def manifest(server: str) -> bytes | None:
        try:
            return await transport.discover(server)
        except TorporError as error:
            log.warning("the tools of %s are left out: %s", server, error)
            return None

    async def discover() -> Sequence[ToolSpec]:
        bodies = await asyncio.gather(*map(manifest, member.servers))
        found = {
            server: body for server, body in zip(member.servers, bodies, strict=True) if body is not None
        }
        for problem in member.problems(found):
            log.warning("%s", problem)
        return [spec for spec in member.definition(found).tools.values() if spec.server]

    return discover
