"""A hand-written MCP server over stdio, which misbehaves as it is told. No SDK: it starts at once.

Run as ``python raw_server.py [WRONG [STATE]]``: what is wrong with it as a whole, and a file or a number for
that. Each of its tools is one more fault.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WRONG, STATE = [*sys.argv[1:], "", ""][:2]

HELD: list[Any] = []
SEEN: list[Any] = []
EXTRA: list[dict[str, Any]] = []
STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def write(value: Any) -> None:
    sys.stdout.write((value if isinstance(value, str) else json.dumps(value)) + "\n")
    sys.stdout.flush()


def answer(id: Any, result: Any) -> None:
    write({"jsonrpc": "2.0", "id": id, "result": result})


def say(id: Any, text: str) -> None:
    answer(id, said(text))


def said(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def fail(id: Any, code: int, message: str, data: Any = None) -> None:
    write({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}})


def notify(method: str, **params: Any) -> None:
    write({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})


# ------------------------------------------------------------------ tools


def noise(id: Any, _: dict[str, Any]) -> None:
    write("starting up\n\x00\x1b[31mred\n[1, 2\n42\nnull")
    say(id, "after noise")


def noise_before(id: Any, _: dict[str, Any]) -> None:
    write("[50] added" + json.dumps({"jsonrpc": "2.0", "id": id, "result": said("ok")}))


def huge(id: Any, arguments: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": id, "result": said("x" * arguments["size"])}))


def huge_last(id: Any, arguments: dict[str, Any]) -> None:
    write(json.dumps({"result": said("x" * arguments["size"]), "jsonrpc": "2.0", "id": id}))


def die(id: Any, arguments: dict[str, Any]) -> None:
    sys.stderr.write(arguments.get("words", "it is all over") + "\n")
    sys.stderr.flush()
    os._exit(arguments.get("status", 1))


def close_output(id: Any, _: dict[str, Any]) -> None:
    os.close(1)
    time.sleep(60)


def endless(id: Any, arguments: dict[str, Any]) -> None:
    for number in (10**400, "much", None, float("inf"), float("nan")):
        notify("progress", progressToken=arguments["token"], progress=number)
        notify("progress", progressToken=arguments["token"], progress=1, total=number)
    say(id, "after all")


def progress(id: Any, arguments: dict[str, Any]) -> None:
    for step in range(arguments["steps"]):
        time.sleep(arguments["every"])
        notify("progress", progressToken=arguments["token"], progress=step + 1, total=arguments["steps"])
    say(id, "done")


def late(id: Any, _: dict[str, Any]) -> None:
    """The answers to two calls come in the other order."""
    HELD.append(id)
    if len(HELD) == 2:
        for one in reversed(HELD):
            say(one, f"late {one}")
        HELD.clear()


def unknown(id: Any, _: dict[str, Any]) -> None:
    for other in (999_999, "abc", None):
        say(other, "not yours")
    say(id, "yours")


def twice(id: Any, _: dict[str, Any]) -> None:
    say(id, "first")
    say(id, "second")


def broken_text(id: Any, _: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": id, "result": said("caf?")}).encode()
    sys.stdout.buffer.write(line.replace(b"caf?", b"caf\xe9") + b"\n")
    sys.stdout.flush()


def surrogate(id: Any, _: dict[str, Any]) -> None:
    say(id, "a\ud800b")


def bad_shape(id: Any, _: dict[str, Any]) -> None:
    answer(id, [1, 2, 3])


def bad_content(id: Any, _: dict[str, Any]) -> None:
    answer(id, {"content": [{"type": "smell", "data": "rose"}, {"type": "text"}, *said("good")["content"]]})


def null_result(id: Any, _: dict[str, Any]) -> None:
    answer(id, None)


def no_sense(id: Any, _: dict[str, Any]) -> None:
    answer(id, {"weather": "fine"})


def deep(id: Any, _: dict[str, Any]) -> None:
    inner = '{"a":' * 5_000 + "1" + "}" * 5_000
    write(f'{{"jsonrpc":"2.0","id":{id},"result":{inner}}}')


def error(id: Any, _: dict[str, Any]) -> None:
    fail(id, -32050, "no luck", {"a": 1})


def tell(id: Any, _: dict[str, Any]) -> None:
    fail(id, -32000, f"{os.environ['API_TOKEN']} at {os.environ['PLACE']}")


def batch(id: Any, _: dict[str, Any]) -> None:
    heard = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    write([heard, {"jsonrpc": "2.0", "id": id, "result": said("batched")}])


def change(id: Any, arguments: dict[str, Any]) -> None:
    for _ in range(arguments.get("times", 1)):
        EXTRA.append(tool(f"extra{len(EXTRA)}"))
        notify("tools/list_changed")
    say(id, "changed")


def nonsense(id: Any, _: dict[str, Any]) -> None:
    """Notify of what has not the shape of it, again and again."""
    for level in range(50):
        notify("message", level=level, data=None)
        notify("progress", progress="much")
    say(id, "after nonsense")


def child(id: Any, _: dict[str, Any]) -> None:
    """Start a process that does not care for signals."""
    say(id, str(subprocess.Popen([sys.executable, "-c", STUBBORN]).pid))


def stderr(id: Any, _: dict[str, Any]) -> None:
    for number in range(2_000):
        sys.stderr.write(f"line {number} {'e' * 2_000}\n")
    sys.stderr.flush()
    say(id, "ok")


def ask(id: Any, _: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = {"message": "Your name?", "requestedSchema": schema}
    write({"jsonrpc": "2.0", "id": f"q{id}", "method": "elicitation/create", "params": params})
    HELD.append(id)


TOOLS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "echo": lambda id, arguments: say(id, json.dumps(arguments)),
    "many_bytes": lambda id, arguments: say(id, "y" * arguments["size"]),
    "silent": lambda id, arguments: None,
    "pid": lambda id, arguments: say(id, str(os.getpid())),
    "environment": lambda id, arguments: say(id, json.dumps(dict(os.environ))),
    "seen": lambda id, arguments: say(id, json.dumps(SEEN)),
    **{
        one.__name__: one
        for one in (
            noise, noise_before, huge, huge_last, die, close_output, endless, progress, late, unknown, twice,
            broken_text, surrogate, bad_shape, bad_content, null_result, no_sense, deep, error, batch,
            nonsense, change, child, stderr, ask, tell,
        )
    },
}  # fmt: skip


# ------------------------------------------------------------------ the server


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}


def listed(params: dict[str, Any]) -> dict[str, Any]:
    SEEN.append("listed")
    if WRONG == "pages":
        page = int(params.get("cursor", "0"))
        return {"tools": [tool(f"tool{page}")], "nextCursor": str(page + 1)}
    if WRONG == "heavy":
        page = int(params.get("cursor", "0"))
        heavy = {**tool(f"tool{page}"), "description": "y" * 10_000_000}
        return {"tools": [heavy], "nextCursor": str(page + 1)}
    if WRONG == "circle":
        return {"tools": [tool(f"tool{len(SEEN)}")], "nextCursor": "again"}
    return {"tools": [*map(tool, TOOLS), *EXTRA]}


def start() -> None:
    match WRONG:
        case "slow":
            time.sleep(float(STATE))
        case "exits":
            sys.stderr.write("no configuration\n")
            sys.exit(3)
        case "mute":
            time.sleep(600)
        case "noisy":
            print("welcome\nto the server", flush=True)
            time.sleep(600)
        case "ignores_end":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "dies_once" if not Path(STATE).exists():
            Path(STATE).touch()
            sys.exit(9)


def take(message: dict[str, Any]) -> None:
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    match method:
        case "notifications/cancelled":
            SEEN.append(message)
        case None if HELD:
            say(HELD.pop(), json.dumps(message.get("result", message.get("error"))))
        case "initialize":
            answer(id, {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "raw", "version": "1"},
            })  # fmt: skip
        case "server/discover" if WRONG == "dies_of_news":
            sys.exit(4)
        case "tools/list":
            answer(id, listed(params))
        case "tools/call":
            token = (params.get("_meta") or {}).get("progressToken")
            TOOLS[params["name"]](id, {"token": token, **(params.get("arguments") or {})})
        case _ if id is not None and method is not None:
            fail(id, -32601, "unknown method")


def main() -> None:
    start()
    for line in sys.stdin:
        take(json.loads(line))
    if WRONG == "ignores_end":
        time.sleep(600)


main()
