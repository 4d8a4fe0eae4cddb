"""A hand-written MCP server over stdio, which misbehaves as it is told. No SDK: it starts at once.

Its first argument names what is wrong with it; each tool of it is one more fault.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

WRONG = sys.argv[1] if len(sys.argv) > 1 else ""
STATE = sys.argv[2] if len(sys.argv) > 2 else ""


def write(value: Any) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(id: Any, result: Any) -> None:
    write({"jsonrpc": "2.0", "id": id, "result": result})


def said(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more}


NAMES = (
    "echo", "noise", "noise_before", "huge", "huge_last", "die", "close_output", "silent", "progress", "late",
    "unknown", "twice", "broken_text", "surrogate", "bad_shape", "bad_content", "error", "batch", "pid", "change",
    "child", "environment", "stderr", "many_bytes", "ask", "seen", "null_result", "deep", "ask_twice",
)  # fmt: skip
held: list[Any] = []
seen: list[Any] = []
extra: list[dict[str, Any]] = []


def listed(params: dict[str, Any]) -> dict[str, Any]:
    if WRONG == "pages":
        page = int(params.get("cursor", "0"))
        return {"tools": [tool(f"tool{page}")], "nextCursor": str(page + 1)}
    if WRONG == "circle":
        return {"tools": [tool(f"tool{len(seen)}")], "nextCursor": "again"}
    return {"tools": [*(tool(name) for name in NAMES), *extra]}


def call(id: Any, params: dict[str, Any]) -> None:
    name, arguments = params["name"], params.get("arguments") or {}
    match name:
        case "echo":
            answer(id, said(json.dumps(arguments)))
        case "noise":
            write("starting up\n\x00\x1b[31mred\n[1, 2\n42\nnull")
            answer(id, said("after noise"))
        case "noise_before":
            write("[50] added" + json.dumps({"jsonrpc": "2.0", "id": id, "result": said("ok")}))
        case "huge":
            write(
                '{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}]}}'
                % (id, "x" * arguments["size"])
            )
        case "huge_last":
            text = "x" * arguments["size"]
            write('{"result":{"content":[{"type":"text","text":"%s"}]},"jsonrpc":"2.0","id":%d}' % (text, id))
        case "die":
            sys.stderr.write("it is all over\n")
            sys.stderr.flush()
            os._exit(arguments.get("status", 1))
        case "close_output":
            os.close(1)
            time.sleep(60)
        case "silent":
            pass
        case "progress":
            token = params["_meta"]["progressToken"]
            for step in range(arguments["steps"]):
                time.sleep(arguments["every"])
                write({
                    "jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": step + 1, "total": arguments["steps"]},
                })  # fmt: skip
            answer(id, said("done"))
        case "late":
            held.append(id)
            if len(held) == 2:
                for one in reversed(held):
                    answer(one, said(f"late {one}"))
                held.clear()
        case "unknown":
            answer(999_999, said("not yours"))
            answer("abc", said("not yours"))
            answer(None, said("nobody's"))
            answer(id, said("yours"))
        case "twice":
            answer(id, said("first"))
            answer(id, said("second"))
        case "broken_text":
            line = json.dumps({"jsonrpc": "2.0", "id": id, "result": said("caf?")}).encode()
            sys.stdout.buffer.write(line.replace(b"caf?", b"caf\xe9") + b"\n")
            sys.stdout.flush()
        case "surrogate":
            write('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\\ud800b"}]}}' % id)
        case "bad_shape":
            write({"jsonrpc": "2.0", "id": id, "result": [1, 2, 3]})
        case "bad_content":
            answer(
                id,
                {
                    "content": [
                        {"type": "smell", "data": "rose"},
                        {"type": "text"},
                        said("good")["content"][0],
                    ]
                },
            )
        case "error":
            write(
                {
                    "jsonrpc": "2.0",
                    "id": id,
                    "error": {"code": -32050, "message": "no luck", "data": {"a": 1}},
                }
            )
        case "batch":
            write([
                {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}},
                {"jsonrpc": "2.0", "id": id, "result": said("batched")},
            ])  # fmt: skip
        case "pid":
            answer(id, said(str(os.getpid())))
        case "change":
            for number in range(arguments.get("times", 1)):
                extra.append(tool(f"extra{number}"))
                write({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            answer(id, said("changed"))
        case "child":
            program = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
            child = subprocess.Popen([sys.executable, "-c", program])
            answer(id, said(str(child.pid)))
        case "environment":
            answer(id, said(json.dumps(dict(os.environ))))
        case "stderr":
            for number in range(2_000):
                sys.stderr.write(f"line {number} " + "e" * 2_000 + "\n")
            sys.stderr.flush()
            answer(id, said("ok"))
        case "many_bytes":
            answer(id, {"content": [{"type": "text", "text": "y" * arguments["size"]}]})
        case "ask" | "ask_twice":
            write({
                "jsonrpc": "2.0", "id": f"q{id}", "method": "elicitation/create",
                "params": {"message": "Your name?", "requestedSchema": {
                    "type": "object", "properties": {"name": {"type": "string"}}}},
            })  # fmt: skip
            held.append(id)
        case "seen":
            answer(id, said(json.dumps(seen)))
        case "null_result":
            write({"jsonrpc": "2.0", "id": id, "result": None})
        case "deep":
            write('{"jsonrpc":"2.0","id":%d,"result":%s%s}' % (id, '{"a":' * 5_000 + "1", "}" * 5_000))
        case _:
            write({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": f"no tool {name}"}})


def once_before() -> bool:
    """Whether a server with this state file has run before."""
    if not STATE or os.path.exists(STATE):
        return True
    with open(STATE, "w"):
        return False


def start() -> None:
    if WRONG == "slow":
        time.sleep(float(STATE))
    if WRONG == "exits":
        sys.stderr.write("no configuration\n")
        sys.exit(3)
    if WRONG == "mute":
        time.sleep(600)
    if WRONG == "noisy":
        print("welcome\nto the server", flush=True)
        time.sleep(600)
    if WRONG == "ignores_end":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if WRONG == "dies_once" and not once_before():
        sys.exit(9)


def main() -> None:
    start()
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method in ("notifications/cancelled", None):
            seen.append(message)
            if method is None and held:
                answer(held.pop(), said(json.dumps(message.get("result", message.get("error")))))
        elif method == "initialize":
            answer(id, {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "raw", "version": "1"},
            })  # fmt: skip
        elif method == "server/discover" and WRONG == "dies_of_news":
            sys.exit(4)
        elif method == "tools/list":
            answer(id, listed(message.get("params") or {}))
            seen.append("listed")
        elif method == "tools/call":
            call(id, message["params"])
        elif id is not None:
            write({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown method"}})
    if WRONG == "ignores_end":
        time.sleep(600)


main()
