"""How a conversation is shown: every kind of message in words, times, waits, and nothing that steers."""

import io
import re

import msgspec
from rich.console import Console
from rich.text import Text as Line

from tests.web.messages import AT, SAMPLES
from torpor.cli.conversation import Conversation
from torpor.core.messages import By, Message, Result, Text
from torpor.core.record import SliceRecord, WaitSettled
from torpor.ports import Row
from torpor.runtime.explain import Explanation, Waiting
from torpor.runtime.replies import Entry
from torpor.web.shapes import Found, Received, view

WAITED = WaitSettled("c1-0", "call", AT + 3, AT + 65, "result", released=True)
RECORD = SliceRecord("t1", 1, settled=(WAITED,))


def found() -> Found:
    explanation = Explanation("t1", "adder", "open", "", False, 2, (), "The thread waits for add (for 5 s).")
    row = Row(thread="t1", agent="adder", owner="ann", title="add these\x1b[2J", state="open")
    words = Received("said/9", AT, "are you\x07 there?", "steer", By("person", "ann", "token"))
    return view(row, Found, explanation=explanation, received=[words])


def lines(messages: tuple[Message, ...], *, full: bool = False) -> list[Line]:
    conversation = Conversation(found(), [RECORD], full=full)
    shown = list(conversation.heading())
    for position, message in enumerate(messages, 1):
        shown += conversation.entry(Entry(position, message))
    return shown + list(conversation.ending())


def text_of(messages: tuple[Message, ...], *, full: bool = False) -> str:
    return "\n".join(line.plain for line in lines(messages, full=full))


def test_every_kind_is_told_in_words() -> None:
    text = text_of(SAMPLES)
    for words in (
        "thread t1  adder · open · realtime · of ann",
        "about  add these␛[2J",
        "── Sunday, 2026-11-29 UTC ──",
        "── Monday, 2026-11-30 UTC ──",
        "16:33:20  · began as adder",
        "· uses the tools of http://tools",
        "· goes on without the tools of http://tools: it does not answer",
        "person ann, by token (interrupt)",
        "add ␛[31m these",
        "[image, image/png]",
        "[file a.txt, text/plain]",
        "adder  1.5 s, scripted:x, 15 (5 cached) in, 8 out",
        '→ add(a=1, b="\\u001b[2J")',
        "→ watch(not json)",
        "← add (tool http://tools, by callback)  after 1 min 2 s",
        "← watch (unknown)  after 1 min 3 s, and goes on with events",
        "(the whole text has 9000 characters)",
        "↯ watch (event of tool http://tools, by callback, the last)",
        "· person bob queued, for the end of the exchange: later",
        "· no longer waits for watch (a person spoke)",
        "· set aside: It cost too much. Say something, or `torpor nudge t1`.",
        "· goes on (nudge)",
        "· stopped: enough",
        "· closed for good",
        "· no more events of watch (it was the last event)",
        "· a late result of add, kept and not shown to the model",
        "· sent, now that there was room: add",
        '· began as adder, a child of t0: "Depot"; it continues t0 up to 7',
        "⇐ begun by t0 (thread t2, by store)",
        "look it up",
        '· begins the child t2: "Look"',
        "· begins t3, a temporary thread for events (2 of watch)",
        "⇐ report of child t2 (thread t2, by store)",
        "↯ watch (event of tool http://tools, by callback, for a thread of its own)",
        "· asks a person for approval of add (t1.c1-0.approval, until 2026-11-29 16:34:59): May it?",
        '· approval of add approved (person ann, by token): "go on"',
        "· its parent was told: report",
        "· belongs to t0 now",
        "· t9 continues this history from 12 on",
        '· is about "Sums"',
        "· shows long results up to 9 by their beginning",
        "· t4 writes a summary of all up to 17",
        "≡ summary of all up to 17 (thread t2, by store, in place of 900 tokens)",
        "They added.",
        "Title: Sums",
        "· t5 wrote no summary: It came to its end without a word.",
        "cut short",
        "waited 1 min 2 s for add; its model worked 1.5 s",
        "now    The thread waits for add (for 5 s).",
        "16:33:20  person ann, by token  received, not read yet\n          are you␇ there?",
    ):
        assert words in text


def test_a_terminal_is_sent_colours_and_nothing_else_that_steers() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system="truecolor", markup=False, width=100)
    for line in lines(SAMPLES):
        console.print(line, soft_wrap=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", plain)


def test_long_results_are_cut_unless_all_is_asked_for() -> None:
    tall = Result(AT, "c", (Text("\n".join(f"line {i}" for i in range(100))),))
    wide = Result(AT, "c", (Text("x" * 5_000),))
    assert "line 15" in text_of((tall,))
    assert "line 16" not in text_of((tall,))
    assert "characters more (--full shows all)" in text_of((tall,))
    assert "… 3000 characters more" in text_of((wide,))
    assert "line 99" in text_of((tall,), full=True)
    assert "x" * 5_000 in text_of((wide,), full=True)


def test_a_thread_that_did_nothing_yet() -> None:
    waits = found().explanation
    still = msgspec.structs.replace(waits, waits=(Waiting("c", "call", "add", AT),))
    waiting = msgspec.structs.replace(found(), explanation=still)
    ending = [line.plain for line in Conversation(waiting).ending()]
    assert "waited for nothing that has ended yet; its model worked 0.0 s" in ending
    ending = [line.plain for line in Conversation(found()).ending()]
    assert "waited for nothing yet; its model worked 0.0 s" in ending
