"""One call to an MCP server, carried on until its result, by as many runs and processes as it takes.

What a run finds in the call's record decides: a task is looked at, a question's answers are sent on, and a
request that went out without an answer is sent once more if the tool may be, else its outcome is unknown.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.core.messages import Text
from torpor.core.retry import backoff
from torpor.ports import Clock, Later, Side
from torpor.tools.bridged import McpServer
from torpor.tools.functions import ResultParts
from torpor.tools.mcp import tasks
from torpor.tools.mcp.answering import Answering
from torpor.tools.mcp.asking import Asking
from torpor.tools.mcp.challenges import AuthorizationNeeded
from torpor.tools.mcp.faults import Declined, Lost, TimedOut, TooLarge
from torpor.tools.mcp.records import DAY, Run
from torpor.tools.mcp.signing import Signing

if TYPE_CHECKING:
    from mcp_types import CallToolResult, InputRequiredResult

    from torpor.tools.mcp.listing import Offered
    from torpor.tools.mcp.session import Session, Task
    from torpor.tools.mcp.sessions import Sessions

log = logging.getLogger("torpor.mcp")

SENDINGS = 2
"""How often a request goes out at most, where nobody knows what became of it."""
ROUNDS = 20
"""How often a server may ask before it gives a result."""
URL_NEEDED = -32042
"""Code of an error that names URLs a person has to visit first."""
STORE_TRIES = 8
STARTS = 10
"""How often in a row a server may be away, or still starting, before a call that has not reached it is given
up: some minutes."""

Show = Callable[[Run, float, float | None, str], Awaitable[None]]
"""Shows watchers how far a call is."""
Outcome = "CallToolResult | InputRequiredResult | Task"


class Calls:
    """Carries calls on, for all threads of one process."""

    def __init__(
        self,
        sessions: "Sessions",
        side: Side,
        clock: Clock,
        *,
        asking: Asking,
        answering: Answering,
        signing: Signing,
        show: Show,
    ) -> None:
        self._sessions = sessions
        self._side = side
        self._clock = clock
        self._asking = asking
        self._answering = answering
        self._signing = signing
        self._show = show

    async def carry_on(self, run: Run, arguments: Mapping[str, Any]) -> ResultParts | Later:
        """Work on a call until its result, or until nothing has to run for it for a while."""
        try:
            return await self._next(run, arguments)
        except AuthorizationNeeded as needed:
            return await self._sign_in(run, needed)
        except TimedOut as error:
            return failed(f"{run.facts.name} was given up: {error}", "timeout")
        except TooLarge as error:
            return failed(f"{run.facts.name} ran, but its result was not taken: {error}")
        except Declined as error:
            return await self._declined(run, error)
        except Refused as error:
            return self._refused(run, str(error))
        except Unavailable as error:
            return await self._later(run, error)
        except TorporError:
            raise
        except Exception:
            log.exception("The call %r of %r failed in a way it should not", run.facts.call, run.facts.thread)
            return self._refused(run, "the bridge to its MCP server failed.")

    def _refused(self, run: Run, why: str) -> ResultParts:
        """The call cannot go on."""
        if run.record.phase in ("sent", "task"):
            return self._unknown(run, why)
        return failed(f"{run.facts.name} was not run: {why}", "undelivered")

    async def _next(self, run: Run, arguments: Mapping[str, Any]) -> ResultParts | Later:
        await run.touch()
        await self._signing.look(run)
        match run.record.phase:
            case "task":
                return await self._look(run)
            case "asked" if not await self._asking.collect(run):
                return Later(self._clock.now() + DAY, "a person's answer")
            case "sent":
                return await self._lost(
                    run, arguments, "the process that had sent it ended before the answer"
                )
            case _:
                return await self._send(run, arguments)

    # ------------------------------------------------------------- sending

    async def _send(self, run: Run, arguments: Mapping[str, Any]) -> ResultParts | Later:
        server = self._sessions.server(run.facts.server)
        left = server.call_timeout - run.elapsed
        if left <= 0:
            raise TimedOut(f"it had no result within {server.call_timeout:g} s.")
        session = await self._session(run)
        tool = session.tool(run.facts.name, arguments)
        if tool is None:
            raise Refused(f"the MCP server {server.name!r} does not have this tool any more.")
        before = run.record
        try:
            outcome = await self._call(session, run, arguments, tool, left)
        except Lost as error:
            if error.sent:
                return await self._lost(run, arguments, str(error))
            await run.save(phase=before.phase, sent=before.sent)
            raise
        except (AuthorizationNeeded, Declined):
            await run.save(phase=before.phase, sent=before.sent)
            raise
        return await self._taken(run, session, arguments, outcome)

    async def _call(
        self, session: "Session", run: Run, arguments: Mapping[str, Any], tool: "Offered", left: float
    ) -> "CallToolResult | InputRequiredResult | Task":
        answered = session.modern and (run.record.state is not None or bool(run.record.answers))
        return await session.call(
            run.facts.name,
            arguments,
            progress=partial(self._show, run),
            asked=partial(self._asked, run, session.server),
            key=f"{run.facts.thread}/{run.facts.call}",
            as_task=not session.modern and tool.tasks in ("optional", "required"),
            responses=run.record.answers if answered else None,
            request_state=run.record.state if answered else None,
            limit=left,
            sending=partial(self._sending, run),
        )

    async def _sending(self, run: Run) -> None:
        await run.make_sure()
        now = self._clock.now()
        started = run.record.started or now
        await run.save(phase="sent", sent=run.record.sent + 1, started=started, heard=now, failed=0)

    async def _asked(self, run: Run, server: McpServer, request: Any) -> Any:
        return await self._answering.live(run, server, request)

    async def _lost(self, run: Run, arguments: Mapping[str, Any], why: str) -> ResultParts | Later:
        """A request went out, and nobody knows what became of it."""
        if run.record.sent >= SENDINGS or not await self._may_repeat(run, arguments):
            return self._unknown(run, why)
        if run.record.questions:
            await self._asking.withdraw(run)
        return await self._send(run, arguments)

    async def _may_repeat(self, run: Run, arguments: Mapping[str, Any]) -> bool:
        repeat = run.facts.repeat
        if repeat == "unsafe" and self._sessions.server(run.facts.server).wrapped:
            tool = (await self._session(run)).tool(run.facts.name, arguments)
            repeat = tool.repeat if tool else repeat
        return repeat in ("safe", "keyed")

    async def _session(self, run: Run) -> "Session":
        return await self._sessions.session(run.facts.server, run.facts.root, run.facts.user_id)

    # ------------------------------------------------------------- outcomes

    async def _taken(
        self, run: Run, session: "Session", arguments: Mapping[str, Any], outcome: Any
    ) -> ResultParts | Later:
        from mcp_types import InputRequiredResult

        from torpor.tools.mcp.session import Task

        if isinstance(outcome, Task):
            await run.save(phase="task", task=outcome.id, poll=outcome.poll, sent=run.record.sent)
            return Later(self._clock.now() + tasks.pause(outcome.poll), "a task of its server")
        if not isinstance(outcome, InputRequiredResult):
            return await self._result(run, outcome)
        if run.record.rounds >= ROUNDS:
            raise Declined(f"it asked more than {ROUNDS} times.")
        requests = _wire(outcome).get("inputRequests") or {}
        await self._answering.take(run, session, requests, state=outcome.request_state)
        if requests:
            return await self._next(run, arguments)
        return Later(self._clock.now() + tasks.LEAST_POLL, "its server, which wants to be asked again")

    async def _result(self, run: Run, result: "CallToolResult") -> ResultParts:
        from torpor.tools.mcp.content import result_parts

        put = partial(self._put, run.facts.thread)
        kept = await result_parts(result, put)
        return ResultParts(kept.parts, bool(result.is_error), kept.handle, kept.size)

    async def _put(self, thread: str, handle: str, body: bytes) -> None:
        """Keep a blob, also where the store is away for a while: the result cannot be had again."""
        for failures in range(STORE_TRIES):
            try:
                return await self._side.put_blob(thread, handle, body)
            except Unavailable as error:
                log.warning("A result waits for the store: %s", error)
                await self._clock.sleep(backoff(failures, 0.5, 0.1, 10.0))
        return await self._side.put_blob(thread, handle, body)

    def _unknown(self, run: Run, why: str) -> ResultParts:
        return failed(
            f"{run.facts.name} was sent to its MCP server, and its outcome is unknown: {why.rstrip('.')}. "
            "It may or may not have taken effect. It was not sent again.",
            "unknown",
        )

    async def _declined(self, run: Run, error: Declined) -> ResultParts | Later:
        """The server answered with an error of the protocol: perhaps that a person has to visit a URL."""
        asked = error.detail.get("elicitations") if isinstance(error.detail, dict) else None
        if error.code != URL_NEEDED or not isinstance(asked, list) or run.record.rounds >= ROUNDS:
            return failed(f"{run.facts.name}: {error}")
        requests = {str(number): one for number, one in enumerate(asked) if isinstance(one, dict)}
        visits = {key: {**one, "mode": "url"} for key, one in requests.items()}
        await self._asking.open(run, visits, {}, phase="asked", rounds=run.record.rounds + 1)
        if not run.record.questions:
            return failed(f"{run.facts.name}: {error}")
        return Later(self._clock.now() + DAY, "a person")

    async def _sign_in(self, run: Run, needed: AuthorizationNeeded) -> ResultParts | Later:
        try:
            waits = await self._signing.begin(run, needed)
        except Refused as error:
            return failed(f"{run.facts.name} was not run: {error}", "undelivered")
        except Unavailable as error:
            return await self._later(run, error)
        return Later(self._clock.now() + (DAY if waits else 0.0), "a person who signs in")

    async def _later(self, run: Run, error: Unavailable) -> ResultParts | Later:
        """The server is away, or still starting: the call waits durably, within its limit."""
        server = self._sessions.server(run.facts.server)
        if run.elapsed > server.call_timeout:
            if run.record.phase in ("sent", "task"):
                return self._unknown(run, f"its server cannot be reached any more ({error})")
            return self._undelivered(run, error)
        if not run.record.phase and run.record.failed >= STARTS:
            return self._undelivered(run, error)
        pause = max(backoff(run.record.failed, 0.5, 1.0, 60.0), error.retry_after or 0.0)
        await run.save(failed=run.record.failed + 1)
        return Later(self._clock.now() + pause, str(error))

    def _undelivered(self, run: Run, error: Unavailable) -> ResultParts:
        return failed(f"{run.facts.name} could not be handed to its MCP server: {error}", "undelivered")

    # ---------------------------------------------------------------- tasks

    async def _look(self, run: Run) -> ResultParts | Later:
        server = self._sessions.server(run.facts.server)
        session = await self._session(run)
        if session.modern and run.record.questions:
            if not await self._asking.collect(run):
                return Later(self._clock.now() + DAY, "a person's answer")
            await self._answering.pass_on(run, session)
        if run.elapsed > server.call_timeout:
            await tell_cancelled(session, run.record.task)
            raise TimedOut(f"its task had no result within {server.call_timeout:g} s.")
        try:
            look = await tasks.look(session, run.record.task)
        except (Lost, TimedOut) as error:
            raise Unavailable(str(error)) from error
        except Declined as error:
            return self._unknown(run, f"its server does not know its task any more ({error})")
        return await self._looked(run, session, look)

    async def _looked(self, run: Run, session: "Session", look: tasks.Look) -> ResultParts | Later:
        if look.message:
            await self._show(run, 0.0, None, look.message)
        if look.is_over or (look.status == "input_required" and not session.modern):
            return await self._fetch(run, session, look)
        if look.requests and await self._answering.take_more(run, session, look.requests):
            return await self._look(run)
        if run.record.questions:
            return Later(self._clock.now() + DAY, "a person's answer")
        poll = look.poll or run.record.poll
        return Later(self._clock.now() + tasks.pause(poll), "a task of its server")

    async def _fetch(self, run: Run, session: "Session", look: tasks.Look) -> ResultParts | Later:
        """What came of a task; an old server asks people on this request, and answers it when all is done."""
        if look.status == "cancelled":
            return failed(f"{run.facts.name}: its server cancelled its task. {look.message}".rstrip())
        if look.result is not None:
            return await self._result(run, _tool_result(session, look.result))
        if session.modern:
            return failed(f"{run.facts.name}: {look.error or look.message or 'its task failed.'}")
        if run.record.questions:
            await self._asking.withdraw(run)
        try:
            raw = await session.request(
                "tasks/result",
                {"taskId": run.record.task},
                progress=partial(self._show, run),
                asked=partial(self._asked, run, session.server),
                task=run.record.task,
            )
        except (Lost, TimedOut) as error:
            raise Unavailable(str(error)) from error
        return await self._result(run, _tool_result(session, raw))


def failed(text: str, cause: str = "") -> ResultParts:
    """A result in words of ours."""
    return ResultParts((Text(f"Error: {text}"),), is_error=True, cause=cause)


async def tell_cancelled(session: "Session", task: str) -> None:
    """Tell a server that nobody waits for a task any more; best effort."""
    try:
        async with asyncio.timeout(10.0):
            await tasks.cancel(session, task)
    except (TorporError, TimeoutError) as error:
        log.info("The task %r could not be cancelled: %s", task, error)


def _tool_result(session: "Session", raw: Mapping[str, Any]) -> "CallToolResult":
    from mcp_types import CallToolResult

    outcome = session.outcome(raw)
    if not isinstance(outcome, CallToolResult):
        raise Declined("its task ended with something that is no result of a tool.")
    return outcome


def _wire(outcome: "InputRequiredResult") -> dict[str, Any]:
    return outcome.model_dump(mode="json", by_alias=True, exclude_none=True)
