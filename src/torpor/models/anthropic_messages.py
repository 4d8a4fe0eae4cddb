"""Items as messages of the Messages API, each item whole messages of its own."""

from collections.abc import Iterable
from typing import Any

from torpor.core.messages import Call, Image, Part, Reasoning, Text
from torpor.core.request import INJECTED, AnyItem, InjectedItem, InputItem, ResultsItem, TurnItem
from torpor.models.anthropic_stream import REDACTED, SIGNED
from torpor.models.rendering import NOTHING, Limits, arguments_shown, marked, pieces, stamped, wire_name

Block = dict[str, Any]


class Form:
    """How items are written: within these limits for images, and with news as marked text or as calls."""

    def __init__(self, limits: Limits, marks: bool) -> None:
        self._limits = limits
        self._marks = marks

    def messages(self, items: Iterable[AnyItem]) -> list[Block]:
        """All messages, in order."""
        return [message for item in items for message in self._item(item)]

    def _item(self, item: AnyItem) -> list[Block]:
        if isinstance(item, InputItem):
            return [_message("user", _blocks(stamped(item, self._limits)))]
        if isinstance(item, TurnItem):
            blocks = turn_blocks(item)
            return [_message("assistant", blocks)] if blocks else []
        if isinstance(item, ResultsItem):
            results = [self._result(r.call, "", r.parts, r.is_error) for r in item.results]
            return [_message("user", results)]
        if isinstance(item, InjectedItem):
            return self._marked(item) if self._marks else self._pair(item)
        return [_message("user", [_text(item.text)])]

    def _pair(self, item: InjectedItem) -> list[Block]:
        call = _call(Call(id=item.id, name=INJECTED, arguments=item.wrapped))
        result = self._result(item.id, item.heading, item.parts, is_error=False)
        return [_message("assistant", [call]), _message("user", [result])]

    def _marked(self, item: InjectedItem) -> list[Block]:
        """As text: with thinking on, a call that the model did not make may be refused."""
        shown = list(pieces("", item.parts, self._limits))
        words = "\n".join(piece for piece in shown if isinstance(piece, str)) or NOTHING
        images: list[Image | str] = [piece for piece in shown if isinstance(piece, Image)]
        return [_message("user", _blocks([marked(item, words), *images]))]

    def _result(self, call: str, first: str, parts: tuple[Part, ...], is_error: bool) -> Block:
        shown = list(pieces(first, parts, self._limits))
        block: Block = {"type": "tool_result", "tool_use_id": call, "content": _blocks(shown or [NOTHING])}
        if is_error:
            block["is_error"] = True
        return block


def turn_blocks(item: TurnItem) -> list[Block]:
    """A turn's blocks in its own order. It never ends in thinking."""
    blocks = [block for part in item.parts if (block := _part(part)) is not None]
    while blocks and "thinking" in blocks[-1]["type"]:
        blocks.pop()
    return blocks


def _part(part: Text | Reasoning | Call) -> Block | None:
    if isinstance(part, Text):
        return _text(part.text) if part.text.strip() else None
    if isinstance(part, Call):
        return _call(part)
    if not part.opaque:
        return None
    if part.origin == SIGNED:
        return {"type": "thinking", "thinking": part.text, "signature": part.opaque}
    return {"type": "redacted_thinking", "data": part.opaque} if part.origin == REDACTED else None


def _call(call: Call) -> Block:
    return {"type": "tool_use", "id": call.id, "name": wire_name(call.name), "input": arguments_shown(call)}


def _blocks(shown: list[Image | str]) -> list[Block]:
    return [_text(piece) if isinstance(piece, str) else _image(piece) for piece in shown]


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _image(image: Image) -> Block:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _message(role: str, content: list[Block]) -> Block:
    return {"role": role, "content": content}
