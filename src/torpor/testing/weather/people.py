"""People: they start threads, speak, stop, answer late, twice or wrongly, and at the end they tidy up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from torpor.core.errors import Refused, TorporError
from torpor.core.messages import Text
from torpor.public import Runtime, Thread
from torpor.runtime.questions import Question
from torpor.testing.weather.deeds import DEEDS as RARE
from torpor.testing.weather.deeds import parts_of, rare
from torpor.testing.weather.network import Away, Lost
from torpor.testing.weather.record import Chosen, Words
from torpor.testing.weather.sky import Sky

T = TypeVar("T")

LASTS = 40.0
"""Seconds for which people do things, about."""
PATIENCE = 20.0
"""Seconds that a person waits for an answer to a request."""

DEEDS = (
    "say", "say", "say", "say", "say", "stop", "nudge", "close", "compact", "fork", "explain", "watch",
    "wait", "step", "step", "move", "move", "stay", "delete", "prune", "look", "err",
)  # fmt: skip


class People:
    """All people of a run."""

    def __init__(self, weather: Sky) -> None:
        self._weather = weather
        self.roots: list[str] = []
        """Threads that somebody knows."""

    # ---------------------------------------------------------------- requests

    async def ask(self, work: Callable[[Runtime], Awaitable[T]], disk: str = "here") -> T:
        """Have a process do something for a person; ``Lost``, ``Away`` or an error of ours if it does not."""
        weather = self._weather
        process = weather.some_process(disk)
        if process is None:
            raise Away

        async def done() -> T:
            if process.runtime is None:
                raise Away
            return await work(process.runtime)

        return await weather.network.carry(process.place, done, PATIENCE)

    async def insist(
        self, work: Callable[[Runtime], Awaitable[T]], tries: int = 4, disk: str = "here"
    ) -> T | None:
        """Ask again until it is done, or refused, or a person has had enough; None: nobody knows."""
        weather = self._weather
        while tries > 0 or weather.faults.calm:
            tries -= 1
            try:
                return await self.ask(work, disk)
            except Refused:
                raise
            except (Lost, Away, TorporError):
                await asyncio.sleep(weather.random.random() * 4.0)
        return None

    # ---------------------------------------------------------------- a life

    async def live(self) -> None:
        """Do things while the weather lasts."""
        random = self._weather.random
        for _ in range(random.choice((1, 1, 2))):
            await self.start()
        for _ in range(random.randrange(2, 9)):
            self._weather.later(random.random() * LASTS, self._do(random.choice(DEEDS)))

    async def start(self) -> None:
        """Start a thread; its key makes sure that it is started once."""
        weather = self._weather
        key, text = f"start{weather.number()}", f"words {weather.number()}."
        weather.record.words[key] = words = Words(key, "", text, "steer", begun=weather.loop.time())

        async def work(runtime: Runtime) -> Any:
            parts = (Text(text),)
            return await runtime.parts.threads.start("worker", parts, key=key, owner=weather.owner)

        begun = await self.insist(work)
        if begun is None:
            return
        words.thread, words.signal, words.taken = begun.row.thread, begun.receipt.signal, weather.loop.time()
        weather.record.started[key] = words.thread
        self.roots.append(words.thread)
        weather.trace("person", "has started", words.thread, text)

    async def _do(self, deed: str) -> None:
        weather = self._weather
        thread = await self._some_thread()
        if not thread:
            return
        weather.trace("person", deed, thread)
        try:
            if deed in RARE:
                await rare(weather, deed, thread)
            else:
                await getattr(self, f"_{deed}")(thread)
        except Refused as error:
            weather.trace("person", "was refused", deed, thread, str(error))

    async def _some_thread(self) -> str:
        """A thread that people know: mostly a root."""
        weather, random = self._weather, self._weather.random
        known = self.roots if random.random() < 0.7 else weather.known()
        return random.choice(known) if known else ""

    async def _say(self, thread: str) -> None:
        weather, random = self._weather, self._weather.random
        mode = random.choice(("steer", "steer", "queue"))
        if weather.faults.strike("person interrupts"):
            mode = "interrupt"
        await self.say(thread, mode)

    async def say(self, thread: str, mode: str = "steer") -> None:
        """Speak, under one key."""
        weather = self._weather
        number = weather.number()
        words = Words(f"k{number}", thread, f"words {number}.", mode, begun=weather.loop.time())
        weather.record.words[words.key] = words

        async def work(runtime: Runtime) -> Any:
            return await runtime.thread(thread).send(parts, mode, key=words.key)

        home, parts = weather.home(thread), parts_of(weather, words.text)
        try:
            receipt = await self.insist(work, disk=home)
            if receipt is not None:
                words.signal, words.taken = receipt.signal, weather.loop.time()
            if weather.faults.strike("person says it again"):
                await self.insist(work, disk=home)
        except Refused:
            weather.trace("person", "may not speak to", thread)

    async def _command(self, thread: str, command: str) -> None:
        weather = self._weather
        weather.record.commands[thread].add(command)
        home = weather.home(thread)
        await self.insist(lambda runtime: getattr(runtime.thread(thread), command)(), disk=home)

    async def _stop(self, thread: str) -> None:
        self._weather.faults.count("person stops")
        await self._command(thread, "stop")

    async def _nudge(self, thread: str) -> None:
        await self._command(thread, "nudge")

    async def _close(self, thread: str) -> None:
        if self._weather.random.random() < 0.3:
            await self._command(thread, "close")

    async def _compact(self, thread: str) -> None:
        await self._command(thread, "compact")

    async def _fork(self, thread: str) -> None:
        weather = self._weather
        key = f"fork{weather.number()}"
        at = weather.random.choice((None, None, 1, 3))
        made = await self.insist(
            lambda runtime: runtime.thread(thread).fork(at, key=key), disk=weather.home(thread)
        )
        if made is not None:
            weather.record.forks[made.id] = (thread, at)
            self.roots.append(made.id)

    async def _explain(self, thread: str) -> None:
        home = self._weather.home(thread)
        await self.insist(lambda runtime: runtime.thread(thread).explain(), disk=home)

    async def _watch(self, thread: str) -> None:
        """Follow a thread: what is committed comes once and in order."""
        weather = self._weather

        async def work(runtime: Runtime) -> None:
            await asyncio.wait_for(self._follow(runtime.thread(thread)), 10.0)

        try:
            await self.ask(work, weather.home(thread))
        except (Lost, Away, TimeoutError, TorporError):
            weather.trace("person", "saw the end of", thread)

    async def _follow(self, handle: Thread) -> None:
        seen = 0
        async for event in handle.events():
            if event.position:
                self._weather.record.must(
                    event.position == seen + 1, f"a watcher of {handle.id} missed something"
                )
                seen = event.position

    async def _wait(self, thread: str) -> None:
        """Wait for the end of an exchange."""
        weather = self._weather
        try:
            await self.ask(lambda runtime: runtime.thread(thread).reply(timeout=10.0), weather.home(thread))
        except (Lost, Away, TimeoutError, TorporError):
            weather.trace("person", "had no reply of", thread)

    # ---------------------------------------------------------------- questions

    async def answer_questions(self) -> None:
        """Look for questions now and then, and answer them in one's own way."""
        weather = self._weather
        while not weather.faults.calm:
            await asyncio.sleep(2.0 + 4.0 * weather.random.random())
            for question in weather.questions():
                await self._consider(question)

    async def _consider(self, question: Question) -> None:
        weather, faults = self._weather, self._weather.faults
        if question.id in weather.record.chosen or faults.strike("person answers late"):
            return
        weather.record.chosen[question.id] = []
        if faults.strike("person answers never"):
            return
        if faults.strike("person answers wrongly"):
            await self._wrong(question)
        await self.answer(question)
        if faults.strike("person answers twice"):
            await self.answer(question)

    async def _wrong(self, question: Question) -> None:
        try:
            await self.ask(
                lambda runtime: runtime.thread(question.thread).answer(
                    question.id, self._weather.random.choice(("no such answer", 99, {"a": 1}))
                )
            )
        except Refused:
            return
        except (Lost, Away, TorporError):
            return
        self._weather.trace("person", "a wrong answer was not refused", question.id)

    async def answer(self, question: Question) -> None:
        """Answer as one likes."""
        weather = self._weather
        value: Any = weather.random.choice(question.answers)
        chosen = Chosen(question.id, value)
        weather.record.chosen[question.id].append(chosen)
        weather.trace("person", "answers", question.id, value)

        async def work(runtime: Runtime) -> Any:
            return await runtime.thread(question.thread).answer(question.id, value)

        try:
            settled = await self.insist(work, disk=weather.home(question.thread))
        except Refused:
            return
        chosen.outcome = settled.outcome if settled is not None else ""

    # ---------------------------------------------------------------- the end

    async def tidy_up(self) -> None:
        """Once the weather is clear: answer what is asked, and let go on what was set aside or waits."""
        weather = self._weather
        for question in weather.questions():
            await self.answer(question)
        for row in weather.rows():
            if row.state in ("parked", "stopped"):
                await self._tidy(row.thread)
            elif row.state == "moving" and not row.parent:
                await rare(weather, weather.random.choice(("move", "stay")), row.thread)

    async def _tidy(self, thread: str) -> None:
        try:
            await self._command(thread, "nudge")
        except Refused as error:
            self._weather.trace("person", "may not nudge", thread, str(error))
