"""Tool servers of a thread: discovered once per root thread, kept as a blob, and used as recorded.

A server that is away when a thread first needs it is waited for, by rings, up to ``PATIENCE`` seconds (one
that is started here: ``START``); then the thread goes on without it, visibly, and looks again at the start
of each exchange. So it does where a server is known to have other tools by now.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import Protocol

from torpor.core.definition import Definition
from torpor.core.effects import BRIDGED
from torpor.core.errors import Broken, Refused, Unavailable
from torpor.core.messages import Equipped, Noted
from torpor.core.step import Step
from torpor.core.thread import Head
from torpor.ports import Clock, Side
from torpor.runtime.roster import Member

PATIENCE = 30.0
START = 5.0
"""Seconds for an MCP server of which nothing is known yet; its tools join at a later exchange."""
MANIFESTS = 64
"""Manifests that a process remembers; others are read from the store again."""


class Discovery(Protocol):
    """The way to a tool server's manifest."""

    async def manifest(self, server: str, user: str = "") -> bytes:
        """The manifest for a user, found valid. ``Refused`` if it is not, ``Unavailable`` if none came."""

    def has_changed(self, server: str, hash: str, user: str = "") -> bool:
        """Whether the server is known to have another manifest by now; asks nobody."""


def keeper(thread: str, head: Head) -> str:
    """The thread beside which the manifests of a family are kept: its root."""
    return head.ancestors[0] if head.ancestors else thread


class Equipment:
    """Manifests by hash, and how threads come by them."""

    def __init__(self, side: Side, discovery: Discovery, clock: Clock, patience: float = PATIENCE) -> None:
        self._side = side
        self._clock = clock
        self._discovery = discovery
        self._patience = patience
        self._manifests: OrderedDict[str, bytes] = OrderedDict()

    async def definition(self, member: Member, thread: str, head: Head) -> Definition:
        """The agent with the tools that this thread has recorded."""
        if not member.servers:
            return member.definition({})
        manifests: dict[str, bytes] = {}
        for server in member.servers:
            recorded = head.toolsets.get(server)
            if recorded:
                manifests[server] = await self._manifest(keeper(thread, head), recorded)
        return member.definition(manifests)

    async def _manifest(self, thread: str, hash: str) -> bytes:
        known = self._manifests.get(hash)
        if known is None:
            known = await self._side.get_blob(thread, hash)
            if known is None:
                raise Broken(f"The manifest {hash[:12]} that the thread uses is not in the store.")
            self._remember(hash, known)
        return known

    def _remember(self, hash: str, body: bytes) -> None:
        self._manifests[hash] = body
        if len(self._manifests) > MANIFESTS:
            self._manifests.popitem(last=False)

    async def equip(self, member: Member, step: Step, user: str = "") -> float:
        """Record what is missing, as ``user`` may use it. Above 0: wait, and look again at that instant."""
        again = 0.0
        for server in member.servers:
            recorded = step.head.toolsets.get(server)
            if recorded is None or self._is_over(step, server, recorded, user):
                looked = await self._look(member, step, server, user, first=recorded is None)
                again = max(again, looked)
        return again

    def _is_over(self, step: Step, server: str, recorded: str, user: str) -> bool:
        """An exchange begins, and there is no manifest yet, or another one by now."""
        if step.head.exchange.completions:
            return False
        return not recorded or self._discovery.has_changed(server, recorded, user)

    async def _look(self, member: Member, step: Step, server: str, user: str, *, first: bool) -> float:
        try:
            body = await self._discovery.manifest(server, user)
        except Refused as error:
            self._go_without(step, server, str(error), first=first)
            return 0.0
        except Unavailable as error:
            now = self._clock.now()  # asking may have taken a while
            waited = now - step.head.exchange.since
            patience = min(START, self._patience) if server.startswith(BRIDGED) else self._patience
            if first and waited < patience:
                return now + max(1.0, waited)
            self._go_without(step, server, str(error), first=first)
            return 0.0
        hash = sha256(body).hexdigest()
        if hash == step.head.toolsets.get(server):
            return 0.0
        self._remember(hash, body)
        await self._side.put_blob(keeper(step.thread, step.head), hash, body)
        known = {**step.head.toolsets, server: hash}
        manifests = {url: self._manifests[one] for url, one in known.items() if one in self._manifests}
        problems = [problem for problem in member.problems(manifests) if server in problem]
        step.add(Noted(step.now, Equipped(server, hash, " ".join(problems)), step.trace))
        return 0.0

    def _go_without(self, step: Step, server: str, reason: str, *, first: bool) -> None:
        if first:
            step.add(Noted(step.now, Equipped(server, "", reason), step.trace))
