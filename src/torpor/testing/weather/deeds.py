"""Rarer things that people and platforms do: steps, moves to another store, deletion, pruning, odd input."""

from random import Random
from typing import Any

from torpor.core.errors import Refused, TorporError
from torpor.core.messages import File, Image, Text
from torpor.public import Runtime
from torpor.runtime.ids import Ids
from torpor.runtime.retention import Keep
from torpor.runtime.stepped import said
from torpor.testing.weather.disk import QueueWay, StoreWay
from torpor.testing.weather.loop import HERE
from torpor.testing.weather.network import Away, Lost, Wire
from torpor.testing.weather.record import Words
from torpor.testing.weather.servers import DEPOTS
from torpor.testing.weather.sky import Sky

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="


def parts_of(weather: Sky, text: str) -> tuple[Any, ...]:
    """Words, now and then with an image, a file, or what text may hold besides."""
    random = weather.random
    more = random.choice((
        (), (), (), (), (Image(PIXEL, "image/png"),), (File("a.txt", text="a file"),), (Text("\ud800\x00"),),
        (Text("words " * 3_000),),
    ))  # fmt: skip
    return (Text(text), *more)


async def step(weather: Sky, thread: str) -> None:
    """A platform steps a thread, with words for it or without."""
    random = weather.random
    news: list[Any] = [thread]
    if random.random() < 0.5:
        key = f"s{weather.number()}"
        words = Words(key, thread, f"words {weather.number()}.", "steer", begun=weather.loop.time())
        weather.record.words[key] = words
        news = [said(thread, words.text, id=key)] * random.choice((1, 2))
    deadline = random.choice((0.5, 5.0, 15.0))

    async def work(runtime: Runtime) -> Any:
        return await runtime.step(*news, deadline=deadline)

    result = await weather.people.ask(work, weather.home(thread))
    weather.trace("platform", "stepped", thread, [one.outcome for one in result.items])


async def move(weather: Sky, thread: str, tries: int = 3) -> None:
    """Move a tree to the other store; asked for again, it goes on where it was interrupted."""
    if len(weather.disks) < 2:
        return

    async def work(runtime: Runtime) -> Any:
        servers = {DEPOTS: DEPOTS} if weather.keeps_state else None
        async with there(weather) as other:
            return await runtime.move(thread, other, servers=servers, patience=8.0)

    weather.record.moved.add(thread)
    moved = await weather.people.insist(work, tries)
    weather.trace("person", "has moved", thread, moved)


async def stay(weather: Sky, thread: str) -> None:
    """Give up a move."""
    await weather.people.insist(lambda runtime: runtime.stay(thread))
    weather.trace("person", "has given up to move", thread)


def there(weather: Sky) -> Runtime:
    """The other store, as the process here has it open."""
    process, disk = HERE.get().process, weather.disks[1]  # type: ignore[attr-defined]
    return Runtime(
        "memory:",
        agents=weather.agents,
        listen=None,
        workers=0,
        public_url=f"http://{disk.name}",
        backends=(StoreWay(process, disk), QueueWay(process, disk)),
        clock=process.clock,
        ids=Ids(Random(weather.random.getrandbits(32))),
        transport=Wire(process),
        worker=f"{process.name}/there",
        token="token",
    )


async def delete(weather: Sky, thread: str) -> None:
    """Erase a tree, for good."""
    forks = weather.random.random() < 0.5
    weather.record.commands[thread].add("delete")
    await weather.people.insist(lambda runtime: runtime.thread(thread).delete(forks=forks))


async def prune(weather: Sky, thread: str) -> None:
    """Forget what is old, or only look what that would be."""
    random = weather.random
    keep = Keep(closed=random.choice((0.0, 5.0)), records=random.choice((0.0, 5.0)), ids=0.0)
    dry = random.random() < 0.3
    await weather.people.insist(lambda runtime: runtime.prune(keep, dry_run=dry))


async def look(weather: Sky, thread: str) -> None:
    """Look at all that there is of a thread."""

    async def work(runtime: Runtime) -> None:
        handle = runtime.thread(thread)
        await handle.history()
        await handle.explain()
        await handle.waits()
        await handle.views()
        await handle.records()
        await handle.children()
        await runtime.threads(root=thread)
        await runtime.parts.threads.tree(thread)

    await weather.people.ask(work, weather.home(thread))


async def err(weather: Sky, thread: str) -> None:
    """Ask for what cannot be: it is refused, and nothing changes."""
    random = weather.random
    tried: Any = random.choice((
        lambda runtime: runtime.thread("none").send("words"),
        lambda runtime: runtime.thread(thread).send("", "steer"),
        lambda runtime: runtime.thread(thread).send("words", "no mode"),
        lambda runtime: runtime.thread(thread).send("words", key="k" * 1_000),
        lambda runtime: runtime.thread(thread).answer("none.none", True),
        lambda runtime: runtime.thread(thread).answer(f"{thread}.none.choice", "x"),
        lambda runtime: runtime.thread(thread).fork(at=1_000_000),
        lambda runtime: runtime.parts.threads.start("nobody", (Text("words"),)),
        lambda runtime: runtime.parts.threads.start("worker", (Text("words"),), thread="no id!"),
        lambda runtime: runtime.step("none", deadline=1.0),
        lambda runtime: runtime.step(thread, deadline=0.0),
        lambda runtime: runtime.stay(thread),
        lambda runtime: runtime.move("none", runtime),
    ))  # fmt: skip
    try:
        await weather.people.ask(tried, weather.home(thread))
    except Refused as error:
        weather.trace("person", "was refused", str(error))


async def rare(weather: Sky, deed: str, thread: str) -> None:
    """Do one of these, however it ends."""
    try:
        await DEEDS[deed](weather, thread)
    except (Lost, Away, TorporError) as error:
        weather.trace("person", "could not", deed, thread, f"{type(error).__name__}: {error}")


DEEDS = {
    "step": step, "move": move, "stay": stay, "delete": delete, "prune": prune, "look": look, "err": err,
}  # fmt: skip
