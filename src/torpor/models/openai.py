"""OpenAI Chat Completions, and every server that speaks them."""

import json
import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from torpor.core.chunks import AnyChunk
from torpor.core.messages import Call, Image, Part
from torpor.core.request import (
    INJECTED,
    AnyItem,
    Attempt,
    InjectedItem,
    InputItem,
    Request,
    ResultsItem,
    ResultView,
    Tool,
    TurnItem,
)
from torpor.models import windows
from torpor.models.openai_stream import OpenAIReader
from torpor.models.rendering import (
    NOTHING,
    Limits,
    arguments_text,
    body_bytes,
    pieces,
    settings_of,
    stamped,
    wire_name,
)
from torpor.models.sdk import Clients, Reason, host_of, loaded, relay, require

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

ORIGINAL = "https://api.openai.com/v1"
ORIGINALS = (".openai.com", ".openai.azure.com")

OWN_FIELDS = frozenset({"messages", "model", "stream", "stream_options", "tools"})

Message = dict[str, Any]


class OpenAI:
    """A model behind the Chat Completions API of OpenAI or of any compatible server.

    ``base_url`` and ``api_key`` default to ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``; a server of your own
    needs no key. ``timeout`` is the longest silence in seconds, not a bound on the whole answer; ``connect``
    bounds connecting. ``images=False`` sends a line of text in place of each image; an image of more than
    ``image_bytes`` becomes one in any case. ``empty_content`` sends calls without words with an empty text
    beside them, which some servers (llama-cpp-python) want and others refuse. ``window`` is how many tokens
    the model takes: by default what OpenAI says of it, and 0 (not known: nothing is summed up before the
    server refuses) for any other server. Raises ``Refused`` if the SDK is not installed or ``base_url`` is no
    address.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 600.0,
        connect: float = 10.0,
        images: bool = True,
        image_bytes: int = 20_000_000,
        empty_content: bool = False,
        window: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        require("openai")
        self.name = f"openai:{name}"
        self._model = name
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self._origin = host_of(self._base_url or ORIGINAL)
        """The server that opaque values belong to."""
        self.window = windows.window(window, name, windows.OPENAI if self._is_original else ())
        self._api_key = api_key
        self._silence = timeout
        self._connect = connect
        self._headers = headers
        self._silent: Message = {"content": ""} if empty_content else {}
        self._limits = Limits(images, image_bytes)
        self._clients: Clients[AsyncOpenAI] = Clients()

    async def stream(self, request: Request, attempt: Attempt) -> AsyncGenerator[AnyChunk, None]:
        """One completion, asked for once; see the ``Model`` port."""
        sdk = await loaded("openai")
        reason = Reason(sdk, self.name, self._key())
        body = self.wire_bytes(request)
        answer = relay(self._open(body, reason), OpenAIReader(self._origin), reason, attempt.seconds)
        try:
            async for chunk in answer:
                yield chunk
        finally:
            await answer.aclose()

    async def close(self) -> None:
        """Let go of this loop's connections. Idempotent."""
        client = self._clients.forget()
        if client is not None:
            await client.close()

    def wire(self, request: Request) -> dict[str, Any]:
        """The body that would be sent, its messages last."""
        body: dict[str, Any] = {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        settings = settings_of(request, OWN_FIELDS)
        if "max_tokens" in settings and self._is_original:
            settings["max_completion_tokens"] = settings.pop("max_tokens")
        body.update(settings)
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        body["messages"] = self._messages(request)
        return body

    def wire_bytes(self, request: Request) -> bytes:
        """The same as bytes, exactly as they leave."""
        return body_bytes(self.wire(request))

    @property
    def _is_original(self) -> bool:
        """Whether it is OpenAI's own service, which wants the newer name of ``max_tokens``."""
        return f".{self._origin.partition(':')[0]}".endswith(ORIGINALS)

    def _key(self) -> str:
        return self._api_key or os.environ.get("OPENAI_API_KEY") or ("none" if self._base_url else "")

    def _client(self) -> "AsyncOpenAI":
        import httpx2
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        from torpor.models.bounded import IDENTITY, bounding

        silence = httpx2.Timeout(self._silence, connect=self._connect)
        return AsyncOpenAI(
            api_key=self._key() or None,
            base_url=self._base_url,
            max_retries=0,
            default_headers={**IDENTITY, **(self._headers or {})},
            timeout=silence,
            http_client=DefaultAsyncHttpxClient(timeout=silence, event_hooks=bounding(self.name)),
        )

    async def _open(self, body: bytes, reason: Reason) -> "AsyncStream[object]":
        from openai import AsyncStream, OpenAIError

        try:
            client = self._clients.here(self._client)
        except OpenAIError as error:
            raise reason.unusable(error) from None
        return await client.post(
            "/chat/completions",
            cast_to=object,
            content=body,
            options={"security": {"bearer_auth": True}},
            stream=True,
            stream_cls=AsyncStream[object],
        )

    def _messages(self, request: Request) -> list[Message]:
        messages: list[Message] = []
        if request.instructions.strip():
            messages.append({"role": "system", "content": request.instructions})
        for item in request.items:
            messages.extend(self._item(item))
        return messages

    def _item(self, item: AnyItem) -> list[Message]:
        if isinstance(item, InputItem):
            return [{"role": "user", "content": _content(stamped(item, self._limits))}]
        if isinstance(item, TurnItem):
            return self._turn(item)
        if isinstance(item, ResultsItem):
            return self._results(item)
        if isinstance(item, InjectedItem):
            return self._injected(item)
        return [{"role": "user", "content": item.text}]

    def _turn(self, item: TurnItem) -> list[Message]:
        content = {"content": item.text} if item.text.strip() else {}
        if not item.calls:
            return [{"role": "assistant", **content}] if content else []
        calls = [self._call(call) for call in item.calls]
        return [{"role": "assistant", **(content or self._silent), "tool_calls": calls}]

    def _call(self, call: Call) -> Message:
        sent: Message = {
            "id": call.id,
            "type": "function",
            "function": {"name": wire_name(call.name), "arguments": arguments_text(call)},
        }
        opaque = json.loads(call.opaque) if call.opaque else {}
        if opaque.get("origin") == self._origin:
            sent["extra_content"] = opaque["extra_content"]
        return sent

    def _results(self, item: ResultsItem) -> list[Message]:
        messages, pictures = [], []
        for view in item.results:
            first = "[error]" if view.is_error else ""
            messages.append(self._answer(view.call, first, view.parts))
            pictures.extend(self._pictures(view))
        if pictures:
            messages.append({"role": "user", "content": _content(pictures)})
        return messages

    def _injected(self, item: InjectedItem) -> list[Message]:
        call = {
            "id": item.id,
            "type": "function",
            "function": {"name": INJECTED, "arguments": item.wrapped},
        }
        view = ResultView(call=item.id, name=INJECTED, parts=item.parts)
        messages: list[Message] = [
            {"role": "assistant", **self._silent, "tool_calls": [call]},
            self._answer(item.id, item.heading, item.parts),
        ]
        if pictures := self._pictures(view):
            messages.append({"role": "user", "content": _content(pictures)})
        return messages

    def _answer(self, call: str, first: str, parts: tuple[Part, ...]) -> Message:
        words = [
            shown
            if isinstance(shown, str)
            else f"[image {shown.media_type}: see the message after the results]"
            for shown in pieces(first, parts, self._limits)
        ]
        return {"role": "tool", "tool_call_id": call, "content": "\n".join(words) or NOTHING}

    def _pictures(self, view: ResultView) -> list[Image | str]:
        shown = [image for image in pieces("", view.parts, self._limits) if isinstance(image, Image)]
        return [f"[images of {wire_name(view.name)}, call {view.call}]", *shown] if shown else []


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.schema}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _content(shown: list[Image | str]) -> str | list[dict[str, Any]]:
    """Plain text where there is only text, else a list of parts."""
    if all(isinstance(piece, str) for piece in shown):
        return "\n".join(piece for piece in shown if isinstance(piece, str))
    return [_part(piece) for piece in shown]


def _part(piece: Image | str) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    return {"type": "image_url", "image_url": {"url": f"data:{piece.media_type};base64,{piece.data}"}}
