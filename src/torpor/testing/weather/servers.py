"""Tool servers: slow, forgetful, answering twice or never; each does a call once."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from torpor.core.errors import Refused, TorporError, Unavailable
from torpor.testing.weather.network import Away, Lost
from torpor.testing.weather.record import Callback
from torpor.testing.weather.sky import Sky, Up

DEPOTS, CLERKS = "https://depots.test", "https://clerks.test"
SERVERS = (DEPOTS, CLERKS)
TOOLS: dict[str, dict[str, dict[str, bool]]] = {
    DEPOTS: {
        "build": {"idempotent": True},
        "check": {"idempotent": True},
        "watch": {"idempotent": True},
        "post": {},
    },
    CLERKS: {"pick": {}, "sign": {"idempotent": True}, "wipe": {"destructive": True}, "show": {}},
}
"""Tools by server, each with what its author says of it."""
CHOICES = ("red", "green", "blue")
PATIENCE = 300.0
"""Seconds that a server waits for a person."""
SETTLED = frozenset({200, 400, 401, 403, 404, 410, 413})
"""Answers to a callback after which it is not sent again."""
SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}


def _manifest(url: str, keeps_state: bool = False) -> bytes:
    tools = [
        {"name": name, "description": f"Does {name}.", "inputSchema": SCHEMA, "annotations": marks}
        for name, marks in TOOLS[url].items()
    ]
    name, more = url.removeprefix("https://").removesuffix(".test"), {"features": ["rap-ext/1"]}
    if keeps_state:
        more["needsMigration"] = True  # type: ignore[assignment]
    return json.dumps({"name": name, "endpoint": f"{url}/invoke", "tools": tools, **more}).encode()


MANIFESTS = {(url, keeps): _manifest(url, keeps) for url in SERVERS for keeps in (False, True)}


class Call:
    """A call that a server works on."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.id: str = facts["call"]
        self.thread: str = facts["thread"]
        self.name: str = facts["name"]
        self.arguments: str = facts["arguments"]
        callback = facts["callback"]
        self.disk, self.token = callback.split("/")[2], callback.rsplit("/", 1)[1]
        self.done = False
        self.cancelled = False
        self.chosen: asyncio.Future[int] | None = None


class Server:
    """One tool server, at the world outside."""

    def __init__(self, weather: Sky, url: str) -> None:
        self._weather = weather
        self.url = url
        self.calls: dict[str, Call] = {}

    async def manifest(self) -> bytes:
        """What it offers."""
        return MANIFESTS[self.url, self._weather.keeps_state and self.url == DEPOTS]

    async def invoke(self, facts: dict[str, Any]) -> None:
        """Take a call, and work on it afterwards."""
        weather, faults = self._weather, self._weather.faults
        weather.record.received[facts["call"]].append((facts["name"], facts["arguments"]))
        weather.trace(self.url, "takes", facts["name"], facts["call"])
        if faults.strike("server refuses"):
            raise Refused(f"{self.url} refused the call: it answered 400.")
        if facts["call"] in self.calls:
            return
        call = self.calls[facts["call"]] = Call(facts)
        slow = weather.random.random() * 40.0 if faults.strike("server slow") else 0.0
        weather.later(slow + weather.random.random() * 3.0, self._work(call))
        if faults.strike("server dies"):
            weather.later(weather.random.random() * 20.0, self._die())

    async def _die(self) -> None:
        """It forgets all that it was working on."""
        self._weather.trace(self.url, "dies")
        self.calls = {}

    def _holds(self, call: Call) -> bool:
        return self.calls.get(call.id) is call

    async def _work(self, call: Call) -> None:
        weather = self._weather
        if weather.faults.strike("server never answers"):
            await asyncio.shield(weather.cleared)
        work = {"watch": self._watch, "pick": self._pick, "sign": self._sign, "show": self._show}
        await work.get(call.name, self._plain)(call)

    async def _plain(self, call: Call) -> None:
        await self.result(call, f"did {call.name} {self._weather.number()}")

    async def _show(self, call: Call) -> None:
        view = {"type": "view_update", "view_type": "plan", "content": {"at": self._weather.number()}}
        await self._post(call, "view", "", view)
        await self._plain(call)

    async def result(self, call: Call, words: str, *, subscription: bool = False) -> None:
        """Send a result; perhaps twice, perhaps another one afterwards."""
        faults = self._weather.faults
        body = {"type": "tool_result", "id": call.id, "subscription": subscription}
        await self._post(call, "result", words, {**body, "text": words})
        call.done = not subscription
        if faults.strike("server answers twice"):
            await self._post(call, "result", words, {**body, "text": words})
        if faults.strike("server answers otherwise"):
            other = f"did otherwise {self._weather.number()}"
            await self._post(call, "result", other, {**body, "text": other})

    async def _watch(self, call: Call) -> None:
        """A subscription: events, the last of which ends it."""
        weather, random = self._weather, self._weather.random
        many = random.randrange(5)
        numbers = list(range(1, many + 1))
        if many > 1 and weather.faults.strike("events out of order"):
            random.shuffle(numbers)
        await self.result(call, f"watching {weather.number()}", subscription=True)
        for number in numbers:
            await asyncio.sleep(random.random() * 4.0)
            await self._event(call, number, final=False)
        await asyncio.sleep(random.random() * 4.0)
        await self._event(call, many + 1, final=True)
        call.done = True

    async def _event(self, call: Call, number: int, *, final: bool) -> None:
        weather = self._weather
        words, id = f"event {weather.number()}", f"e{number}"
        body = {
            "type": "subscription_event",
            "tool_call_id": call.id,
            "text": words,
            "event_id": id,
            "final": final,
            "associative": final or weather.random.random() < 0.6,
        }
        for _ in range(2 if weather.faults.strike("event doubled") else 1):
            await self._post(call, "event", words, body, event=id)

    async def _pick(self, call: Call) -> None:
        """Ask a person to choose."""
        weather = self._weather
        call.chosen = weather.loop.create_future()
        body: dict[str, Any] = {
            "type": "user_choice",
            "id": call.id,
            "prompt": "Which?",
            "choices": list(CHOICES),
            "default": 1,
            "response_url": f"{self.url}/choose/{call.id}",
        }
        if weather.random.random() < 0.3:
            at = weather.disk.clock.now() + 5.0 + 30.0 * weather.random.random()
            body["expires_at"] = datetime.fromtimestamp(at, UTC).isoformat()
        if await self._post(call, "choice", "", body) == 200:
            await asyncio.wait([call.chosen], timeout=PATIENCE)
        if call.chosen.done():
            await self.result(call, f"chose {CHOICES[call.chosen.result()]} {weather.number()}")
        else:
            await self._plain(call)

    async def _sign(self, call: Call) -> None:
        """Ask a person to sign in."""
        weather = self._weather
        body = {"type": "oauth", "id": call.id, "auth_url": f"{self.url}/oauth/{call.id}"}
        await self._post(call, "authorization", "", body)
        await asyncio.sleep(weather.random.random() * 20.0)
        await self._plain(call)

    async def choose(self, url: str, call: str, selected: int) -> None:
        """Hear what a person chose."""
        weather = self._weather
        if weather.faults.strike("server asks for what nobody knows"):
            raise Refused(f"{self.url} refused the choice: it answered 404.")
        weather.record.told[call].append((url, str(selected)))
        weather.trace(self.url, "hears a choice", call, selected)
        known = self.calls.get(call)
        if known is not None and known.chosen is not None and not known.chosen.done():
            known.chosen.set_result(selected)

    async def cancel(self, call: str) -> None:
        """Hear that nobody wants a call any more; what it does is up to it."""
        known = self.calls.get(call)
        if known is not None and not known.cancelled:
            known.cancelled = True
            if known.chosen is not None and not known.chosen.done():
                known.chosen.set_result(0)

    async def close(self, thread: str) -> None:
        """Hear that a thread is closed."""

    async def status(self, call: str) -> str:
        """Say whether it works on a call."""
        known = self.calls.get(call)
        return "alive" if known is not None and not known.done else "dead"

    async def migrate(self, session: str, destination: str) -> None:
        """Move all that is kept of a tree."""

    async def _post(self, call: Call, kind: str, words: str, body: dict[str, Any], *, event: str = "") -> int:
        """Send a callback until it is taken or refused; gives the last answer."""
        weather = self._weather
        sent = json.dumps({"group_id": call.thread, **body}).encode()
        known = Callback(call.id, call.thread, kind, words, event, [])
        note = weather.record.callbacks.setdefault((call.id, kind, event or words), known)
        pause, status = 0.5, 0
        if weather.faults.strike("callback forged"):
            await self._send(call, sent, forged=True)
        if kind == "event" and weather.faults.strike("callback malformed"):
            await self._send(call, sent[:-9])
        while self._holds(call):
            status = await self._send(call, sent)
            note.statuses.append(status)
            weather.trace(self.url, "sent", kind, call.id, event or words, status)
            if status in SETTLED:
                return status
            await asyncio.sleep(pause * (0.5 + weather.random.random()))
            pause = min(10.0, pause * 2)
        return status

    async def _send(self, call: Call, body: bytes, *, forged: bool = False) -> int:
        weather = self._weather
        process = weather.some_process(call.disk)
        if process is None:
            return 0
        token = f"{call.token[:-3]}AAA" if forged else call.token
        try:
            work = lambda: receive(process, token, body)  # noqa: E731 - one request
            return await weather.network.carry(process.place, work, 15.0)
        except (Lost, Away, Unavailable):
            return 0


async def receive(process: Up, token: str, body: bytes) -> int:
    """Take a callback at a process, as its port does."""
    if process.runtime is None:
        raise Away
    parts = process.runtime.parts
    outcome = await parts.callbacks.receive(token, body)
    if outcome.ring is not None:
        try:
            await parts.queue.ring([outcome.ring])
        except TorporError as error:
            process.weather.trace(process.name, "could not ring", str(error))
    return outcome.status
