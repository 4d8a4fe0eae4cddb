"""LangGraph: its ready-made agent, streamed, with its SQLite saver."""

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.prebuilt import create_react_agent
from working import ARGUMENTS, Work, main, waves


class Scripted(BaseChatModel):
    """The scripted model."""

    work: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "Scripted":  # noqa: ARG002
        """It knows its tool."""
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("It is asked to stream."))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in self.work.pieces():
            chunk = ChatGenerationChunk(message=AIMessageChunk(piece))
            if run_manager:
                await run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        if not isinstance(messages[-1], ToolMessage):
            call = {"name": "run_command", "args": ARGUMENTS, "id": self.work.call_id(), "index": 0}
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[call]))


async def run(work: Work) -> dict[str, Any]:
    """The work."""

    @tool
    async def run_command(command: str) -> str:  # noqa: ARG001
        """Run a command and give what it prints."""
        return work.output()

    async with AsyncSqliteSaver.from_conn_string(str(work.folder / "graph.db")) as saver:
        graph = create_react_agent(Scripted(work=work), [run_command], checkpointer=saver)

        async def turn(agent: int, number: int) -> None:
            said = {"messages": [("user", work.said(agent, number))]}
            config: Any = {"configurable": {"thread_id": f"agent-{agent}"}}
            async for _ in graph.astream(said, config, stream_mode="messages"):
                pass

        return await waves(work, turn)


if __name__ == "__main__":
    main(run)
