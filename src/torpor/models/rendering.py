"""What both wire formats share: items as words, arguments as objects, images, the body's bytes."""

import json
import re
from collections.abc import Iterator
from typing import Any

from torpor.core.errors import ModelRefused
from torpor.core.messages import Call, File, Image, Part, Text
from torpor.core.request import INJECTED, InjectedItem, InputItem, Request
from torpor.core.turn import arguments_of
from torpor.models.pictures import size_of

NOTHING = "(no output)"
"""Stands for a result without any text; providers refuse an empty one."""

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""All that may be taken for the end of a line."""
_LONGEST_NAME = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class Limits:
    """Which images one model takes: none at all, or those up to a size in bytes and pixels (0: any)."""

    __slots__ = ("image_bytes", "images", "side")

    def __init__(self, images: bool, image_bytes: int, side: int = 0) -> None:
        self.images = images
        self.image_bytes = image_bytes
        self.side = side

    def refusal(self, image: Image) -> str:
        """Why an image cannot be sent, or nothing."""
        if not self.images:
            return "this model takes no images"
        if not image.data:
            return "its bytes are kept elsewhere"
        if image.media_type not in IMAGE_TYPES:
            return "its type is not accepted"
        if len(image.data) * 3 // 4 > self.image_bytes:
            return f"larger than {self.image_bytes} bytes"
        return self._too_long(image)

    def _too_long(self, image: Image) -> str:
        size = size_of(image) if self.side else None
        if size is None or max(size) <= self.side:
            return ""
        return f"{size[0]} x {size[1]} pixels, at most {self.side} are taken"

    def show(self, part: Part) -> Image | str:
        """A part as it is sent: words, or an image that is allowed."""
        if isinstance(part, Text):
            return part.text
        if isinstance(part, File):
            return f"[file {part.name} ({part.media_type})]\n{part.text}"
        reason = self.refusal(part)
        return f"[image {part.media_type} left out: {reason}]" if reason else part


def pieces(first: str, parts: tuple[Part, ...], limits: Limits) -> Iterator[Image | str]:
    """Words and images in order, neighbouring words joined by line breaks, blank ones left out."""
    words = [first] if first else []
    for part in parts:
        shown = limits.show(part)
        if isinstance(shown, str):
            words.append(shown)
            continue
        yield from _joined(words)
        words = []
        yield shown
    yield from _joined(words)


def _joined(words: list[str]) -> Iterator[str]:
    text = "\n".join(words)
    if text.strip():
        yield text


def stamped(item: InputItem, limits: Limits) -> list[Image | str]:
    """What a person said, after the line that tells when."""
    return list(pieces(item.stamp, item.parts, limits))


def marked(item: InjectedItem, words: str) -> str:
    """An injected item as text that cannot be taken for a person's: quoted line by line."""
    quoted = "> " + _BREAK.sub(r"\g<0>> ", words)
    return f"[{INJECTED} {item.wrapped}]\n{item.heading}\n{quoted}"


def arguments_shown(call: Call) -> dict[str, Any]:
    """The object that a call's arguments are; text that is none is shown inside one."""
    value = arguments_of(call.arguments)
    return {"invalid_arguments": call.arguments} if value is None else value


def arguments_text(call: Call) -> str:
    """The same as JSON text: the model's own, letter by letter, where it is an object."""
    valid = call.arguments.strip() and arguments_of(call.arguments) is not None
    return call.arguments if valid else dumps(arguments_shown(call))


def wire_name(name: str) -> str:
    """A tool's name in the letters that every provider takes; a model may have made up any name."""
    return _FOREIGN.sub("_", name)[:_LONGEST_NAME] or "unknown"


def settings_of(request: Request, own: frozenset[str]) -> dict[str, Any]:
    """The agent's settings in a fixed order; ``own`` are the fields that they may not replace."""
    taken = own & request.settings.keys()
    if taken:
        told = f"agent settings may not contain {', '.join(sorted(taken))}: these are made here"
        raise ModelRefused(told, kind="setup")
    return {key: request.settings[key] for key in sorted(request.settings)}


def dumps(value: Any) -> str:
    """Compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def body_bytes(wire: dict[str, Any]) -> bytes:
    """A request's body as it leaves; a lone surrogate becomes a question mark."""
    return dumps(wire).encode("utf-8", "replace")
