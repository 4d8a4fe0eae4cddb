"""A thread's history as people read it: when, who, what, and how long it waited for what."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec
from rich.text import Text

from torpor.cli.facts import fact, source, word
from torpor.cli.screen import duration, line
from torpor.cli.visible import one_line, visible
from torpor.core.messages import (
    Call,
    File,
    Happened,
    Image,
    Noted,
    Reasoning,
    Reported,
    Requested,
    Result,
    Said,
    Summary,
    Turn,
    Usage,
)
from torpor.core.record import SliceRecord, WaitSettled
from torpor.runtime.replies import Entry
from torpor.web.shapes import Found

LINES = 16
CHARACTERS = 2_000
INDENT = " " * 10


class Conversation:
    """Renders one thread, entry by entry, in order. ``full``: results are not cut."""

    def __init__(self, found: Found, records: Iterable[SliceRecord] = (), *, full: bool = False) -> None:
        self._found = found
        self._full = full
        self._calls: dict[str, tuple[str, float]] = {}
        self._day = ""
        self._ended = 0.0
        self._model = 0.0
        self._people = 0.0
        self._settled: dict[str, WaitSettled] = {
            wait.id: wait for record in records for wait in record.settled
        }

    def heading(self) -> Iterator[Text]:
        """What the thread is."""
        found = self._found
        yield line(
            ("thread ", "dim"), (found.id, "bold"), f"  {found.agent} · {found.state} · {found.tier}",
            f" · of {found.owner}" if found.owner else "",
        )  # fmt: skip
        if found.title:
            yield line(("about  ", "dim"), one_line(found.title))
        if found.parent:
            yield line(("below  ", "dim"), " / ".join(found.ancestors) or found.parent, f" ({found.purpose})")

    def entry(self, entry: Entry) -> Iterator[Text]:
        """The lines of one message."""
        message = entry.message
        yield from self._date(message.at)
        match message:
            case Said():
                yield from self._said(message)
            case Turn():
                yield from self._turn(message)
            case Result():
                yield from self._result(message)
            case Happened():
                yield from self._happened(message)
            case Reported():
                yield from self._reported(message)
            case Summary():
                yield from self._summary(message)
            case Noted():
                told = fact(message.note, self._found.id, self._names)
                yield line((clock(message.at), "dim"), "  ", (f"· {told}", "dim italic"))
                if isinstance(message.note, Requested):
                    wait = message.note.wait
                    self._calls[wait.id] = (f"{wait.kind} of {wait.name}", message.at)

    def ending(self) -> Iterator[Text]:
        """How long it waited for what, and what it waits for now."""
        yield Text()
        for words in self._found.received:
            yield line(
                (clock(words.at), "dim"),
                "  ",
                (source(words.by), "cyan"),
                ("  received, not read yet", "dim"),
            )
            yield from self._body(words.text)
        yield line(("waited ", "dim"), self._waited())
        yield line(("now    ", "dim"), self._found.explanation.text)

    def _date(self, at: float) -> Iterator[Text]:
        day = f"{datetime.fromtimestamp(at, UTC):%A, %Y-%m-%d} UTC"
        if day != self._day:
            self._day = day
            yield line((f"── {day} ──", "dim"))

    def _said(self, said: Said) -> Iterator[Text]:
        if self._ended:
            self._people += max(0.0, said.at - self._ended)
            self._ended = 0.0
        mode = f" ({said.mode})" if said.mode != "steer" else ""
        yield line((clock(said.at), "dim"), "  ", (source(said.by), "bold cyan"), mode)
        yield from self._body(parts_text(said.parts), bounded=False)

    def _turn(self, turn: Turn) -> Iterator[Text]:
        self._model += turn.seconds
        self._ended = turn.at if turn.end else 0.0
        facts = [duration(turn.seconds), turn.model, _usage(turn.usage), "cut short" if turn.cut else ""]
        told = ", ".join(fact for fact in facts if fact)
        yield line((clock(turn.at), "dim"), "  ", (self._found.agent, "bold green"), (f"  {told}", "dim"))
        for part in turn.parts:
            match part:
                case Reasoning():
                    yield from self._body(part.text, style="dim italic")
                case Call():
                    self._calls[part.id] = (part.name, turn.at)
                    yield line(INDENT, ("→ ", "yellow"), (part.name, "yellow"), _arguments(part))
                case _:
                    yield from self._body(part.text, bounded=False)

    def _result(self, result: Result) -> Iterator[Text]:
        name, since = self._calls.get(result.call, (result.call, result.at))
        wait = self._settled.get(result.call)
        took = wait.settled_at - wait.opened_at if wait else result.at - since
        style = "bold red" if result.is_error else "bold yellow"
        cause = f" ({result.cause})" if result.cause else f" ({source(result.by)})"
        opens = ", and goes on with events" if result.subscription else ""
        yield line(
            (clock(result.at), "dim"), "  ", ("← ", style), (name, style), cause,
            (f"  after {duration(took)}{opens}", "dim"),
        )  # fmt: skip
        yield from self._body(parts_text(result.parts), style="red" if result.is_error else "")
        if result.handle:
            yield line(INDENT, (f"(the whole text has {result.size} characters)", "dim"))

    def _happened(self, event: Happened) -> Iterator[Text]:
        final = (", for a thread of its own" if event.threaded else "") + (
            ", the last" if event.final else ""
        )
        yield line(
            (clock(event.at), "dim"), "  ", ("↯ ", "magenta"), (event.name, "bold magenta"),
            f" (event of {source(event.by)}{final})",
        )  # fmt: skip
        yield from self._body(parts_text(event.parts))

    def _body(self, text: str, *, bounded: bool = True, style: str = "") -> Iterator[Text]:
        whole = visible(text).rstrip()
        lines = whole.split("\n") if whole else []
        if bounded and not self._full:
            lines = _bounded(lines)
        for one in lines:
            yield Text(INDENT + one, style=style)

    def _names(self, calls: Iterable[str]) -> str:
        return ", ".join(self._calls.get(id, (id, 0.0))[0] for id in calls)

    def _reported(self, word_: Reported) -> Iterator[Text]:
        shown = "bold blue" if word_.owes else "dim"
        yield line(
            (clock(word_.at), "dim"), "  ", ("⇐ ", "blue"), (word(word_), shown), f" ({source(word_.by)})"
        )
        yield from self._body(parts_text(word_.parts))

    def _summary(self, summary: Summary) -> Iterator[Text]:
        tokens = f", in place of {summary.before} tokens" if summary.before else ""
        yield line(
            (clock(summary.at), "dim"), "  ", ("≡ ", "blue"),
            (f"summary of all up to {summary.upto}", "bold blue"), f" ({source(summary.by)}{tokens})",
        )  # fmt: skip
        yield from self._body(summary.text)
        yield from self._body(summary.facts, style="dim")

    def _waited(self) -> str:
        sums: dict[str, float] = {}
        for wait in self._settled.values():
            name = self._calls.get(wait.id, (wait.kind, 0.0))[0]
            sums[name] = sums.get(name, 0.0) + max(0.0, wait.settled_at - wait.opened_at)
        if self._people:
            sums["people"] = self._people
        words = [f"{duration(seconds)} for {name}" for name, seconds in sorted(sums.items(), key=_longest)]
        nothing = "for nothing that has ended yet" if self._found.explanation.waits else "for nothing yet"
        told = ", ".join(words) or nothing
        return f"{told}; its model worked {duration(self._model)}"


def clock(at: float) -> str:
    """The time of day, UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def parts_text(parts: Iterable[object]) -> str:
    """The words of parts; of images and files, that they are there."""
    words = []
    for part in parts:
        match part:
            case Image():
                words.append(f"[image, {part.media_type}]")
            case File():
                words.append(f"[file {part.name}, {part.media_type}]")
            case _:
                words.append(str(getattr(part, "text", "")))
    return "\n".join(words)


def _bounded(lines: list[str]) -> list[str]:
    kept, room = [], CHARACTERS
    for one in lines[:LINES]:
        kept.append(one[:room])
        room -= len(kept[-1])
        if room <= 0:
            break
    left = sum(map(len, lines)) - sum(map(len, kept))
    return [*kept, f"… {left} characters more (--full shows all)"] if left or len(kept) < len(lines) else kept


def _arguments(call: Call) -> str:
    try:
        fields = json.loads(call.arguments)
        told = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    except (ValueError, AttributeError, RecursionError):
        told = call.arguments
    return f"({one_line(told)})"


def _usage(usage: Usage | None) -> str:
    if usage is None or not usage.total:
        return ""
    read = usage.input + usage.cache_read + usage.cache_write
    cached = f" ({usage.cache_read} cached)" if usage.cache_read else ""
    return f"{read}{cached} in, {usage.output + usage.reasoning} out"


def _longest(entry: tuple[str, float]) -> float:
    return -entry[1]


def as_entries(entries: Iterable[Entry]) -> list[dict[str, object]]:
    """Entries for ``--json``."""
    from torpor.web.shapes import shown

    return [msgspec.to_builtins(shown(entry)) for entry in entries]
