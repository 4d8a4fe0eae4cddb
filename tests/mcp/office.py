"""An MCP server of 2026-07-28 over standard input and output, without an SDK: it asks by its results.

Run as ``python office.py FOLDER``. Each effect is a line of ``effects`` there; tasks outlive its process.
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
LOCK = threading.Lock()
VERSION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"

OBJECT = {"type": "object", "properties": {"tag": {"type": "string"}, "seconds": {"type": "number"}}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
COLOUR = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "green"]}},
    "required": ["colour"],
}
NAMES = ("ask", "visit", "roots", "sample", "again", "endless", "build", "survey", "odd")
TOOLS = [{"name": name, "description": name, "inputSchema": OBJECT} for name in NAMES]


def write(message: dict[str, Any]) -> None:
    with LOCK:
        os.write(1, (json.dumps({"jsonrpc": "2.0", **message}) + "\n").encode())


def effect(what: str) -> None:
    with (FOLDER / "effects").open("a") as file:
        file.write(f"{what}\n")


def text(words: str) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": words}]}


def elicit(message: str, schema: dict[str, Any]) -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def needs(state: str, **requests: Any) -> dict[str, Any]:
    return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def asked(name: str, tag: str) -> dict[str, Any]:
    """What a tool wants to know before it does anything."""
    url = {"mode": "url", "message": "Sign it.", "url": "https://sign.test/x"}
    message = {"role": "user", "content": {"type": "text", "text": "Say it."}}
    match name:
        case "ask":
            return needs(f"s-{tag}", where=elicit("Where to?", CITY), what=elicit("Which?", COLOUR))
        case "visit":
            return needs(f"s-{tag}", visit={"method": "elicitation/create", "params": url})
        case "roots":
            return needs(f"s-{tag}", roots={"method": "roots/list"})
        case "sample":
            params = {"messages": [message], "maxTokens": 20, "systemPrompt": "Be brief."}
            return needs(f"s-{tag}", said={"method": "sampling/createMessage", "params": params})
        case "odd":
            return needs(f"s-{tag}", odd=elicit("?", {"type": "no such type"}))
        case _:
            return {"resultType": "input_required", "requestState": f"s-{tag}"}


def run(call: dict[str, Any]) -> dict[str, Any]:
    name, given = call["name"], call.get("arguments", {})
    tag = given.get("tag", "")
    if name in ("build", "survey"):
        return submit(name, given)
    if name == "endless" or "requestState" not in call:
        return asked(name, tag)
    if call["requestState"] != f"s-{tag}":
        raise ValueError("that is another call's state")
    effect(f"{name} {tag}")
    return text(json.dumps(call.get("inputResponses")))


def submit(name: str, given: dict[str, Any]) -> dict[str, Any]:
    task = uuid.uuid4().hex
    effect(f"{name} {given.get('tag', '')}")
    kept = {"name": name, "tag": given.get("tag", ""), "over": time.time() + given.get("seconds", 0.0)}
    (FOLDER / f"task-{task}").write_text(json.dumps(kept))
    return {**status(task), "resultType": "task"}


def status(task: str) -> dict[str, Any]:
    path = FOLDER / f"task-{task}"
    if not path.exists():
        raise ValueError("there is no such task")
    kept = json.loads(path.read_text())
    at = "2026-01-01T00:00:00Z"
    found = {"taskId": task, "createdAt": at, "lastUpdatedAt": at, "ttlMs": 600_000, "pollIntervalMs": 200}
    found["resultType"] = "complete"
    if kept["name"] == "survey" and "answers" not in kept:
        return {**found, "status": "input_required", "inputRequests": {"where": elicit("Where?", CITY)}}
    if time.time() < kept["over"]:
        return {**found, "status": "working", "statusMessage": "still at it"}
    if kept["tag"] == "bad":
        return {**found, "status": "failed", "error": {"code": 1, "message": "it broke"}}
    result = text(json.dumps(kept.get("answers", f"{kept['name']} done: {kept['tag']}")))
    return {**found, "status": "completed", "result": result}


def update(params: dict[str, Any]) -> dict[str, Any]:
    path = FOLDER / f"task-{params['taskId']}"
    kept = {**json.loads(path.read_text()), "answers": params["inputResponses"]}
    path.write_text(json.dumps(kept))
    return {"resultType": "complete"}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params", {})
    match message["method"]:
        case "server/discover":
            capabilities: dict[str, Any] = {"tools": {}, "extensions": {TASKS: {}}}
            info = {"name": "office", "version": "1"}
            return {
                "resultType": "complete", "supportedVersions": [VERSION], "capabilities": capabilities,
                "serverInfo": info, "cacheScope": "private", "ttlMs": 0,
            }  # fmt: skip
        case "tools/list":
            return {"resultType": "complete", "tools": TOOLS, "cacheScope": "private", "ttlMs": 0}
        case "tools/call":
            return run(params)
        case "tasks/get":
            return status(params["taskId"])
        case "tasks/update":
            return update(params)
        case "tasks/cancel":
            effect("cancelled task")
            return {"resultType": "complete"}
        case other:
            raise KeyError(other)


def serve(message: dict[str, Any]) -> None:
    try:
        write({"id": message["id"], "result": answer(message)})
    except KeyError as error:
        write({"id": message["id"], "error": {"code": -32601, "message": f"no method {error}"}})
    except ValueError as error:
        write({"id": message["id"], "error": {"code": -32602, "message": str(error)}})


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        received = json.loads(line)
        if "id" in received:
            threading.Thread(target=serve, args=(received,), daemon=True).start()
