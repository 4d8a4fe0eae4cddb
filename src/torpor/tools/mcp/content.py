"""What an MCP tool gave, read with patience, and as parts that a model can read.

A piece that breaks the protocol's rules costs itself only. Sounds and files go to blobs; the model reads
what they are and under which handle they are kept.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import TypeAdapter, ValidationError

from torpor.core.messages import Image, Part, Text
from torpor.core.text import clean
from torpor.tools.mcp.faults import Declined
from torpor.tools.mcp.session import Task
from torpor.tools.rendering import NOTHING
from torpor.tools.results import IMAGE_KEPT, Bounded, PutBlob, aside, bounded, image_part, image_type

POLL = 5.0
SHORTEST_POLL = 0.5
LONGEST_POLL = 300.0
NAME_SHOWN = 300
BLOBS_KEPT = 20
MOST_BLOCKS = 1_000
"""Pieces of content of one result that are read."""

_block: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)


def outcome(raw: Mapping[str, Any]) -> CallToolResult | InputRequiredResult | Task:
    """What a server answered to ``tools/call``. ``Declined`` if it makes no sense at all."""
    told = raw.get("task")
    if isinstance(told, dict) and "taskId" in told:
        return _task(told)
    if isinstance(raw.get("taskId"), str) and isinstance(raw.get("status"), str) and "content" not in raw:
        return _task(raw)
    kind = raw.get("resultType")
    if kind == "input_required" or ("inputRequests" in raw and "content" not in raw):
        try:
            return InputRequiredResult.model_validate({**raw, "resultType": "input_required"}, by_name=False)
        except ValidationError:
            raise Declined("The server asks for something in a form that is not known.") from None
    if not ({"content", "structuredContent", "isError"} & set(raw)):
        raise Declined("The server's result is none of a tool.")
    listed = raw.get("content")
    blocks = _blocks(listed) if isinstance(listed, list) else []
    is_error = raw.get("isError") is True
    return CallToolResult(content=blocks, structured_content=raw.get("structuredContent"), is_error=is_error)


def _blocks(listed: list[object]) -> list[ContentBlock]:
    blocks = [block(one) for one in listed[:MOST_BLOCKS]]
    if len(listed) > MOST_BLOCKS:
        left = f"[left out: {len(listed) - MOST_BLOCKS:,} more pieces of content; {MOST_BLOCKS:,} are read]"
        blocks.append(TextContent(type="text", text=left))
    return blocks


def block(given: object) -> ContentBlock:
    """One piece of content; a text in place of one that breaks the rules."""
    try:
        return _block.validate_python(given, by_name=False)
    except ValidationError:
        pass
    if isinstance(given, str):
        return TextContent(type="text", text=given)
    if isinstance(given, dict) and isinstance(given.get("text"), str):
        return TextContent(type="text", text=given["text"])
    kind = given.get("type") if isinstance(given, dict) else type(given).__name__
    return TextContent(type="text", text=f"[left out: content of the kind {str(kind)[:60]!r} cannot be used]")


def said(text: str, *, is_error: bool = False) -> CallToolResult:
    """A result in words."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


async def result_parts(result: CallToolResult, put_blob: PutBlob) -> Bounded:
    """A tool's result as parts of bounded size; what is too long, or no text, is kept by ``put_blob``."""
    weight = sum(len(getattr(one, "data", "")) + len(getattr(one, "text", "")) for one in result.content)
    parts, blobs = await aside(weight, _parts, result)
    for handle, body in blobs.items():
        await put_blob(handle, body)
    return await bounded(parts, put_blob)


def _parts(result: CallToolResult) -> tuple[list[Part], dict[str, bytes]]:
    blobs: dict[str, bytes] = {}
    parts = [_part(one, blobs) for one in result.content]
    structured = result.structured_content
    if structured is not None and not _is_told(structured, result.content):
        parts.append(Text(clean(msgspec.json.encode(structured).decode("utf-8", "replace"))))
    return parts or [Text(NOTHING)], blobs


def _part(one: ContentBlock, blobs: dict[str, bytes]) -> Part:
    match one:
        case TextContent():
            return Text(clean(one.text))
        case ImageContent():
            return _image(one.data, one.mime_type, blobs)
        case AudioContent():
            return _kept(one.data, one.mime_type, "a sound", blobs)
        case ResourceLink():
            return Text(_link(one))
        case EmbeddedResource():
            return _resource(one.resource, blobs)


def _resource(held: TextResourceContents | BlobResourceContents, blobs: dict[str, bytes]) -> Part:
    named = f"resource {_shown(str(held.uri))}"
    if isinstance(held, TextResourceContents):
        return Text(f"[{named}]\n{clean(held.text)}")
    return (
        image_part(held.blob)
        if _is_image(held.blob)
        else _kept(held.blob, held.mime_type or "", named, blobs)
    )


def _image(data: str, media_type: str, blobs: dict[str, bytes]) -> Part:
    """An image where models take it; else kept as any file."""
    part = image_part(data)
    if isinstance(part, Image) or len(data) * 3 // 4 > IMAGE_KEPT:
        return part
    return _kept(data, media_type, "an image of a kind that models do not take", blobs)


def _is_image(data: str) -> bool:
    try:
        return bool(image_type(base64.b64decode(data[:64], validate=True)))
    except (binascii.Error, ValueError):
        return False


def _kept(data: str, media_type: str, what: str, blobs: dict[str, bytes]) -> Text:
    """A note on bytes, which are kept under a handle."""
    try:
        body = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Text(f"[left out: {what}, which is not valid base64]")
    kind = f"{_shown(media_type)}, " if media_type else ""
    if len(blobs) >= BLOBS_KEPT:
        return Text(f"[left out: {what} ({kind}{len(body):,} bytes); one result keeps {BLOBS_KEPT} of them]")
    handle = hashlib.sha256(body).hexdigest()[:32] + "b"
    blobs[handle] = body
    return Text(f"[{what}: {kind}{len(body):,} bytes, kept under the handle {handle}]")


def _link(one: ResourceLink) -> str:
    told = [_shown(str(one.uri)), one.mime_type, f"{one.size:,} bytes" if one.size is not None else ""]
    words = f": {_shown(one.description)}" if one.description else ""
    return f"[link to the resource {_shown(one.name)!r}: {', '.join(filter(None, told))}{words}]"


def _shown(text: str) -> str:
    return "".join(filter(str.isprintable, " ".join(clean(text).split())))[:NAME_SHOWN]


def _is_told(structured: Any, content: Iterable[ContentBlock]) -> bool:
    """Whether the texts say what the structured content does, in the forms that servers write."""
    texts = [one.text for one in content if isinstance(one, TextContent)]
    values = [_read(text) for text in texts]
    forms: list[Any] = [*texts, *values, texts, values]
    lone = [*structured.values()] if isinstance(structured, dict) and len(structured) == 1 else []
    return any(form in (structured, *lone) for form in forms)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _task(told: Mapping[str, Any]) -> Task:
    """A task in the form of either era: milliseconds, under names with and without the unit."""
    poll = _seconds(told, "pollInterval", "pollIntervalMs")
    status = told.get("status")
    message = told.get("statusMessage", told.get("message"))
    return Task(
        str(told["taskId"]),
        status if isinstance(status, str) else "working",
        clean(message)[:1000] if isinstance(message, str) else "",
        poll=POLL if poll is None else min(max(poll, SHORTEST_POLL), LONGEST_POLL),
        ttl=_seconds(told, "ttl", "ttlMs"),
    )


def _seconds(told: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = told.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return value / 1000
    return None
