"""What MCP servers ask of a client, answered: by people, the agent's own model, and the settings."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torpor.core.errors import Refused, TorporError
from torpor.tools.bridged import McpServer
from torpor.tools.mcp import tasks
from torpor.tools.mcp.asking import DECLINED, Asking
from torpor.tools.mcp.records import Run
from torpor.tools.mcp.sampling import Sampler

if TYPE_CHECKING:
    from torpor.tools.mcp.session import Session

ELICIT = "elicitation/create"
INVALID_REQUEST = -32600


class Answering:
    """Answers the requests of servers for the calls that they serve."""

    def __init__(self, asking: Asking, sampler: Sampler) -> None:
        self._asking = asking
        self._sampler = sampler

    async def live(self, run: Run, server: McpServer, request: Any) -> Any:
        """Answer what a server asks while it works, by the types of the SDK."""
        from mcp_types import CreateMessageResult, ElicitResult, ErrorData

        params = request.params.model_dump(mode="json", by_alias=True, exclude_none=True)
        if request.method == ELICIT:
            answer = await self._asking.live(run, params) if server.elicitation else DECLINED
            return ElicitResult.model_validate(answer)
        try:
            return CreateMessageResult.model_validate(await self._sampler.ask(run, server, params))
        except TorporError as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))

    async def take(
        self, run: Run, session: "Session", requests: Mapping[str, Any], state: str | None = None
    ) -> None:
        """Answer what a server asks in place of a result (in wire form), or put it to people.

        ``state``: what the server wants back with the answers.
        """
        elicitations, answers = await self._sorted(run, session, requests)
        rounds = run.record.rounds + 1
        await self._asking.open(
            run, elicitations, answers, phase="asked", state=state, rounds=rounds, sent=0, questions=()
        )

    async def take_more(self, run: Run, session: "Session", requests: Mapping[str, Any]) -> bool:
        """The same of a task, as far as it is new; True: the task has been given answers."""
        open_ = {question.key for question in run.record.questions}
        seen = {*open_, *run.record.given, *run.record.answers}
        new = {key: one for key, one in requests.items() if key not in seen}
        if new:
            elicitations, answers = await self._sorted(run, session, new)
            await self._asking.open(run, elicitations, {**run.record.answers, **answers})
        if run.record.questions or not run.record.answers:
            return False
        await self.pass_on(run, session)
        return True

    async def _sorted(
        self, run: Run, session: "Session", requests: Mapping[str, Any]
    ) -> tuple[dict[str, Mapping[str, Any]], dict[str, Any]]:
        """What people are asked, and the answers to the rest."""
        elicitations: dict[str, Mapping[str, Any]] = {}
        answers: dict[str, Any] = {}
        for key, request in requests.items():
            params = request.get("params") if isinstance(request, dict) else None
            known = isinstance(params, dict) and request.get("method") == ELICIT
            if known and session.server.elicitation:
                elicitations[key] = params  # type: ignore[assignment]
            else:
                answers[key] = await self._answer(run, session, request)
        return elicitations, answers

    async def _answer(self, run: Run, session: "Session", request: object) -> Any:
        match request:
            case {"method": "roots/list"}:
                return session.roots().model_dump(mode="json", by_alias=True, exclude_none=True)
            case {"method": "sampling/createMessage", "params": dict(params)}:
                return await self._sampled(run, session.server, params)
            case _:
                return DECLINED

    async def _sampled(self, run: Run, server: McpServer, params: Mapping[str, Any]) -> Any:
        try:
            return await self._sampler.ask(run, server, params)
        except Refused as error:
            return {"role": "assistant", "content": {"type": "text", "text": f"[{error}]"}, "model": "none"}

    async def pass_on(self, run: Run, session: "Session") -> None:
        """Give a task the answers that are there."""
        answers = run.record.answers
        if answers:
            await tasks.answer(session, run.record.task, answers)
            await run.save(answers={}, given=(*run.record.given, *answers))
