"""DBOS: a workflow for each turn, with a step for each completion and one for the tool, on SQLite."""

import json
import logging
from typing import Any

from dbos import DBOS, SetWorkflowID
from working import ARGUMENTS, Histories, Work, main, waves


async def run(work: Work) -> dict[str, Any]:
    """The work."""
    logging.disable(logging.WARNING)
    config: Any = {"name": "bencher", "system_database_url": f"sqlite:///{work.folder / 'dbos.db'}"}
    DBOS(config={**config, "run_admin_server": False, "log_level": "ERROR"})
    kept = Histories(work.folder / "histories.db")

    @DBOS.step()
    async def complete(history: list[dict[str, str]]) -> dict[str, str]:
        text = ""
        for piece in work.pieces():
            text += piece
        call = {} if history[-1]["role"] == "tool" else {"call": work.call_id(), "arguments": ARGUMENTS}
        return {"role": "assistant", "text": text, **call}

    @DBOS.step()
    async def run_command(arguments: str) -> str:  # noqa: ARG001
        return work.output()

    @DBOS.workflow()
    async def exchange(agent: str, said: str) -> None:
        history = [*json.loads(kept.get(agent) or b"[]"), {"role": "person", "text": said}]
        history.append(await complete(history))
        text = await run_command(history[-1]["arguments"])
        history.append({"role": "tool", "call": history[-1]["call"], "text": text})
        history.append(await complete(history))
        kept.put(agent, json.dumps(history))

    DBOS.launch()

    async def turn(agent: int, number: int) -> None:
        with SetWorkflowID(f"agent-{agent}/{number}"):
            await exchange(f"agent-{agent}", work.said(agent, number))

    try:
        return await waves(work, turn)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    main(run)
