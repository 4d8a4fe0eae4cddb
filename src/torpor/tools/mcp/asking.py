"""What MCP servers ask people: elicitations as choices, forms and authorizations, which may take days.

A server of 2026-07-28 asks with a result, and is called again with the answers. An older one asks while it
works, over a connection that must live until then: such a question is answered while this process lives.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from torpor.core.codec import decode_head
from torpor.core.messages import By
from torpor.core.signals import AnsweredSignal, AnySignal, RequestedSignal
from torpor.core.text import clean
from torpor.ports import AUTHORIZATIONS, Side, Store
from torpor.tools.mcp.records import Question, Run, said
from torpor.tools.schema import check_schema

PROMPT_KEPT = 4_000
FORM_LIMIT = 32_000
"""Bytes of a form's schema."""
CHOICES = 30
AT_ONCE = 8
"""Questions that one call may have open; others are declined."""
ALL = 50
"""Questions of one call in all."""
LOOKS = (0.25, 5.0)
"""Seconds between looks for an answer that another process took: at first, and at most."""
DECLINED = {"action": "decline"}

Post = Callable[[AnySignal], Awaitable[bool]]
"""Posts a signal and rings its thread; False if there is no such thread."""


class Asked(msgspec.Struct, frozen=True):
    """A question, and how it is put to people."""

    question: Question
    signal: RequestedSignal
    url: str = ""
    """Where a person goes for it."""


class Asking:
    """Puts the questions of servers to people, and gets their answers."""

    def __init__(self, store: Store, side: Side, post: Post) -> None:
        self._store = store
        self._side = side
        self._post = post
        self._answered: dict[tuple[str, str, int], asyncio.Event] = {}

    async def open(
        self, run: Run, requests: Mapping[str, Mapping[str, Any]], answers: dict[str, Any], **fields: Any
    ) -> None:
        """Ask people several things at once, beside what is answered; what cannot be asked is declined.

        ``fields``: what else changes in the call's record with that.
        """
        questions, asked = list(fields.pop("questions", run.record.questions)), run.record.asked
        open_ = {question.number for question in questions}
        put = [signal for signal in run.record.put if number_of(signal.url) in open_]
        for key, request in requests.items():
            one = asked_of(run, asked + 1, key, request)
            if one is None or len(questions) >= AT_ONCE or asked >= ALL:
                answers[key] = DECLINED
            else:
                asked += 1
                questions.append(one.question)
                put.append(one.signal)
                await self._keep_url(run, one)
        await run.save(questions=tuple(questions), asked=asked, answers=answers, put=tuple(put), **fields)
        await self._put(run)

    async def _put(self, run: Run) -> None:
        for signal in run.record.put:
            await self._post(signal)

    async def _keep_url(self, run: Run, asked: Asked) -> None:
        """A URL is good for one person and for a while: it stays out of history, which lasts."""
        if asked.url:
            await self._side.put(AUTHORIZATIONS, f"{run.facts.thread}/{asked.signal.url}", asked.url.encode())

    async def collect(self, run: Run) -> bool:
        """Take the answers that are there; False: some are still awaited."""
        left: list[Question] = []
        answers = dict(run.record.answers)
        for question in run.record.questions:
            value = await self._answer(run, question.number)
            if value is None:
                left.append(question)
            else:
                answers[question.key] = said(question, value)
        if left:
            await self._put(run)  # who had asked may have died before
        if len(left) == len(run.record.questions):
            return not left
        paused = run.record.paused
        if not left:
            paused += run.clock.now() - min(question.at for question in run.record.questions)
        await run.save(questions=tuple(left), answers=answers, paused=paused)
        return not left

    async def _answer(self, run: Run, number: int) -> str | None:
        """What a person said; ``dismiss`` if the thread did not even take the question."""
        value = await run.answered(number)
        if value is not None:
            return value
        outcome = await self._store.outcome(run.facts.thread, name_of(run.facts.call, number))
        return None if outcome in ("", "absorbed", None) else "dismiss"

    async def live(self, run: Run, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask a person while a server waits, and give the answer as the result of the elicitation."""
        number = run.record.asked + 1
        asked = asked_of(run, number, "", request)
        if asked is None or len(run.record.questions) >= AT_ONCE or number > ALL:
            return DECLINED
        await run.save(questions=(*run.record.questions, asked.question), asked=number)
        await self._keep_url(run, asked)
        if not await self._post(asked.signal):
            return DECLINED
        value = await self._wait(run, number)
        left = tuple(one for one in run.record.questions if one.number != number)
        paused = run.record.paused + run.clock.now() - asked.question.at
        await run.save(questions=left, paused=paused)
        return said(asked.question, value)

    async def _wait(self, run: Run, number: int) -> str:
        """Wait for an answer: told by this process, or found, if another one took it."""
        key = (run.facts.thread, run.facts.call, number)
        told = self._answered.setdefault(key, asyncio.Event())
        pause, longest = LOOKS
        try:
            while (value := await self._answer(run, number)) is None:
                try:
                    async with asyncio.timeout(pause):
                        await told.wait()
                except TimeoutError:
                    pause = min(pause * 2, longest)
                told.clear()
                await run.touch()
        finally:
            self._answered.pop(key, None)
        return value

    def tell(self, thread: str, call: str, number: int) -> None:
        """An answer is kept: whoever waits for it here looks at once."""
        waiting = self._answered.get((thread, call, number))
        if waiting is not None:
            waiting.set()

    async def withdraw(self, run: Run) -> None:
        """Settle a call's open questions: nobody waits for the answers any more."""
        row = await self._store.row(run.facts.thread)
        head = decode_head(row.head, row.shape) if row else None
        for wait in head.waits.values() if head else ():
            if wait.call == run.facts.call and wait.kind != "approval":
                now = await self._store.now()
                by = By("tool", run.facts.server)
                # An authorization that is dismissed would end its call.
                value = "done" if wait.kind == "authorization" else "dismiss"
                answer = AnsweredSignal(
                    run.facts.thread, f"{wait.id}/answer", now, by, wait=wait.id, value=value
                )
                await self._post(answer)
        await run.save(questions=())


def name_of(call: str, number: int) -> str:
    """The id of the signal by which a question is asked, which also names the question to its answer."""
    return f"{call}/ask/{number}"


def number_of(name: str) -> int:
    """The number of the question of this name; 0 if it is none of ours."""
    number = name.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def asked_of(run: Run, number: int, key: str, request: Mapping[str, Any]) -> Asked | None:
    """How an elicitation (its parameters in wire form) is put to people; None if it cannot be."""
    now = run.clock.now()
    signal = RequestedSignal(
        run.facts.thread,
        name_of(run.facts.call, number),
        now,
        By("tool", run.facts.server),
        trace=run.facts.trace,
        call=run.facts.call,
        prompt=clean(str(request.get("message", "")))[:PROMPT_KEPT],
        url=name_of(run.facts.call, number),
    )
    change = msgspec.structs.replace
    if request.get("mode") == "url":
        url = str(request.get("url", ""))
        if urlsplit(url).scheme not in ("https", "http") or not url.isascii() or not url.isprintable():
            return None
        question = Question(number, "authorization", key, at=now)
        return Asked(question, change(signal, kind="authorization", told=True), url)
    schema = request.get("requestedSchema")
    if not isinstance(schema, dict) or check_schema(schema) or _is_large(schema):
        return None
    choices, values = _choices(schema)
    if choices:
        last = str(len(choices) - 1)
        signal = change(signal, kind="choice", choices=choices, default=last)
        return Asked(Question(number, "choice", key, values, now), signal)
    text = msgspec.json.encode(schema).decode()
    return Asked(Question(number, "form", key, at=now), change(signal, kind="form", schema=text))


def _is_large(schema: dict[str, Any]) -> bool:
    return len(msgspec.json.encode(schema)) > FORM_LIMIT


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """A form of one question with few answers, or of none, as a choice: its texts, and what each says."""
    properties = schema.get("properties")
    if not properties:
        return ("Yes", "No"), ({},)
    if not isinstance(properties, dict) or len(properties) > 1 or set(properties) != set(_required(schema)):
        return (), ()
    [(name, asked)] = properties.items()
    options = _options(asked) if isinstance(asked, dict) else []
    texts = tuple(text for text, _ in options)
    if not 1 < len(options) <= CHOICES or len(set(texts)) < len(texts):
        return (), ()
    refusal = next(text for text in ("None of these", "No answer", "-") if text not in texts)
    return (*texts, refusal), tuple({name: value} for _, value in options)


def _required(schema: Mapping[str, Any]) -> list[Any]:
    required = schema.get("required")
    return required if isinstance(required, list) else []


def _options(asked: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The answers of one question, as people and as the server know them."""
    if asked.get("type") == "boolean":
        return [("Yes", True), ("No", False)]
    titled = asked.get("oneOf")
    if isinstance(titled, list) and all(isinstance(one, dict) and "const" in one for one in titled):
        return [(_shown(one.get("title", one["const"])), one["const"]) for one in titled]
    values, names = asked.get("enum"), asked.get("enumNames")
    if not isinstance(values, list):
        return []
    if not isinstance(names, list) or len(names) != len(values):
        names = values
    return [(_shown(name), value) for name, value in zip(names, values, strict=True)]


def _shown(text: object) -> str:
    return clean(str(text))[:200] or "-"
