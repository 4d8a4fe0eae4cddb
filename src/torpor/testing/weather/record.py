"""What the outside world saw and sent in one run, independently of what any store says."""

from collections import defaultdict
from typing import Any

import msgspec

from torpor.core.effects import Effect, Post, Spawn
from torpor.core.signals import AnySignal


class Words(msgspec.Struct):
    """What a person said, under one key, however often it was sent."""

    key: str
    thread: str
    text: str
    mode: str
    signal: str = ""
    """The id that a receipt told; empty: nobody knows whether it was taken."""
    begun: float = 0.0
    taken: float = 0.0
    """When it was first sent, and when the receipt came."""


class Answer(msgspec.Struct):
    """One stream of the model: what it said of which completion, and whether all of it was sent."""

    thread: str
    ordinal: int
    mark: str
    """Words that are in no other answer."""
    text: str
    calls: list[tuple[str, str]]
    whole: bool = False


class Sending(msgspec.Struct):
    """One try of a process to hand over an invocation."""

    call: str
    thread: str
    name: str
    arguments: str
    server: str
    outcome: str = "unfinished"


class Callback(msgspec.Struct):
    """What a tool server sent and was told that it was taken."""

    call: str
    thread: str
    kind: str
    words: str
    event: str = ""
    statuses: list[int] = []


class Ran(msgspec.Struct):
    """One start of a function in a process."""

    key: str
    name: str
    arguments: str
    ended: bool = False
    words: str = ""


class Chosen(msgspec.Struct):
    """A person's answer to a wait."""

    wait: str
    value: Any
    outcome: str = ""
    """What was said to it; empty: nobody knows whether it was taken."""


class Record:
    """All of it."""

    def __init__(self) -> None:
        self.words: dict[str, Words] = {}
        self.started: dict[str, str] = {}
        """Root threads that people know to be there, by the key of their start."""
        self.answers: dict[str, Answer] = {}
        self.sendings: dict[str, list[Sending]] = defaultdict(list)
        self.received: dict[str, list[tuple[str, str]]] = defaultdict(list)
        """Name and arguments of invocations that reached a server, by call."""
        self.callbacks: dict[tuple[str, str, str], Callback] = {}
        self.ran: dict[str, list[Ran]] = defaultdict(list)
        self.paid: dict[str, int] = defaultdict(int)
        """How often something was done under an idempotency key."""
        self.chosen: dict[str, list[Chosen]] = defaultdict(list)
        self.told: dict[str, list[tuple[str, str]]] = defaultdict(list)
        """Choices that servers were told, by call: the question and what was chosen."""
        self.commands: dict[str, set[str]] = defaultdict(set)
        """What people asked for beside words, by thread."""
        self.decided: set[str] = set()
        """Effects that were committed, by thread and id."""
        self.posts: set[tuple[str, str]] = set()
        """Signals from thread to thread that were committed, by thread and id."""
        self.forks: dict[str, tuple[str, int | None]] = {}
        self.moved: set[str] = set()
        self.deleted: set[str] = set()
        self.wrong: list[str] = []
        """What was seen at once that must never be."""

    def commit(self, thread: str, effects: "tuple[Effect, ...]") -> None:
        """Effects of a thread are decided from here on."""
        for effect in effects:
            self.decided.add(f"{thread}/{effect.id}")
            if isinstance(effect, Post):
                self.posts.add((effect.signal.thread, effect.signal.id))
            elif isinstance(effect, Spawn):
                self.posts.add((effect.born.thread, effect.born.id))

    def must(self, holds: bool, what: str) -> None:
        """Note what must never be."""
        if not holds:
            self.wrong.append(what)

    def posted(self, signal: "AnySignal") -> None:
        """A process posts to another thread: that was committed before."""
        if type(signal).__name__ in ("ReportedSignal", "BornSignal") and signal.by.kind == "thread":
            known = (signal.thread, signal.id) in self.posts
            self.must(known, f"{signal.id} was posted to {signal.thread} before it was committed")
