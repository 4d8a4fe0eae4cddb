"""An MCP server of 2025-11-25 over standard input and output, without an SDK: effects and tasks are in files.

Run as ``python depot.py FOLDER``. Each effect is a line of ``effects`` there; tasks outlive its process.
"""

import json
import os
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
STARTED = time.monotonic()
LOCK = threading.Lock()
WAITING: dict[str, tuple[threading.Event, list[dict[str, Any]]]] = {}

OBJECT = {"type": "object", "properties": {"tag": {"type": "string"}, "seconds": {"type": "number"}}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: str, *, tasks: str = "forbidden", **hints: bool) -> dict[str, Any]:
    execution = {"taskSupport": tasks}
    found = {"name": name, "description": f"{name} something", "inputSchema": OBJECT}
    return {**found, "annotations": hints, "execution": execution}


TOOLS = [
    tool("send"),
    tool("look", readOnlyHint=True),
    tool("put", idempotentHint=True),
    tool("build", tasks="required"),
    tool("ask"),
    tool("visit"),
    tool("sample"),
    tool("survey", tasks="optional"),
    tool("crash", readOnlyHint=True),
]


def write(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    with LOCK:
        os.write(1, line.encode())


def effect(what: str) -> None:
    with (FOLDER / "effects").open("a") as file:
        file.write(f"{what}\n")


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the client something, and wait for what it answers."""
    id = uuid.uuid4().hex
    event = threading.Event()
    answer: list[dict[str, Any]] = []
    WAITING[id] = (event, answer)
    write({"id": id, "method": method, "params": params})
    event.wait()
    return answer[0]


def work(call: dict[str, Any], seconds: float) -> None:
    """Take so long, saying how far it is."""
    token = call.get("_meta", {}).get("progressToken")
    steps = max(1, int(seconds / 0.1))
    for step in range(steps):
        time.sleep(seconds / steps)
        if token is not None:
            params = {
                "progressToken": token,
                "progress": step + 1,
                "total": steps,
                "message": f"step {step + 1}",
            }
            write({"method": "notifications/progress", "params": params})


def run(call: dict[str, Any]) -> dict[str, Any]:
    name, given = call["name"], call.get("arguments", {})
    tag, seconds = given.get("tag", ""), given.get("seconds", 0.0)
    match name:
        case "ask":
            params = {"message": "Where to?", "requestedSchema": CITY}
            answer = request("elicitation/create", params)
            effect(f"{name} {tag}")
            return text(json.dumps(answer.get("result", answer)))
        case "sample":
            message = {"role": "user", "content": {"type": "text", "text": tag}}
            answer = request("sampling/createMessage", {"messages": [message], "maxTokens": 50})
            return text(json.dumps(answer.get("result", answer.get("error"))))
        case "crash" if not (FOLDER / "crashed").exists():
            (FOLDER / "crashed").touch()
            os._exit(3)
    effect(f"{name} {tag}")
    work(call, seconds)
    return text(f"{name} done: {tag}")


def submit(call: dict[str, Any]) -> dict[str, Any]:
    task = uuid.uuid4().hex
    given = call.get("arguments", {})
    effect(f"{call['name']} {given.get('tag', '')}")
    kept = {
        "name": call["name"],
        "tag": given.get("tag", ""),
        "over": time.time() + given.get("seconds", 0.0),
    }
    (FOLDER / f"task-{task}").write_text(json.dumps(kept))
    return {"task": status(task)}


def status(task: str) -> dict[str, Any]:
    path = FOLDER / f"task-{task}"
    if not path.exists():
        raise ValueError("there is no such task")
    kept = json.loads(path.read_text())
    state = "working" if time.time() < kept["over"] else "completed"
    if kept["name"] == "survey" and "answer" not in kept:
        state = "input_required"
    if kept.get("cancelled"):
        state = "cancelled"
    at = "2026-01-01T00:00:00Z"
    found = {"taskId": task, "status": state, "createdAt": at, "lastUpdatedAt": at, "ttl": 600_000}
    return {**found, "pollInterval": 200, "statusMessage": f"{kept['name']} is {state}"}


def task_result(task: str) -> dict[str, Any]:
    path = FOLDER / f"task-{task}"
    kept = json.loads(path.read_text())
    if kept["name"] == "survey" and "answer" not in kept:
        about = {"io.modelcontextprotocol/related-task": {"taskId": task}}
        answer = request("elicitation/create", {"message": "Where?", "requestedSchema": CITY, "_meta": about})
        kept["answer"] = answer.get("result", answer)
        path.write_text(json.dumps(kept))
        return text(json.dumps(kept["answer"]))
    time.sleep(max(0.0, kept["over"] - time.time()))
    return text(f"{kept['name']} done: {kept['tag']}")


def answer(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params", {})
    match message["method"]:
        case "initialize":
            with (FOLDER / "starts").open("a") as file:
                file.write(f"{os.getpid()}\n")
            version = params["protocolVersion"]
            capabilities: dict[str, Any] = {
                "tools": {},
                "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}},
            }
            info = {"name": "depot", "version": "1"}
            return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        case "ping":
            return {}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return submit(params) if params.get("task") is not None else run(params)
        case "tasks/get":
            return status(params["taskId"])
        case "tasks/result":
            return task_result(params["taskId"])
        case "tasks/cancel":
            path = FOLDER / f"task-{params['taskId']}"
            path.write_text(json.dumps({**json.loads(path.read_text()), "cancelled": True}))
            return status(params["taskId"])
        case other:
            raise KeyError(other)


def serve(message: dict[str, Any]) -> None:
    try:
        write({"id": message["id"], "result": answer(message)})
    except KeyError as error:
        write({"id": message["id"], "error": {"code": -32601, "message": f"no method {error}"}})
    except ValueError as error:
        write({"id": message["id"], "error": {"code": -32602, "message": str(error)}})


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "method" not in message:
            event, answer = WAITING.pop(message["id"])
            answer.append(message)
            event.set()
        elif "id" in message:
            threading.Thread(target=serve, args=(message,), daemon=True).start()
        elif message["method"] == "notifications/cancelled":
            effect(f"cancelled {message['params'].get('requestId', '') != ''}")


if __name__ == "__main__":
    main()
