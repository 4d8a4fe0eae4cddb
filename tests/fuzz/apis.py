"""The HTTP API and the commands, each request and each line of words by itself."""

import asyncio
import contextlib
import os
import sys
from collections.abc import MutableMapping
from io import StringIO, TextIOWrapper
from typing import Any
from urllib.parse import unquote

from tests.fuzz.bounds import Target, text
from tests.fuzz.wires import digest
from tests.fuzz.words import FOLDER
from torpor import Agent
from torpor.models import ScriptedModel
from torpor.settings import Settings
from torpor.wiring import open_parts

LOOP = asyncio.new_event_loop()
TOKEN = "a-token-for-fuzzers-only"
READING = ("GET", "HEAD", "OPTIONS")


def _request(data: bytes) -> tuple[dict[str, Any], bytes]:
    """A scope and a body, from something like the text of an HTTP request."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, target = first.partition(b" ")
    path, _, query = target.partition(b"?")
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer " + TOKEN.encode())]
    for line in lines[:20]:
        name, _, value = line.partition(b":")
        headers.append((name.strip().lower(), value.strip()))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method.decode("latin-1").upper()[:20],
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "root_path": "",
        "query_string": query,
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    return scope, body


async def _ask(app: Any, scope: dict[str, Any], body: bytes) -> int:
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    status = 0

    async def receive() -> dict[str, Any]:
        return sent.pop(0) if sent else {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    async with asyncio.timeout(20):
        await app(scope, receive, send)
    return status


async def _api(data: bytes) -> None:
    from torpor.web.app import build

    agent = Agent("echo", model=ScriptedModel(lambda request: request.text))
    parts = open_parts(Settings(store="memory:"), [agent])
    async with parts:
        app = build(parts.threads, parts.callbacks, token=TOKEN)
        await parts.threads.start("echo", thread="T", owner="o")
        store: Any = parts.store
        before = digest(store)
        scope, body = _request(data)
        status = await _ask(app, scope, body)
        after = digest(store)
    assert 200 <= status < 500, f"answered {status}"
    if status >= 400 or scope["method"] in READING:
        assert before == after, f"a request answered with {status} has changed something"


def api(data: bytes) -> None:
    """One request to the application that `torpor serve` serves."""
    LOOP.run_until_complete(_api(data))


COMMANDS = (
    "threads",
    "show",
    "explain",
    "say",
    "answer",
    "new",
    "stop",
    "nudge",
    "close",
    "fork",
    "compact",
    "delete",
)
OUTSIDE = ("--store", "--config", "--follow", "-f", "--wait", "-w", "--help")


class _Input(TextIOWrapper):
    """Standard input without anything in it."""


def commands(data: bytes) -> None:
    """A command with its words, on a store in a file."""
    if not data:
        return
    words = [text(word) for word in data[1:].split(b"\x00")[:12]]
    words = [word for word in words if not word.startswith(OUTSIDE) and not (word[:1] == "-" and "f" in word)]
    _run([COMMANDS[data[0] % len(COMMANDS)], *words])


def _run(words: list[str]) -> None:
    from torpor.cli import main

    os.environ["TORPOR_STORE"] = f"sqlite:///{FOLDER}/commands.db"
    before, sys.argv = sys.argv, ["torpor", *words]
    out, err = StringIO(), StringIO()
    code: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = before
    assert code in (0, 1, 2, None), f"{words!r} ended with {code!r}"
    said = out.getvalue() + err.getvalue()
    assert "Traceback" not in said, said
    assert "\x1b" not in said, f"{words!r} writes escapes"
    out.getvalue().encode()  # what goes to standard error is escaped by the interpreter where need be


TARGETS = (
    Target(
        "api",
        api,
        (
            b"POST /threads\ncontent-type: application/json\nidempotency-key: k\n\n"
            b'{"agent":"echo","text":"hi","owner":"o"}',
            b"POST /threads/T/messages\ncontent-type: application/json\n\n"
            b'{"parts":[{"type":"text","text":"a"}],"mode":"queue"}',
            b"GET /threads?owner=o&state=open&limit=3&after=a\n\n",
            b"GET /threads/T/messages?after=0&limit=5\n\n",
            b"GET /threads/T/events?after=0\nlast-event-id: 0\n\n",
            b'POST /waits/T.c.choice\ncontent-type: application/json\n\n{"value":1,"comment":"c"}',
            b'POST /tickets\ncontent-type: application/json\n\n{"thread":"T"}',
            b'POST /threads/T/fork\ncontent-type: application/json\n\n{"at":0}',
            b"DELETE /threads/T?forks=true\n\n",
            b"POST /threads/T/stop\norigin: http://localhost\n\n",
            b"POST /callbacks/k1.AAAA.BBBB\nwebhook-id: 1\n\n{}",
            b"GET /oauth/callback/x?state=a&code=b\n\n",
            b"GET /healthz?challenge=abc\n\n",
            b"GET /openapi.json\n\n",
            b"GET /threads/T/explain\n\n",
            b"GET /threads/T/records?after=1\n\n",
        ),
    ),
    Target(
        "commands",
        commands,
        (
            b"\x00--owner\x00o\x00--state\x00open\x00--limit\x003",
            b"\x01T\x00--json",
            b"\x03T\x00hello\x00--mode\x00queue\x00--key\x00k",
            b"\x04T.c.choice\x00yes\x00--comment\x00c",
            b"\x05echo\x00hello\x00--thread\x00T\x00--owner\x00o",
            b"\x09T\x00--at\x001",
        ),
    ),
)
