"""What a tool gives back, and how it becomes the members of a message."""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from torpor.core.text import clean

LONGEST_TEXT = 4 * 1024 * 1024
LARGEST_IMAGES = 12 * 1024 * 1024
LONGEST_ERROR = 1000

# Mistakes in the tool's own code: their texts name internals and help no model.
_BUGS = (
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    SyntaxError,
    SystemError,
    TypeError,
)
_INTERNALS = re.compile(
    r"\b[a-z][a-z0-9+.-]{0,30}://\S+"  # addresses
    r"|(?<![\w.])(?:~|/(?=[\w.]))[\w.@%+-]*(?:/[\w.@%+-]*)+"  # paths
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b",  # hosts
    re.IGNORECASE,
)


class ToolError(Exception):
    """A failure that the model is to read: raise it with what went wrong and what can be done about it."""


class Text(msgspec.Struct, frozen=True):
    """A piece of text."""

    text: str


class Image(msgspec.Struct, frozen=True):
    """An image: its bytes and their media type, such as `image/png`."""

    data: bytes
    media_type: str


class Diff(msgspec.Struct, frozen=True):
    """A unified diff of one file, for people only."""

    path: str
    patch: str


class Content(msgspec.Struct, frozen=True):
    """A result in parts. `parts` go to the model; `display` (optional) is shown to people instead of them."""

    parts: Sequence[str | Text | Image]
    display: Sequence[str | Text | Image | Diff] = ()


def render(value: object) -> dict[str, Any]:
    """Turn what a tool returned into `text` or `content` and `display_as`.

    A str is sent as it is, None as "Done.", Content in its parts, anything else as JSON.
    Raises ToolError if it is too large or has no JSON form.
    """
    if isinstance(value, (Text, Image)):
        value = Content([value])
    if isinstance(value, Content):
        return _render_parts(value)
    return {"text": _bounded(_plain(value))}


def text_of(members: Mapping[str, Any]) -> str:
    """The text among what `render` made."""
    if "text" in members:
        return str(members["text"])
    return "\n".join(item["text"] for item in members["content"] if item["type"] == "text")


def _plain(value: object) -> str:
    if value is None:
        return "Done."
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        kind = type(value).__name__
        raise ToolError(f"the tool worked, but its result (a {kind}) has no JSON form") from None


def _bounded(text: str) -> str:
    text = clean(text)
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def _render_parts(content: Content) -> dict[str, Any]:
    size = sum(len(part.data) for part in (*content.parts, *content.display) if isinstance(part, Image))
    if size > LARGEST_IMAGES:
        raise ToolError(f"the images of the result take {size} bytes; at most {LARGEST_IMAGES} can be sent")
    items = [_item(part) for part in content.parts]
    first = content.parts[0] if content.parts else ""
    if isinstance(first, Image):
        items.insert(0, {"type": "text", "text": _caption(first)})
    members: dict[str, Any] = {"content": items} if items else {"text": "Done."}
    if content.display:
        segments = [_segment(part) for part in content.display]
        last = content.display[-1]
        if isinstance(last, Image):
            segments.append({"type": "text", "content": _caption(last)})
        members["display_as"] = segments
    return members


def _caption(image: Image) -> str:
    return f"Image ({image.media_type}, {len(image.data)} bytes)."


def _item(part: str | Text | Image) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image", **_image(part)}
    return {"type": "text", "text": _bounded(part if isinstance(part, str) else part.text)}


def _segment(part: str | Text | Image | Diff) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image", "content": _image(part)}
    if isinstance(part, Diff):
        return {"type": "diff", "content": {"path": clean(part.path), "patch": _bounded(part.patch)}}
    return {"type": "text", "content": _bounded(part if isinstance(part, str) else part.text)}


def _image(image: Image) -> dict[str, str]:
    return {"data": base64.b64encode(image.data).decode("ascii"), "mediaType": image.media_type}


def error_text(error: BaseException) -> str:
    """What the model may read of a failure: no traceback; no address, path or host out of a foreign error."""
    if isinstance(error, ToolError):
        text = str(error)
    elif isinstance(error, _BUGS):
        text = f"the tool has a mistake ({type(error).__name__}); repeating the call will not help"
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror
    else:
        text = _INTERNALS.sub("[hidden]", str(error).split("\n", 1)[0][: 4 * LONGEST_ERROR])
    text = clean(text.strip())[:LONGEST_ERROR] or f"the tool failed ({type(error).__name__})"
    return text if text.startswith("Error: ") else f"Error: {text}"
