"""How single messages look to a model: nothing blank, nothing a provider refuses, bounded, never changing."""

from torpor.core.messages import Call, File, Happened, Part, Result, Text, TurnPart
from torpor.core.request import InjectedItem
from torpor.core.thread import shortened

EMPTY = "(empty result)"
BLANK = "(no text)"

ARGUMENTS_SHOWN = 100_000
"""Characters of a call's arguments that are sent back to the model."""

INSTANT_SHOWN = 64
"""Characters of what a source says about when something happened."""


def turn_shown(parts: tuple[TurnPart, ...]) -> tuple[TurnPart, ...]:
    """The parts of a turn that a provider accepts back: no blank text, no reasoning at its end."""
    kept = [_call_shown(part) for part in parts if not isinstance(part, Text) or part.text.strip()]
    while kept and not isinstance(kept[-1], Text | Call):
        kept.pop()
    return tuple(kept)


def _call_shown(part: TurnPart) -> TurnPart:
    if not isinstance(part, Call):
        return _plain(part) if isinstance(part, Text) else part
    arguments = shortened(part.arguments, part.invalid, ARGUMENTS_SHOWN)
    return Call(part.id, part.name, arguments, part.provider_id, part.index, opaque=part.opaque)


def words_shown(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """What a person said."""
    return _clean(parts) or (Text(BLANK),)


def result_shown(source: Result | Happened) -> tuple[Part, ...]:
    """What a tool gave; where more of it is kept outside, with the way to get it."""
    shown = _clean(source.parts) or (Text(EMPTY),)
    if not source.handle:
        return shown
    told = (
        f"[This is only the beginning: the whole text has {source.size} characters. "
        f'Call read_result with handle "{source.handle}" for the rest.]'
    )
    return (*shown, Text(told))


def late_shown(position: int, result: Result, call: Call) -> InjectedItem:
    """The result of a call that was shown as still running or given up."""
    notes = ("The call failed.",) if result.is_error else ()
    return InjectedItem(
        id=f"news{position}",
        name=call.name,
        call=call.id,
        arguments=shortened(call.arguments),
        parts=result_shown(result),
        at=result.at,
        source="result",
        notes=("This is the result of the earlier call.", *notes),
    )


def event_shown(position: int, event: Happened) -> InjectedItem:
    """An event of a subscription."""
    notes = []
    if event.occurred_at:
        notes.append(f"It happened at {_safe(event.occurred_at[:INSTANT_SHOWN])}.")
    if event.gap:
        notes.append(f"{event.gap} earlier events of this source did not arrive.")
    if event.final:
        notes.append("This was the last event of the subscription.")
    return InjectedItem(
        id=f"news{position}",
        name=event.name,
        call=event.call,
        arguments=event.arguments,
        parts=result_shown(event),
        at=event.at,
        notes=tuple(notes),
    )


def _clean(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple([_harmless(part) for part in parts if not isinstance(part, Text) or part.text.strip()])


def _harmless(part: Part) -> Part:
    if isinstance(part, Text):
        return _plain(part)
    if isinstance(part, File):
        return File(_safe(part.name), part.media_type, part.data, _safe(part.text))
    return part


def _plain(text: Text) -> Text:
    return Text(_safe(text.text)) if "\0" in text.text else text


def _safe(text: str) -> str:
    """Text without NUL, which some providers refuse; it is stored as it came."""
    return text.replace("\0", "\ufffd")
