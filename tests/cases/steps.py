"""The interpreter: carries out a case's steps on a stage, one after the other."""

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from tests.cases import checks
from tests.cases.families import Case
from tests.cases.lines import labels_of
from tests.cases.script import names_in, reply
from tests.cases.stage import ROOT, Doom, Stage, calls_of
from tests.runtime.cast import Cast
from tests.runtime.world import Fate
from torpor import Approvals, Limits
from torpor.core.definition import Events
from torpor.core.errors import Refused, Unavailable
from torpor.core.messages import Text
from torpor.testing.clock import FakeClock
from torpor.tools.catalog import RESERVED

SILENT = {"model", "models", "any_model", "note"}
"""Steps that say something and do nothing."""
MANY = 500
"""Completions for which ``any_model`` is enough."""
BREATHS = 50
"""Turns of the event loop in which whoever waits for the clock comes to wait for it."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "ms": 0.001}

Replay = Callable[[], Awaitable[Any]]


class Play:
    """One run of a case over one store."""

    def __init__(self, case: Case, backends: Callable[[FakeClock], tuple[Any, Any]], seed: int = 0) -> None:
        self.case = case
        self.clock = FakeClock()
        scripts: dict[str, Any] = {
            part: [reply(one, self.meanwhile, self.call) for one in said] for part, said in self._parts()
        }
        if always := _always(case.steps):
            scripts["root"] = scripts["root"] + [reply(always, self.meanwhile, self.call)] * MANY
        self.cast = Cast(**scripts)
        names = set().union(*(names_in(one) for _, said in self._parts() for one in said), case.tools)
        self.stage = Stage(
            backends(self.clock),
            self.clock,
            model=self.cast,
            names=sorted(names - set(RESERVED)),
            told=case.tools,
            agent=_agent(case.agent),
            seed=seed,
        )
        self.begun = False
        self.refusals: list[str] = []
        """What was refused to people, in words."""
        self.answers: list[str] = []
        """What became of their answers."""
        self.kept: list[str] = []
        """Ids of waits, as a check has found them."""
        self._last: Replay | None = None
        self._done: set[int] = set()
        self._words = itertools.count()

    def _parts(self) -> list[tuple[str, list[Any]]]:
        """Each part with its replies."""
        return [("root", _replies(self.case.steps)), *self.case.cast.items()]

    async def run(self) -> None:
        self.stage.owning()
        async with self.stage.outside:
            steps = self.case.steps
            if not _begins(steps):
                await self.say("go")
                await self.run_process(_doom(steps, 0))
            await self.act(steps)

    # ------------------------------------------------------------ steps

    async def meanwhile(self, steps: list[Any]) -> None:
        """Steps while a model speaks, once: nothing runs between them but what they say."""
        if id(steps) in self._done:
            return
        self._done.add(id(steps))
        for step in steps:
            await self.step(step)

    async def act(self, steps: list[Any]) -> None:
        """Steps with a process between them, unless the process dies at the next, or is down."""
        down = False
        for place, step in enumerate(steps):
            kind = _kind(step)
            if kind in SILENT:
                continue
            if kind in ("crash", "down"):
                down = True
                continue
            doom = _doom(steps, place + 1)
            if kind == "result" and doom is not None and doom.what == "ring":
                await self.step(step, doom)
                continue
            await self.step(step)
            down = down and kind != "restart"
            if not (down or kind == "check" or _is_dead_time(step)):
                await self.run_process(doom)

    async def step(self, step: Any, fate: Fate | None = None) -> None:
        kind = _kind(step)
        value: Any = step[kind] if isinstance(step, dict) else None
        if kind == "result":
            await self.result(value, fate)
        else:
            await getattr(self, f"do_{kind}")(value)

    async def run_process(self, doom: Fate | None = None) -> None:
        fate = await self.stage.process(doom)
        assert doom is None or fate.dead, f"the process did not come to its end: {getattr(doom, 'what', '')}"

    async def do_restart(self, value: Any) -> None:
        """A new process; the run between steps is it."""

    async def do_process(self, value: Any) -> None:
        """Another process, now."""
        await self.stage.process()

    async def do_user(self, value: Any) -> None:
        told = {"text": value} if isinstance(value, str) else dict(value)
        await self._trying(lambda: self.say(**told))

    async def say(
        self, text: str, mode: str = "steer", key: str = "", thread: str = "", size: int = 0
    ) -> None:
        words, key = (Text(text * (size or 1)),), key or f"said {next(self._words)}"
        threads = self.stage.outside.threads
        if not self.begun:
            self.begun = True
            speak = self._again(lambda: threads.start("worker", words, thread=ROOT, key=key))
        else:
            speak = self._again(lambda: threads.say(self.thread(thread), words, mode=mode, key=key))
        await speak()

    async def do_stop(self, value: Any) -> None:
        await self._trying(lambda: self.stage.outside.threads.stop(self.thread(value)))

    async def do_close(self, value: Any) -> None:
        await self._trying(lambda: self.stage.outside.threads.close(self.thread(value)))

    async def do_nudge(self, value: Any) -> None:
        await self._trying(lambda: self.stage.outside.threads.nudge(self.thread(value)))

    async def do_compact(self, value: Any) -> None:
        await self._trying(lambda: self.stage.outside.threads.compact(self.thread(value)))

    async def result(self, value: dict[str, Any], fate: Fate | None = None) -> None:
        """A tool server posts what came of a call."""
        call, told = self.call(value["id"]), dict(value)
        body: dict[str, Any] = {"type": "tool_result", "id": call, "text": _text(told)}
        body |= {name: told[name] for name in ("subscription", "event_id", "occurred_at") if name in told}
        if told.get("error"):
            body["is_error"] = True
        await self._posts(call, body | told.get("more", {}), told, fate)

    async def do_event(self, value: dict[str, Any]) -> None:
        """A tool server posts an event of a subscription."""
        call = self.call(value["sub"])
        body: dict[str, Any] = {"type": "subscription_event", "tool_call_id": call, "text": _text(value)}
        names = ("event_id", "seq", "final", "natural_key", "occurred_at")
        body |= {name: value[name] for name in names if name in value}
        body["associative"] = value.get("associative", True)
        await self._posts(call, body, value)

    async def do_events(self, value: dict[str, Any]) -> None:
        """Many events of a subscription, each with an id of its own."""
        told = dict(value)
        for number in range(told.pop("number")):
            await self.do_event({**told, "event_id": f"n{number}", "text": f"{told['text']} {number}"})

    async def do_drop_rings(self, value: Any) -> None:
        """All that the queue knows is lost."""
        self.stage.disturbed = True
        queue = self.stage.backends[1]
        while leases := await queue.next("nobody"):  # type: ignore[attr-defined]
            for lease in leases:
                await queue.done(lease)  # type: ignore[attr-defined]

    async def do_asks(self, value: dict[str, Any]) -> None:
        """A tool server asks a person."""
        call, told = self.call(value["id"]), dict(value)
        body = {"id": call, **{name: told[name] for name in told if name not in ("id", "times")}}
        await self._posts(call, body, told)

    async def _posts(
        self, call: str, body: dict[str, Any], told: dict[str, Any], fate: Fate | None = None
    ) -> None:
        whole = {"group_id": self.stage.tools.threads[call], **body}
        sent, token = json.dumps(whole).encode(), self.stage.tools.urls[call]
        headers = tuple(dict(told.get("headers", {})).items())
        for _ in range(told.get("times", 1)):
            await self._again(lambda: self.stage.receive(token, sent, headers, fate))()

    async def do_raw(self, value: dict[str, Any]) -> None:
        """Bytes as they arrive at a call's callback URL; ``{thread}`` and ``{call}`` stand for its own."""
        call = self.call(value["token"]) if "token" in value else ""
        token = self.stage.tools.urls[call] if call else str(value.get("forged", "nonsense"))
        body = _bytes(value["body"])
        if call:
            body = body.replace(b"{thread}", self.stage.tools.threads[call].encode())
            body = body.replace(b"{call}", call.encode())
            other = self.call(value["other"]) if "other" in value else ""
            body = body.replace(b"{other}", other.encode())
        headers = tuple((str(a), str(b)) for a, b in value.get("headers", ()))
        for _ in range(value.get("times", 1)):
            await self._again(lambda: self.stage.receive(token, body, headers))()

    async def do_answer(self, value: dict[str, Any]) -> None:
        """A person answers what is asked for a call; of several things, the one of a kind."""
        threads, call = self.stage.outside.threads, self.call(value["wait"])
        kind = value.get("kind", "")
        asked = await threads.waits(self.stage.thread_of(call))
        ids = [one.id for one in asked if one.call == call and kind in ("", one.kind)]
        wait = ids[0] if ids else f"{self.stage.thread_of(call)}.{call}.{kind or 'approval'}"

        async def answered() -> None:
            settled = await threads.answer(wait, value["value"], comment=value.get("comment", ""))
            self.answers.append(settled.outcome)

        await self._trying(self._again(answered))

    async def do_redeliver(self, value: Any) -> None:
        """What came last comes again, with the same id."""
        assert self._last is not None, "nothing has come yet"
        for _ in range(value if isinstance(value, int) else 1):
            await self._last()

    async def do_ring(self, value: Any) -> None:
        """The queue hands the thread over again."""
        for _ in range(value or 1):
            await self.stage.outside.threads._ring(
                await self.stage.outside.threads.row(ROOT), self.clock.now()
            )

    async def do_clock(self, value: Any) -> None:
        told: dict[str, Any] = {"to": value} if isinstance(value, str) else value
        await self.stage.wait(_seconds(told["to"], self.clock.now()), down=told.get("down", False))

    async def do_passes(self, value: str) -> None:
        """Time passes while a process is at work: its lease is renewed meanwhile."""
        for _ in range(BREATHS):
            await asyncio.sleep(0)
        await self.clock.run(_seconds(value, self.clock.now()))
        for _ in range(BREATHS):
            await asyncio.sleep(0)

    async def do_jumps(self, value: str) -> None:
        """Time passes while a process is paused: it renews nothing."""
        self.stage.disturbed = True
        self.clock._now += _seconds(value, self.clock.now())

    async def do_store_fail(self, value: dict[str, Any]) -> None:
        """The store's next actions of a kind fail."""
        for _ in range(value.get("times", 1)):
            self.stage.failures.append((value["verb"], Unavailable("the store is away")))

    async def do_parallel(self, steps: list[Any]) -> None:
        """Steps that begin together, while processes run."""
        dice, self.stage.disturbed = self.stage.dice, True
        order = dice.sample(steps, len(steps)) if dice is not None else steps
        await asyncio.gather(
            self.stage.process(), *(self._later(step) for step in order), self.stage.process()
        )

    async def _later(self, step: Any) -> None:
        await self.stage.dawdle()
        await self.step(step)

    async def do_check(self, value: dict[str, Any]) -> None:
        await checks.check(self, value)

    async def do_standing(self, value: dict[str, str]) -> None:
        """What the tool server says of calls when it is asked."""
        self.stage.tools.standing |= {self.call(name): told for name, told in value.items()}

    async def do_for_each(self, value: dict[str, Any]) -> None:
        """The same steps for each of some words, which ``{each}`` stands for."""
        for each in value["of"]:
            text = json.dumps(value["steps"]).replace("{each}", str(each))
            await self.act(json.loads(text))

    # ------------------------------------------------------------ names

    @property
    def labels(self) -> dict[str, str]:
        """Names of all calls, by id."""
        found: dict[str, str] = {}
        for messages in self.stage.histories.values():
            found |= labels_of(calls_of(messages))
        return found

    def call(self, name: str) -> str:
        """The id of a call by its name; of several threads' calls of one name, the latest."""
        ids = [id for id, label in self.labels.items() if label == name]
        assert ids, f"no call {name!r} among {sorted(self.labels.values())}"
        return ids[-1]

    def thread(self, part: str | None) -> str:
        return ROOT if part in (None, "", "root") else self.cast.thread(str(part))

    # ------------------------------------------------------------ small things

    def _again(self, act: Replay) -> Replay:
        """It is what came last."""
        self._last = act
        return act

    async def _trying(self, act: Replay) -> None:
        try:
            await act()
        except Refused as error:
            self.refusals.append(str(error))


def _kind(step: Any) -> str:
    if isinstance(step, str):
        return step
    [kind] = step
    return str(kind)


def _always(steps: list[Any]) -> Any:
    """What the root's model says after all else."""
    return next((one["any_model"] for one in steps if isinstance(one, dict) and "any_model" in one), None)


def _is_dead_time(step: Any) -> bool:
    """Time in which no process lives."""
    return _kind(step) == "clock" and isinstance(step["clock"], dict) and bool(step["clock"].get("down"))


def _replies(steps: list[Any]) -> list[Any]:
    found = []
    for step in steps:
        if isinstance(step, dict) and "model" in step:
            found.append(step["model"])
        elif isinstance(step, dict) and "models" in step:
            found += step["models"]
    return found


def _begins(steps: list[Any]) -> bool:
    """Whether a person speaks before the model does."""
    first = next((_kind(one) for one in steps if _kind(one) in ("user", "model", "models")), "")
    return first == "user"


def _doom(steps: list[Any], place: int) -> Doom | None:
    """Where the next process dies, if the next step that does something says so."""
    for step in steps[place:]:
        if _kind(step) in SILENT:
            continue
        if _kind(step) != "crash":
            return None
        told = step["crash"]
        return Doom(told) if isinstance(told, str) else Doom(told["at"], told.get("number", 1))
    return None


def _text(told: dict[str, Any]) -> str:
    return str(told.get("text", "")) * int(told.get("size", 1))


def _bytes(told: Any) -> bytes:
    if isinstance(told, dict):
        return bytes.fromhex(told["hex"]) if "hex" in told else _bytes(told["of"]) * int(told["size"])
    return told if isinstance(told, bytes) else str(told).encode()


def _seconds(told: str, now: float) -> float:
    """``+10m``, or until an instant."""
    if match := re.fullmatch(r"([+-][\d.]+)(ms|[smhd])", told):
        return float(match[1]) * UNITS[match[2]]
    at = datetime.fromisoformat(told)
    return at.replace(tzinfo=at.tzinfo or UTC).timestamp() - now


def _agent(told: dict[str, Any]) -> dict[str, Any]:
    kinds = {"limits": Limits, "events": Events, "approvals": Approvals}
    return {name: kinds[name](**value) if name in kinds else value for name, value in told.items()}
