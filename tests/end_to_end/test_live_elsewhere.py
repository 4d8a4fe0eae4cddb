"""Text that streams from a worker elsewhere is seen meanwhile; what is committed comes once, in order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

from torpor import Agent
from torpor.core.chunks import AnyChunk, Stop, TextDelta
from torpor.core.messages import Text, Usage
from torpor.core.request import Attempt, Request
from torpor.ports import LiveEvent
from torpor.runtime.sharing import SharedLive
from torpor.testing.rings_contract import PATIENCE, until
from torpor.wiring import Parts, open_parts

WORDS = [f"word{number} " for number in range(40)]


class Talks:
    """Says a word now and then, once it may."""

    name = "scripted:talks"

    def __init__(self) -> None:
        self.may = asyncio.Event()

    async def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        yield TextDelta("So: ")
        await self.may.wait()
        for word in WORDS:
            yield TextDelta(word)
            await asyncio.sleep(0.01)
        yield Stop("end", Usage())


async def opened(stack: AsyncExitStack, url: str, model: Talks, workers: int) -> Parts:
    parts = await stack.enter_async_context(open_parts(url, [Agent("agent", model=model)]))
    if workers:
        await stack.enter_async_context(parts.working(workers))
    return parts


async def test_a_client_elsewhere_sees_text_while_it_streams(postgres_url: str) -> None:
    async with AsyncExitStack() as stack:
        model = Talks()
        works = await opened(stack, postgres_url, model, 2)
        serves = await opened(stack, postgres_url, model, 0)
        assert isinstance(works.live, SharedLive)
        await until(lambda: works.live._wire._hints.works)  # type: ignore[attr-defined]
        thread = (await serves.threads.start("agent", (Text("Go on."),))).row.thread
        await until(lambda: thread in works.live._running)
        seen: list[object] = []

        async def follow() -> None:
            async for item in serves.threads.committed(thread):
                seen.append(item)  # noqa: PERF401 -- looked at meanwhile

        following = asyncio.create_task(follow())
        await until(lambda: works.live.watched(thread))
        model.may.set()
        async with asyncio.timeout(PATIENCE):
            while "Turn" not in [type(getattr(item, "message", None)).__name__ for item in seen]:
                await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    live = [item for item in seen if isinstance(item, LiveEvent)]
    text = "".join(event.text for event in live if event.kind == "text")
    assert text.endswith("".join(WORDS))
    assert text.startswith("So: ")
    assert len([event for event in live if event.kind == "text"]) >= 3
    positions = [item.position for item in seen if not isinstance(item, LiveEvent)]  # type: ignore[attr-defined]
    assert positions == sorted(set(positions))
    assert positions[-1] == len(positions)


async def test_what_nobody_watches_is_not_told(postgres_url: str) -> None:
    async with AsyncExitStack() as stack:
        model = Talks()
        model.may.set()
        works = await opened(stack, postgres_url, model, 2)
        live = works.live
        assert isinstance(live, SharedLive)
        told: list[str] = []

        async def tell(words: Sequence[str]) -> None:
            told.extend(words)

        live._wire.tell = tell  # type: ignore[method-assign]
        thread = (await works.threads.start("agent", (Text("Go on."),))).row.thread
        await works.threads.reply(thread, to=None, timeout=PATIENCE)
        assert [word for word in told if '"kind"' in word] == []
