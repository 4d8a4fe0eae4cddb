"""One message of every kind, with every field that could be confused with another."""

from torpor.core.messages import (
    Born,
    By,
    Call,
    Closed,
    Detached,
    Equipped,
    File,
    Happened,
    Image,
    Late,
    Message,
    Noted,
    Parked,
    Queued,
    Reasoning,
    Result,
    Resumed,
    Said,
    Segment,
    Sent,
    Stopped,
    Text,
    Turn,
    Unsubscribed,
    Usage,
)

AT = 1_795_970_000.0
TOOL = By("tool", "http://tools", "callback", "k1", "abc")

SAMPLES: tuple[Message, ...] = (
    Noted(AT, Born("adder")),
    Noted(AT, Equipped("http://tools", "hash")),
    Noted(AT, Equipped("http://tools", "", "it does not answer")),
    Said(
        AT + 1,
        (Text("add \x1b[31m these"), Image("aGk=", "image/png"), File("a.txt", text="abc")),
        "said/1",
        By("person", "ann", "token"),
        "interrupt",
    ),
    Turn(
        AT + 3, 4, 0,
        (Reasoning("hm", "sig", "scripted"), Text("Let me see."),
         Call("c1-0", "add", '{"a": 1, "b": "\\u001b[2J"}'), Call("c1-1", "watch", "not json", invalid=True)),
        "scripted:x", "standard", ("r1",), Usage(10, 5, 0, 7, 1), 1.5, "calls",
    ),
    Result(
        AT + 65, "c1-0", (Text("3"),), display=(Segment("text", '{"type": "x", "k": 1}'),), by=TOOL,
        signal="c1-0/result",
    ),
    Result(
        AT + 66, "c1-1", (Text("no"),), is_error=True, cause="unknown", subscription=True,
        handle="h", size=9_000,
    ),
    Happened(AT + 67, "c1-1", "watch", "{}", (Text("changed"),), by=TOOL, final=True, event_id="e1", seq=4),
    Noted(AT + 68, Queued((Text("later"),), "said/2", By("person", "bob"))),
    Noted(AT + 68, Detached(("c1-1",), "a person spoke")),
    Noted(AT + 69, Parked("It cost too much.", "limit", aside=True)),
    Noted(AT + 70, Resumed("nudge")),
    Noted(AT + 71, Stopped("enough")),
    Noted(AT + 72, Closed()),
    Noted(AT + 73, Unsubscribed("c1-1", "it was the last event")),
    Noted(AT + 74, Late("c1-0", (Text("too late"),), is_error=True)),
    Noted(AT + 75, Sent(("c1-0",))),
    Turn(AT + 86_500, 17, 1, (Text("It is 3."),), end=True, cut=True),
)  # fmt: skip
