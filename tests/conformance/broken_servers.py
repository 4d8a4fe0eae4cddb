"""Tool servers that break one rule each, and the rows that this breaks."""

import asyncio
import json
from typing import Any

from aiohttp import web

from tests.conformance.good_server import OBJECT, TOKEN, WORDS, GoodServer, tool

Body = dict[str, Any]

BROKEN: dict[str, tuple[type[GoodServer], str]] = {}
"""By name of the variant: the server, and the rows (without TS-) that must be found."""


def breaks(rows: str) -> Any:
    """Enter a variant."""

    def enter(server: type[GoodServer]) -> type[GoodServer]:
        BROKEN[server.__name__] = (server, rows)
        return server

    return enter


# ---------------------------------------------------------------- manifests


@breaks("01")
class NoManifest(GoodServer):
    async def answer(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=404)


@breaks("01")
class NoEndpoint(GoodServer):
    def manifest(self) -> Body:
        return {**super().manifest(), "endpoint": f"{self.url}/nowhere"}


@breaks("03")
class FickleManifest(GoodServer):
    count = 0

    def manifest(self) -> Body:
        self.count += 1
        return {**super().manifest(), "description": f"seen {self.count} times"}


@breaks("07")
class NameTooLong(GoodServer):
    def manifest(self) -> Body:
        return {**super().manifest(), "name": "x" * 129}


@breaks("08")
class TwinTools(GoodServer):
    tools = (*GoodServer.tools, tool("echo", WORDS))


@breaks("09")
class UglyNames(GoodServer):
    tools = (*GoodServer.tools, tool("a b"))


@breaks("10")
class AnyCase(GoodServer):
    async def work(self, body: Body) -> None:
        await super().work({**body, "operation": str(body["operation"]).lower()})


@breaks("11")
class NoSchema(GoodServer):
    tools = (*GoodServer.tools, tool("odd", {"type": "nonsense"}))


@breaks("12")
class OldSchema(GoodServer):
    tools = (*GoodServer.tools, tool("old", {**OBJECT, "$schema": "http://json-schema.org/draft-07/schema#"}))


@breaks("13")
class OpenSchema(GoodServer):
    tools = (*GoodServer.tools, tool("open", {"type": "object"}))


@breaks("14")
class BareAnnotation(GoodServer):
    tools = (*GoodServer.tools, tool("priced", cost=3))


@breaks("06")
class MigrationMissing(GoodServer):
    async def migrate(self, body: Body) -> web.Response:
        return web.Response(status=404)


@breaks("122")
class MigrationAlwaysWell(GoodServer):
    async def migrate(self, body: Body) -> web.Response:
        return web.Response()


@breaks("121")
class MigratesLater(GoodServer):
    async def hand_over(self, there: str, kept: dict[str, Any]) -> int:
        task = asyncio.create_task(super().hand_over(there, kept))
        self.tasks.add(task)  # type: ignore[arg-type]
        await asyncio.sleep(0.2)
        return 200


@breaks("122")
class MigratesRegardless(GoodServer):
    async def hand_over(self, there: str, kept: dict[str, Any]) -> int:
        found = await super().hand_over(there, kept)
        return 200 if found == 507 else found


@breaks("123")
class MigratesToNobody(GoodServer):
    async def hand_over(self, there: str, kept: dict[str, Any]) -> int:
        found = await super().hand_over(there, kept)
        return 200 if found == 599 else found


@breaks("124")
class MovesCredentials(GoodServer):
    def kept_of(self, session: str) -> dict[str, Any]:
        return {**super().kept_of(session), "token": TOKEN}


# --------------------------------------------------------------------- calls


@breaks("21")
class HoldsTheAnswer(GoodServer):
    async def invoke(self, request: web.Request, body: Body) -> web.StreamResponse:
        self.calls[body["group_id"], body["id"]] = body
        if body["operation"] == "slow":
            await asyncio.sleep(1.5)
        self.begin(body)
        return web.Response()


@breaks("22")
class CallsBackFirst(GoodServer):
    async def invoke(self, request: web.Request, body: Body) -> web.StreamResponse:
        await self.work(body)
        return web.Response()


@breaks("23 26")
class RefusesByStatus(GoodServer):
    async def invoke(self, request: web.Request, body: Body) -> web.StreamResponse:
        if self.refusal(body):
            return web.Response(status=422)
        return await super().invoke(request, body)


@breaks("18 24 37")
class SilentOnUnknown(GoodServer):
    async def work(self, body: Body) -> None:
        if "unknown" not in self.refusal(body):
            await super().work(body)


@breaks("24")
class KnowsEverything(GoodServer):
    async def work(self, body: Body) -> None:
        known = any(one["name"] == body["operation"] for one in self.tools)
        await (super().work(body) if known else self.result(body, "done"))


@breaks("25")
class BelievesAnything(GoodServer):
    def refusal(self, body: Body) -> str:
        known = any(one["name"] == body["operation"] for one in self.tools)
        return "" if known else super().refusal(body)

    async def echo(self, body: Body) -> None:
        await self.result(body, "you said something")


@breaks("30")
class MixesCalls(GoodServer):
    waiting: list[Body] = []

    async def echo(self, body: Body) -> None:
        self.waiting.append(body)
        await asyncio.sleep(0.05)
        other = self.waiting.pop()
        await self.result({**body, "callback_url": other["callback_url"]}, "done")


# ----------------------------------------------------------------- callbacks


@breaks("32")
class PlainText(GoodServer):
    async def post(self, url: str, raw: bytes) -> int:
        async with self.http.post(url, data=raw, headers={"Content-Type": "text/plain"}) as answer:
            return answer.status


@breaks("32")
class NotJson(GoodServer):
    async def post(self, url: str, raw: bytes) -> int:
        return await super().post(url, raw.replace(b'"', b"'"))


@breaks("33")
class WrongThread(GoodServer):
    def head(self, body: Body, type: str) -> Body:
        return {**super().head(body, type), "group_id": "the-only-thread"}


@breaks("34")
class WrongId(GoodServer):
    def members(self, body: Body, text: str) -> Body:
        return {**super().members(body, text), "id": body.get("call_id") or "call"}


@breaks("35")
class ForgetsCallId(GoodServer):
    def head(self, body: Body, type: str) -> Body:
        return {"type": type, "group_id": body["group_id"], "id": body["id"]}


@breaks("36")
class OwnType(GoodServer):
    def members(self, body: Body, text: str) -> Body:
        return {**super().members(body, text), "type": "tool_result" if "Error" in text else "result"}


@breaks("36")
class FlatSegments(GoodServer):
    def members(self, body: Body, text: str) -> Body:
        return {**super().members(body, text), "display_as": [{"type": "diff", "patch": "x", "path": "y"}]}


@breaks("37")
class DropsResults(GoodServer):
    async def echo(self, body: Body) -> None:
        self.forget(body)


@breaks("39")
class NoText(GoodServer):
    def members(self, body: Body, text: str) -> Body:
        return {key: value for key, value in super().members(body, text).items() if key != "text"}


@breaks("40")
class PoorJson(GoodServer):
    async def echo(self, body: Body) -> None:
        await self.result(body, '{"words": ' + body["arguments"]["words"] + "}")


@breaks("41")
class BluntErrors(GoodServer):
    async def result(self, body: Body, text: str) -> None:
        await super().result(body, text.removeprefix("Error: "))


@breaks("43")
class ShowsTraces(GoodServer):
    def refusal(self, body: Body) -> str:
        refusal = super().refusal(body)
        return refusal and f'{refusal}\nTraceback (most recent call last):\n  File "/srv/tool.py", line 3'


@breaks("44 52")
class Blabs(GoodServer):
    async def echo(self, body: Body) -> None:
        await self.result(body, f"sent to {body['callback_url']} with sesame")


@breaks("45 46")
class ImageFirst(GoodServer):
    def members(self, body: Body, text: str) -> Body:
        image = {"data": "iVBORw0KGgo=", "mediaType": "image/png"}
        shown = {"display_as": [{"type": "image", "content": image}]}
        content = [{"type": "image", **image}, {"type": "text", "text": text}]
        return {**super().members(body, text), "content": content, **shown}


@breaks("48")
class NeverRetries(GoodServer):
    def goes_on(self, status: int) -> bool:
        return False


@breaks("48")
class RetriesEvenly(GoodServer):
    async def send(self, body: Body, members: Body, *, last: bool = False) -> None:
        while await self.post(body["callback_url"], json.dumps(members).encode()) >= 500:
            await asyncio.sleep(0.1)


@breaks("48")
class RewritesOnRetry(GoodServer):
    count = 0

    async def post(self, url: str, raw: bytes) -> int:
        self.count += 1
        return await super().post(url, raw[:-1] + f', "attempt": {self.count}}}'.encode())


@breaks("49")
class RetriesRefusals(GoodServer):
    def goes_on(self, status: int) -> bool:
        return status >= 400


@breaks("50")
class CutsQueries(GoodServer):
    async def post(self, url: str, raw: bytes) -> int:
        return await super().post(url.partition("?")[0], raw)


@breaks("50")
class RewritesUrls(GoodServer):
    async def post(self, url: str, raw: bytes) -> int:
        return await super().post(url.replace("%2F", "/").rstrip("/"), raw)


# -------------------------------------------------------------- subscriptions


@breaks("56")
class NeverConfirms(GoodServer):
    def confirmation(self, body: Body) -> Body:
        return {**super().confirmation(body), "subscription": False}


@breaks("56")
class EventFirst(GoodServer):
    async def watch(self, body: Body) -> None:
        await self.send(body, self.event(body, "already"))
        await super().watch(body)


@breaks("57")
class NamelessSubscription(GoodServer):
    def confirmation(self, body: Body) -> Body:
        return {**super().confirmation(body), "text": "I shall watch."}


@breaks("59")
class EventsElsewhere(GoodServer):
    def event(self, body: Body, text: str, **more: Any) -> Body:
        return {**super().event(body, text, **more), "group_id": "another-thread"}


@breaks("61")
class GoesOnAfterFinal(GoodServer):
    def event(self, body: Body, text: str, **more: Any) -> Body:
        return {**super().event(body, text, **more), **({"final": True} if '"number": 2' in text else {})}


@breaks("62")
class GoesOnAfterCancel(GoodServer):
    def cancel(self, body: Body) -> web.Response:
        return web.Response()


@breaks("120")
class DeadSubscriptions(GoodServer):
    def status(self, body: Body) -> Body:
        call = self.calls.get((body["thread_id"], body["tool_call_id"]), {})
        return {"alive": call.get("operation") == "slow"}


# ------------------------------------------------------------------- asking


@breaks("79")
class NoDefault(GoodServer):
    def prompt(self, body: Body) -> Body:
        return {**super().prompt(body), "default": 2}


@breaks("80")
class ResponseNowhere(GoodServer):
    def prompt(self, body: Body) -> Body:
        return {**super().prompt(body), "response_url": f"{self.url}/nowhere"}


@breaks("83")
class TakesAnyChoice(GoodServer):
    def chosen(self, body: Body) -> web.Response:
        return super().chosen({**body, "selected": int(float(body["selected"])) % 2})


@breaks("15 68")
class PlainLogin(GoodServer):
    tools = (*GoodServer.tools[:-1], tool("login"))

    async def login(self, body: Body) -> None:
        await self.send(body, {**self.head(body, "oauth"), "auth_url": "http://id.example.test/authorize"})


@breaks("88")
class ViewsElsewhere(GoodServer):
    async def echo(self, body: Body) -> None:
        view = {"type": "view_update", "group_id": "x", "view_type": "diff", "content": {}}
        await self.send(body, view)
        await super().echo(body)


# ------------------------------------------------------------------ notices


@breaks("04")
class NoNotices(GoodServer):
    def close(self, body: Body) -> web.Response:
        return web.Response(status=404)

    def cancel(self, body: Body) -> web.Response:
        return web.Response(status=404)


@breaks("92 96")
class KnownThreadsOnly(GoodServer):
    def close(self, body: Body) -> web.Response:
        return web.Response(status=410)


@breaks("102 104")
class RunningCallsOnly(GoodServer):
    def cancel(self, body: Body) -> web.Response:
        known = (body["thread_id"], body["tool_call_id"]) in self.calls
        super().cancel(body)
        return web.Response(status=200 if known else 409)


@breaks("109")
class TellsByBody(GoodServer):
    seen: set[str] = set()

    async def invoke(self, request: web.Request, body: Body) -> web.StreamResponse:
        self.seen.add(body["id"])
        return await super().invoke(request, body)

    def cancel(self, body: Body) -> web.Response:
        super().cancel(body)
        return web.Response(text="cancelled" if body["tool_call_id"] in self.seen else "unknown")


@breaks("99")
class Chatty(GoodServer):
    def close(self, body: Body) -> web.Response:
        super().close(body)
        return web.Response(text="OK")


@breaks("94")
class RemembersClosures(GoodServer):
    closed: set[str] = set()

    def close(self, body: Body) -> web.Response:
        self.closed.add(str(body.get("thread_id")))
        return super().close(body)

    async def work(self, body: Body) -> None:
        if body["group_id"] not in self.closed:
            await super().work(body)


@breaks("111")
class CancelsById(GoodServer):
    def cancel(self, body: Body) -> web.Response:
        for thread, id in list(self.calls):
            if id == body["tool_call_id"]:
                del self.calls[thread, id]
        return web.Response()


@breaks("101")
class TrustsIds(GoodServer):
    def close(self, body: Body) -> web.Response:
        if "/" in body.get("thread_id", ""):
            return web.Response(status=500)
        return super().close(body)


@breaks("55 98 108 116")
class OpenToAll(GoodServer):
    def admits(self, request: web.Request) -> bool:
        return True


@breaks("98")
class ChecksCallsOnly(GoodServer):
    def admits(self, request: web.Request) -> bool:
        return request.path == "/close_thread" or super().admits(request)


# ------------------------------------------------------------------ status


@breaks("05")
class NoStatus(GoodServer):
    async def answer(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=404) if "status" in request.path else await super().answer(request)


@breaks("112")
class StatusInWords(GoodServer):
    def status(self, body: Body) -> Body:
        return {"alive": "yes"}


@breaks("113")
class AlwaysAlive(GoodServer):
    def status(self, body: Body) -> Body:
        return {"alive": True}


@breaks("118")
class TellsMore(GoodServer):
    def status(self, body: Body) -> Body:
        return {**super().status(body), "threads": len(self.calls)}


@breaks("117")
class StatusById(GoodServer):
    def status(self, body: Body) -> Body:
        return {"alive": any(id == body["tool_call_id"] for _, id in self.calls)}


@breaks("114 115")
class ForgetsWhenAsked(GoodServer):
    asked: set[str] = set()

    def status(self, body: Body) -> Body:
        self.asked.add(body["tool_call_id"])
        return super().status(body)

    async def send(self, body: Body, members: Body, *, last: bool = False) -> None:
        for attempt in range(8):
            status = await self.post(body["callback_url"], json.dumps(members).encode())
            if status < 500:
                return
            await asyncio.sleep(self.pause * 2**attempt)
            if body["id"] in self.asked:
                return
