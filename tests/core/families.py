"""A whole family of threads played by the core alone: births and posts are carried from one to the other."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.core.playing import THREAD, Birth, Played, call
from torpor.core.effects import Post, Spawn
from torpor.core.messages import By, Happened, Reported, Text, text_of
from torpor.core.prompt import Projection
from torpor.core.signals import AnySignal, BornSignal, Told
from torpor.core.turn import RawCall, RawPart


class Family:
    """Threads by id, and what is on its way between them. Each keeps its order, as posts do."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.root = Played(**fields)
        self.kin: dict[str, Played] = {THREAD: self.root}
        self.inbox: dict[str, list[AnySignal]] = {THREAD: []}
        self._sent: dict[str, int] = {}

    def carry(self) -> None:
        """Perform all births and posts that have been decided."""
        for id in list(self.kin):
            thread = self.kin[id]
            for effect in thread.effects[self._sent.get(id, 0) :]:
                if isinstance(effect, Spawn):
                    self._bear(thread, effect)
                elif isinstance(effect, Post):
                    self._post(thread, effect)
            self._sent[id] = len(thread.effects)

    def _bear(self, parent: Played, effect: Spawn) -> None:
        born = effect.born
        events = [parent.messages[position - 1] for position in effect.events]
        born = msgspec.structs.replace(born, events=tuple(e for e in events if isinstance(e, Happened)))
        assert len(born.events) == len(effect.events)
        birth = Birth(born, self._ancestry(born), parent.now)
        child = Played(birth=birth, **self.fields)
        child.definition = parent.definition
        assert born.thread not in self.kin
        self.kin[born.thread], self.inbox[born.thread] = child, []

    def _ancestry(self, born: BornSignal) -> Projection:
        shown = Projection(born.thread)
        for place, link in enumerate(born.lineage):
            if place:
                shown.enter(link.thread)
            for message in self.kin[link.thread].messages[: link.upto]:
                shown.add(message)
        if born.lineage:
            shown.enter(born.thread)
        return shown

    def _post(self, sender: Played, effect: Post) -> None:
        to = effect.signal.thread
        if to in self.kin:
            self.inbox[to].append(effect.signal)
        elif effect.back:
            id = f"{effect.id}/undelivered"
            lost = Told(sender.thread, id, sender.now, By("runtime"), sender=to, what="undelivered")
            self.inbox[sender.thread].append(lost)

    def absorb(self, id: str, *signals: AnySignal) -> None:
        """One slice of a thread: what is on its way to it, and more."""
        self.carry()
        batch, self.inbox[id] = [*self.inbox[id], *signals], []
        self.kin[id].now = max(thread.now for thread in self.kin.values())
        if batch:
            self.kin[id].absorb(*batch)
        self.carry()

    def settle(self) -> None:
        """Deliver all that is on its way, and what comes of it."""
        self.carry()
        while any(self.inbox.values()):
            for id in list(self.kin):
                self.absorb(id)

    def reply(self, id: str, *raw: RawPart | str, **how: Any) -> list[str]:
        """A thread's model answers; all that follows is delivered."""
        calls = self.kin[id].reply(*raw, **how)
        self.settle()
        return calls

    def spawn(self, parent: str = THREAD, text: str = "Do it.", **more: Any) -> str:
        """A thread that is asked makes a child; gives the child's id."""
        before = set(self.kin)
        self.reply(parent, self.spawning(parent, text, **more))
        [child] = set(self.kin) - before
        return child

    def spawning(self, parent: str, text: str = "Do it.", **more: Any) -> RawCall:
        """The call by which a model makes a child."""
        return tool_call("spawn_thread", instructions=text, child_of=self.stack(parent), **more)

    def stack(self, id: str) -> list[str]:
        """The threads from the root to one of them, as its model knows them."""
        return ["root", *self.kin[id].head.ancestors[1:], id] if id != THREAD else ["root"]

    def words(self, id: str, what: str = "") -> list[str]:
        """What other threads have said to a thread, of one kind or all, as text."""
        said = [word for word in self.kin[id].messages if isinstance(word, Reported)]
        return [text_of(word.parts) for word in said if what in ("", word.what)]


def tool_call(name: str, **arguments: Any) -> RawCall:
    """A call of a tool with these arguments."""
    return call(name, msgspec.json.encode(arguments).decode())


def begun(**fields: Any) -> Family:
    """A family whose root has been asked something."""
    family = Family(**fields)
    family.absorb(THREAD, family.root.text("Begin."))
    return family


def texts(parts: Sequence[Any]) -> str:
    """The text of all parts."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))
