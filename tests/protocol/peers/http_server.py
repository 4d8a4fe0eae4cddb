"""A tool server with Python's standard library only: `python http_server.py` prints {"port": N}."""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = os.environ.get("PEER_TOKEN")
LARGEST_BODY = 1024 * 1024
Call = dict[str, Any]
live: dict[tuple[str, str], Call] = {}
"""Calls at work or subscribed, by thread and id."""
answers: dict[str, Any] = {}
"""What people chose, by call id."""
COLOURS = ["red", "green", "blue"]


def schema(*names: str) -> dict[str, Any]:
    properties = {name: {"type": "integer"} for name in names}
    return {
        "type": "object",
        "properties": properties,
        "required": list(names),
        "additionalProperties": False,
    }


def is_live(call: Call) -> bool:
    return (call["group_id"], call["id"]) in live


def forget(call: Call) -> None:
    live.pop((call["group_id"], call["id"]), None)


def send(call: Call, message: dict[str, Any]) -> None:
    """POST until it is taken or refused."""
    body = json.dumps(message).encode()
    for attempt in range(6):
        request = urllib.request.Request(
            call["callback_url"], body, {"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return
        except OSError:
            pass
        time.sleep(0.2 * 2**attempt)
        if message["type"] == "subscription_event" and not is_live(call):
            return


def members(call: Call, text: str) -> dict[str, Any]:
    echoed = {"call_id": call["call_id"]} if isinstance(call.get("call_id"), str) else {}
    return {"type": "tool_result", "group_id": call["group_id"], "id": call["id"], "text": text, **echoed}


def result(call: Call, text: str) -> None:
    send(call, members(call, text))
    forget(call)


def add(call: Call) -> None:
    """Add two integers."""
    result(call, str(call["arguments"]["a"] + call["arguments"]["b"]))


def count(call: Call) -> None:
    """Count to n, in events."""
    send(call, {**members(call, f"Counting. Subscription ID: {call['id']}"), "subscription": True})
    last = call["arguments"]["n"]
    for number in range(1, last + 1):
        time.sleep(0.05)
        if is_live(call):
            ids = {"group_id": call["group_id"], "tool_call_id": call["id"]}
            told = {"text": json.dumps({"number": number}), "final": number == last}
            send(call, {"type": "subscription_event", **ids, **told})
    forget(call)


def wait(call: Call) -> None:
    """Wait until it is cancelled."""
    while is_live(call):
        time.sleep(0.02)
    result(call, "Error: cancelled.")


def pick(call: Call) -> None:
    """Ask a person for a colour."""
    echoed = members(call, "")
    del echoed["text"]
    where = f"http://{call['host']}/user_choice_response"
    question = {"prompt": "Which colour?", "choices": COLOURS, "default": 2, "response_url": where}
    send(call, {**echoed, "type": "user_choice", **question})
    while call["id"] not in answers and is_live(call):
        time.sleep(0.02)
    chosen = answers.pop(call["id"], None)
    fits = type(chosen) is int and 0 <= chosen < len(COLOURS)
    result(call, COLOURS[chosen] if fits else "Error: no colour was chosen.")


TOOLS = {
    "add": (add, schema("a", "b")),
    "count": (count, schema("n")),
    "wait": (wait, schema()),
    "pick": (pick, schema()),
}


def refusal(call: Call) -> str:
    if call.get("operation") not in TOOLS:
        return f"Error: unknown operation {call.get('operation')!r}."
    given, names = call.get("arguments"), TOOLS[call["operation"]][1]["required"]
    if not isinstance(given, dict) or set(given) != set(names):
        return f"Error: the arguments must be an object with {names}."
    wrong = [name for name in names if type(given[name]) is not int]
    return f"Error: {wrong} must be integers." if wrong else ""


def work(call: Call) -> None:
    refused = refusal(call)
    if refused:
        result(call, refused)
    else:
        TOOLS[call["operation"]][0](call)


class Endpoints(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path != "/.well-known/rap-toolset":
            return self.reply(404)
        tools = [
            {
                "name": name,
                "description": run.__doc__,
                "inputSchema": shape,
                "annotations": {"readOnly": True, "longRunning": name != "add"},
            }
            for name, (run, shape) in TOOLS.items()
        ]
        endpoint = f"http://{self.headers['Host']}/invoke"
        return self.reply(200, {"name": "http-server", "endpoint": endpoint, "tools": tools})

    def do_POST(self) -> None:
        if TOKEN and self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.reply(401)
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST_BODY:
            return self.reply(413)
        try:
            body = json.loads(self.rfile.read(length))
            return self.take(body)
        except (ValueError, TypeError, KeyError, AttributeError):
            return self.reply(400)

    def take(self, body: dict[str, Any]) -> None:
        match self.path:
            case "/invoke":
                live[body["group_id"], body["id"]] = body
                body["host"] = self.headers["Host"]
                self.reply(200)
                threading.Thread(target=work, args=(body,), daemon=True).start()
            case "/cancel_tool_call":
                live.pop((body["thread_id"], body["tool_call_id"]), None)
                self.reply(200)
            case "/close_thread":
                for at in [at for at in list(live) if at[0] == body["thread_id"]]:
                    live.pop(at, None)
                self.reply(200)
            case "/user_choice_response":
                if any(ident == body["id"] for _, ident in live):
                    answers.setdefault(body["id"], body.get("selected"))
                self.reply(200)
            case "/tool_call_status":
                self.reply(200, {"alive": (body["thread_id"], body["tool_call_id"]) in live})
            case _:
                self.reply(404)

    def reply(self, status: int, body: object = None) -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: paths and bodies are nobody's business."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoints)
    print(json.dumps({"port": server.server_port}), flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)
