"""A provider of Chat Completions on loopback that does what the README's example needs of a model."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Provider(BaseHTTPRequestHandler):
    """Calls ``add``; once it has a result, says what that was."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = (
            b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in _chunks(asked)) + b"data: [DONE]\n\n"
        )
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def _chunks(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    last = asked["messages"][-1]
    if last["role"] == "tool":
        yield _chunk(asked, {"role": "assistant", "content": f"It is {last['content']}."})
        yield _chunk(asked, {}, "stop")
        return
    function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    assert "add" in [tool["function"]["name"] for tool in asked["tools"]]
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    yield _chunk(asked, {"role": "assistant", "tool_calls": [call]})
    yield _chunk(asked, {}, "tool_calls")


def _chunk(asked: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-docs",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": asked["model"],
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


@contextlib.contextmanager
def answering() -> Iterator[str]:
    """The base URL of such a provider while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Provider)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
