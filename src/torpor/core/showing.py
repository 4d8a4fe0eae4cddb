"""How single messages look to a model: nothing blank, nothing a provider refuses, bounded, never changing."""

from typing import TypeGuard

from torpor.core.messages import (
    By,
    Call,
    File,
    Happened,
    Image,
    Message,
    Part,
    Reported,
    Result,
    Summary,
    Text,
    TurnPart,
)
from torpor.core.request import InjectedItem, SummaryItem
from torpor.core.thread import shortened

EMPTY = "(empty result)"
BLANK = "(no text)"

ARGUMENTS_SHOWN = 100_000
"""Characters of a call's arguments that are sent back to the model."""

INSTANT_SHOWN = 64
"""Characters of what a source says about when something happened."""

LONG = 2_000
"""Characters above which a result is folded."""

PREVIEW = 600
"""Characters that are still shown of a folded one."""

FOLDS = frozenset({"report", "ended", "closed"})
"""Kinds of another thread's words that are folded."""


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
    return (*shown, _more(source.size, source.handle)) if source.handle else shown


def _more(size: int, handle: str) -> Text:
    return Text(
        f"[This is only the beginning: the whole text has {size} characters. "
        f'Call read_result with handle "{handle}" for the rest.]'
    )


def folded_shown(source: Message, handle: str) -> tuple[Part, ...]:
    """What is left of a long result once it is folded; nothing for one that stays as it is.

    ``handle`` names the message that holds it; the whole text may be kept in a blob besides.
    """
    if not _is_foldable(source):
        return ()
    images = [part for part in source.parts if isinstance(part, Image)]
    whole = whole_text(source.parts)
    if len(whole) <= LONG and not images:
        return ()
    shown: list[Part] = [Text(whole[:PREVIEW])] if whole.strip() else []
    shown += [Text(f"[image {image.media_type}: not shown any more]") for image in images]
    kept, size = ("", 0) if isinstance(source, Reported) else (source.handle, source.size)
    more = (_more(size or len(whole), kept or handle),) if len(whole) > PREVIEW or kept else ()
    return (*_clean(tuple(shown)), *more)


def _is_foldable(source: Message) -> TypeGuard[Result | Happened | Reported]:
    if isinstance(source, Reported):
        return source.what in FOLDS
    return isinstance(source, Result | Happened)


def whole_text(parts: tuple[Part, ...]) -> str:
    """All words of a message: its texts, and what files hold."""
    return "\n".join([_words(part) for part in parts if not isinstance(part, Image)])


def _words(part: Text | File) -> str:
    return part.text if isinstance(part, Text) else f"[file {part.name} ({part.media_type})]\n{part.text}"


def summary_shown(summary: Summary) -> SummaryItem:
    """A summary, with what the runtime knows besides."""
    return SummaryItem(summary.at, _safe(summary.text), _safe(summary.facts))


def late_shown(id: str, result: Result, call: Call) -> InjectedItem:
    """The result of a call that was shown as still running or given up."""
    notes = ("The call failed.",) if result.is_error else ()
    return InjectedItem(
        id=id,
        name=call.name,
        call=call.id,
        arguments=shortened(call.arguments),
        parts=result_shown(result),
        at=result.at,
        source="result",
        notes=("This is the result of the earlier call.", *notes, *_verified(result.by)),
    )


def event_shown(id: str, event: Happened) -> InjectedItem:
    """An event of a subscription."""
    notes = [*_verified(event.by)]
    if event.occurred_at:
        notes.append(f"It happened at {_safe(event.occurred_at[:INSTANT_SHOWN])}.")
    if event.gap:
        notes.append(f"{event.gap} earlier events of this source did not arrive.")
    if event.final:
        notes.append("This was the last event of the subscription.")
    return InjectedItem(
        id=id,
        name=event.name,
        call=event.call,
        arguments=event.arguments,
        parts=result_shown(event),
        at=event.at,
        notes=tuple(notes),
    )


def _verified(by: By) -> tuple[str, ...]:
    """How its source was verified, where that is more, or less, than a call's own callback."""
    if by.verified == "signature":
        return ("Its source is verified by signature.",)
    return ("Its source is not verified.",) if by.kind == "tool" and not by.verified else ()


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
