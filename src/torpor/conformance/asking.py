"""Tools that need a person: a choice, or an authorization."""

import asyncio
from typing import Any

from torpor.conformance.caller import Answer
from torpor.conformance.discovery import is_https, is_local
from torpor.conformance.listening import Asked, Callback
from torpor.conformance.probe import Probe, lacking
from torpor.conformance.texts import sounds_wrong
from torpor.core.errors import Refused
from torpor.tools.addresses import check_url

MOST_CHOICES = 4
INVALID: tuple[Any, ...] = (-1, 99, "0", True, 0.5)


async def choosing(probe: Probe) -> None:
    """Each choice in turn is acted on; what is no choice ends in an error."""
    if lacking(probe, "choosing", "78 79 80 81 83 85"):
        return
    asked, prompt = await _prompted(probe)
    ledger = probe.ledger
    ledger.judge("TS-78", prompt is not None, "no 'user_choice' came before anything else", *asked.shown)
    if prompt is None:
        return
    choices, default = prompt.body.get("choices"), prompt.body.get("default", 0)
    valid = _are_choices(choices) and type(default) is int and 0 <= default < len(choices or ())
    ledger.judge("TS-79", valid, "the choices or their default are not valid", prompt.exchange)
    if is_local(probe.caller.url):
        local = is_local(str(prompt.body.get("response_url")))
        why = "it runs locally, and its response_url leads elsewhere"
        ledger.judge("TS-85", local, why, prompt.exchange)
    else:
        ledger.unseen("TS-85", "it does not run locally")
    count = min(len(choices), MOST_CHOICES) if isinstance(choices, list) else 1
    await _chosen(probe, asked, prompt, 0)
    await asyncio.gather(
        *(_choose(probe, index) for index in range(1, count)), *(_choose(probe, bad) for bad in INVALID)
    )


def _are_choices(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


async def _prompted(probe: Probe) -> tuple[Asked, Callback | None]:
    asked = await probe.ask("choosing")
    await asked.until(lambda: asked.callbacks, probe.patience.result)
    first = asked.callbacks[0] if asked.callbacks else None
    return asked, first if first is not None and first.type == "user_choice" else None


async def _choose(probe: Probe, selected: Any) -> None:
    asked, prompt = await _prompted(probe)
    if prompt is not None:
        await _chosen(probe, asked, prompt, selected)


async def _chosen(probe: Probe, asked: Asked, prompt: Callback, selected: Any) -> None:
    answer = await _respond(probe, prompt, {"id": asked.id, "selected": selected})
    came = await asked.settled(probe.patience.result)
    shown = (*asked.shown, answer.exchange)
    if type(selected) is int and selected in (0, 1, 2, 3):
        why = f"at its response_url, {answer.told}"
        probe.ledger.judge("TS-80", answer.status == 200, why, answer.exchange)
        probe.ledger.judge("TS-81", came, f"no result came for choice {selected}", *shown)
    else:
        failed = came and sounds_wrong(asked.result)
        why = f"selecting {selected!r} led to {'another result' if came else 'no result'}, not to an error"
        probe.ledger.judge("TS-83", failed, why, *shown)


async def _respond(probe: Probe, prompt: Callback, members: dict[str, Any]) -> Answer:
    url = prompt.body.get("response_url")
    return await probe.caller.post(url if isinstance(url, str) and "://" in url else "none://", members)


async def authorizing(probe: Probe) -> None:
    """What is said when a person has to authorize; nobody does here."""
    if lacking(probe, "authorizing", "66 67 68 15"):
        return
    asked = await probe.ask("authorizing")
    await asked.until(lambda: asked.callbacks, probe.patience.result)
    first = asked.callbacks[0] if asked.callbacks else None
    is_first = first is not None and first.type == "oauth"
    probe.ledger.judge("TS-66", is_first, "no 'oauth' came before anything else", *asked.shown)
    if first is not None and is_first:
        url = first.body.get("auth_url")
        problem = _problem(url)
        probe.ledger.judge("TS-67", not problem, problem, first.exchange)
        probe.ledger.judge("TS-68", is_https(str(url)), "auth_url is not https", first.exchange)
        tool = probe.tool(probe.calls["authorizing"].name)
        named = tool is not None and bool(tool.annotations.get("requiresAuth"))
        why = "a tool that asks for authorization has no requiresAuth"
        probe.ledger.judge("TS-15", named, why, first.exchange)
    await probe.cancel(asked)


def _problem(url: object) -> str:
    if not isinstance(url, str):
        return "auth_url must be a URL"
    try:
        check_url(url, allow_http=True, what="auth_url")
    except Refused as error:
        return str(error)
    return ""


CHECKS = ((choosing, "78 79 80 81 83 85"), (authorizing, "15 66 67 68"))
