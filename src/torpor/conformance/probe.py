"""What the checks of a tool server work with: a way to it, a stub runtime, and calls that show something."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from torpor.conformance.caller import OWN, Answer, Caller
from torpor.conformance.ledger import Ledger
from torpor.conformance.listening import Asked, StubRuntime

ROLES = {
    "quick": "answers quickly",
    "long": "works for long",
    "subscribing": "opens a subscription",
    "choosing": "asks a person to choose",
    "authorizing": "asks for authorization",
}
"""What a call may be good for. Errors need no role: a call of an unknown operation is one."""

STATUS = "/tool_call_status"
CANCEL = "/cancel_tool_call"
CLOSE = "/close_thread"
MIGRATE = "/migrate"
UNKNOWN = "no_such_operation"
BUSY_TRIES = 4


class Patience(msgspec.Struct, frozen=True):
    """How long to wait, in seconds."""

    answer: float = 10.0
    """For the answer to any request."""
    ack: float = 2.0
    """What an acknowledgement may take."""
    settle: float = 1.0
    """What takes longer than this works for long."""
    result: float = 10.0
    """For a result that must come."""
    retry: float = 15.0
    """For the first repeat of a callback."""
    quiet: float = 3.0
    """How long nothing must come, where nothing may."""


class Call(msgspec.Struct, frozen=True):
    """A tool by name, and arguments for it."""

    name: str
    arguments: dict[str, Any] = {}


class Tool(msgspec.Struct, frozen=True):
    """A tool of the manifest, as far as it has the right shape."""

    name: str
    schema: dict[str, Any]
    annotations: dict[str, Any]

    def says(self, annotation: str) -> bool:
        """Whether an annotation is true."""
        return self.annotations.get(annotation) is True


class Probe:
    """One tool server under test. ``calls`` are known to be good for a role."""

    def __init__(self, caller: Caller, stub: StubRuntime, ledger: Ledger, patience: Patience) -> None:
        self.caller = caller
        self.stub = stub
        self.ledger = ledger
        self.patience = patience
        self.manifest: dict[str, Any] = {}
        self.discovered: Answer | None = None
        self.endpoint = ""
        self.tools: tuple[Tool, ...] = ()
        self.calls: dict[str, Call] = {}
        self.has_status = False

    def tool(self, name: str) -> Tool | None:
        """A tool of the manifest by name."""
        return next((tool for tool in self.tools if tool.name == name), None)

    async def ask(
        self,
        call: Call | str,
        *,
        thread: str = "",
        call_id: str | None = None,
        script: Iterable[int] = (),
        url: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> Asked:
        """Make a call: one that is known for a role, or any. ``more`` adds or replaces members."""
        known = self.calls[call] if isinstance(call, str) else call
        asked = self.stub.expect(thread=thread, call_id=call_id, script=script, url=url)
        members = {
            "operation": known.name,
            "arguments": known.arguments,
            "id": asked.id,
            "callback_url": asked.url,
            "group_id": asked.thread,
            **({} if call_id is None else {"call_id": call_id}),
            **(more or {}),
        }
        await self.send(asked, members)
        return asked

    async def send(self, asked: Asked, members: Mapping[str, Any], *, token: Any = OWN) -> Answer:
        """Send an invocation; a server that says it is busy is asked again."""
        answer = await self.caller.post(self.endpoint, members, token=token)
        for pause in range(1, BUSY_TRIES):
            if answer.status != 503 or await asked.until(lambda: asked.callbacks, 0.2 * 2.0**pause):
                break
            answer = await self.caller.post(self.endpoint, members, token=token)
        asked.exchange, asked.status = answer.exchange, answer.status
        asked.ack_seconds, asked.acked_at = answer.seconds, answer.ended
        asked.accepted.set()
        return answer

    async def close(self, thread: str, **more: Any) -> Answer:
        """Tell it that a thread is closed."""
        return await self.caller.post(CLOSE, {"thread_id": thread}, **more)

    async def cancel(self, asked: Asked, *, thread: str = "", **more: Any) -> Answer:
        """Tell it that a call is no longer wanted."""
        if not thread:
            asked.cancelled = True
        return await self.notice(CANCEL, thread or asked.thread, asked.id, **more)

    async def status(self, asked: Asked, *, thread: str = "", **more: Any) -> Answer:
        """Ask whether a call is alive."""
        return await self.notice(STATUS, thread or asked.thread, asked.id, **more)

    async def notice(self, path: str, thread: str, id: str, **more: Any) -> Answer:
        """POST the two ids to a path."""
        return await self.caller.post(path, {"thread_id": thread, "tool_call_id": id}, **more)


def alive(answer: Answer) -> bool | None:
    """What a status check said; None: nothing usable."""
    try:
        members = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    told = members.get("alive") if isinstance(members, dict) else None
    return told if answer.status == 200 and isinstance(told, bool) else None


def lacking(probe: Probe, role: str, rows: str) -> bool:
    """Whether no call is known for a role; then all these rows are unseen."""
    if role in probe.calls:
        return False
    for number in rows.split():
        probe.ledger.unseen(f"TS-{number}", f"no tool is known that {ROLES[role]}")
    return True
