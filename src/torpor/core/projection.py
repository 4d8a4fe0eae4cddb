"""History into requests: what the model sees. Pure, always valid, and only ever growing at the end.

The order follows from ``upto``: a turn answers all up to that position. So what is shown before a turn is
what its request covered, and what came later is shown after it. Between two turns stand, in this order: the
results of the first one's calls, all of them, in call order; then news and words as they came. A call whose
result is not there yet is shown as still running, and its result comes later as news. Items, once shown,
never change: a later request is the earlier one and more.

Two facts of a history alone change that: a summary takes the place of all up to a position that a turn has
answered, and a fold shows long results up to a position by their beginning. A child's projection begins with
that of its lineage, item by item the same as in the threads it comes from.
"""

from torpor.core.between import ASIDE, News, Settles, Told, call_of, is_hidden, is_short, set_aside
from torpor.core.items import Cut, Items, Long
from torpor.core.kinship import BELONGS, birth_shown, fork_shown, seed_shown, word_shown
from torpor.core.messages import (
    Born,
    Call,
    Detached,
    Folded,
    Happened,
    Message,
    Noted,
    Parked,
    Reported,
    Result,
    Said,
    Summary,
    Text,
    Turn,
)
from torpor.core.request import AnyItem, InputItem, NoticeItem, ResultsItem, ResultView, TurnItem
from torpor.core.showing import (
    event_shown,
    folded_shown,
    late_shown,
    result_shown,
    summary_shown,
    turn_shown,
    words_shown,
)
from torpor.core.thread import LEAVES_OPEN

GO_ON = "[Nothing new has come. Go on.]"
RUNNING = "Still running. Its result will come as an event."
ASKED = "It waits for a person. Its result will come as an event."
MISSING = "No result was recorded for this call."


class Projection:
    """A thread's history as items, folded message by message.

    What is shown is fixed: some model saw it. ``_later`` is what came after the last shown position.
    Positions are those of the thread entered last; what stands before is its lineage.
    """

    __slots__ = (
        "_ancestors",
        "_answered",
        "_batch",
        "_detached",
        "_folded",
        "_foreign",
        "_later",
        "_mark",
        "_names",
        "_next",
        "_shown",
        "_shows",
        "_summed",
        "position",
        "thread",
    )

    def __init__(self, thread: str = "") -> None:
        self.thread = thread
        self.position = 0
        self._shows = Items()
        self._answered = self._shown = self._folded = self._summed = 0
        self._later: list[tuple[int, News]] = []
        self._batch: tuple[Call, ...] = ()
        """The calls of the last shown turn, as long as their results have not been shown."""
        self._detached: dict[str, str] = {}
        self._names: dict[str, Call] = {}
        """Calls shown as still running or given up, for showing their results as news."""
        self._foreign = False
        """The calls of the last turn are those of the thread before."""
        self._next = ""
        """The thread whose history begins with the next message."""
        self._mark = ""
        """Follows positions in the ids of injected items, where a lineage has positions too."""
        self._ancestors: tuple[str, ...] = ()

    @property
    def items(self) -> list[AnyItem]:
        """All that is shown."""
        return self._shows.shown

    @property
    def digest(self) -> bytes:
        """Hash over all that is shown."""
        return self._shows.digest

    @property
    def size(self) -> int:
        """Bytes of all that is shown, about as it is sent; an image counts as a few thousand."""
        return self._shows.size

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Where a summary may end: the positions shown so far, each of which is a turn's ``upto``.

        After ``show``, the last is what the next turn will answer. What a summary covers is left out.
        """
        return tuple(self._shows.cuts)

    def saves(self, upto: int) -> int:
        """How many bytes ``Folded(upto)`` would save; all of the lineage counts as before ``upto``."""
        return self._shows.saves(upto)

    def fork(self) -> "Projection":
        """An independent copy; items are shared."""
        copy = Projection(self.thread)
        copy.position, copy._shows = self.position, self._shows.copy()
        copy._answered, copy._shown = self._answered, self._shown
        copy._folded, copy._summed = self._folded, self._summed
        copy._later = self._later.copy()
        copy._batch, copy._detached, copy._foreign = self._batch, self._detached, self._foreign
        copy._names = self._names.copy()
        copy._mark, copy._ancestors, copy._next = self._mark, self._ancestors, self._next
        return copy

    def enter(self, thread: str) -> None:
        """Go on with a thread whose lineage is what was added so far; its ``Born`` is added next."""
        self._next, self.position = thread, 0

    def fold(self, upto: int) -> None:
        """Show long results up to a position by their beginning; all of the lineage is before it."""
        if upto > self._folded:
            self._folded = upto
            self._shows.fold(upto)

    def _enter(self, thread: str, born: Born) -> None:
        """A child's call is answered by its seed; what the turn with it had not seen is left out."""
        self._foreign = True
        if born.purpose != "child" or born.call not in [call.id for call in self._batch]:
            self._show_news(self._later[-1][0] if self._later else 0)
        self._foreign = bool(self._batch)
        self.thread, self._mark, self._next = thread, f"-{thread}", ""
        self._answered = self._shown = self._folded = self._summed = 0
        self._later, self._names, self._detached = [], {}, {}
        self._shows.leave()
        if born.purpose == "root":
            self._shows.add(fork_shown(thread))

    def resume(self, summary: Summary, *, marked: bool) -> None:
        """Begin with a summary; what follows it is added next. ``marked``: it covers a lineage too."""
        self._mark = f"-{self.thread}" if marked else ""
        self.position = self._shown = self._summed = summary.upto
        self._answered = summary.upto - 1  # the turn that has answered all of it is still to come
        self._names = {call.id: call for call in summary.calls}
        self._shows.add(summary_shown(summary))

    def add(self, message: Message) -> None:
        """Fold in the next message."""
        self.position += 1
        match message:
            case Turn():
                self._turned(message)
            case Noted():
                self._noted(message)
            case Summary():
                self._summed_up(message)
            case _:
                if not is_hidden(message):
                    self._later.append((self.position, message))

    def show(self) -> None:
        """Fix everything that has come: it is what the next request ends with."""
        self._show(self.position)

    def _turned(self, turn: Turn) -> None:
        if turn.upto <= self._answered:
            return
        self._answered = turn.upto
        self._show(turn.upto)
        parts = turn_shown(turn.parts)
        if not parts:
            return
        self._batch = tuple([part for part in parts if isinstance(part, Call)])
        for call in self._batch:
            self._names[call.id] = call
        self._shows.add(TurnItem(parts))

    def _noted(self, message: Noted) -> None:
        note = message.note
        if isinstance(note, Detached):
            running, asked = dict.fromkeys(note.calls, RUNNING), dict.fromkeys(note.asked, ASKED)
            self._detached = self._detached | running | asked
        elif isinstance(note, Parked) and note.aside:
            self._later = [(position, set_aside(kept)) for position, kept in self._later]
        elif isinstance(note, Folded):
            self.fold(note.upto)
        elif isinstance(note, Born):
            if self._next:
                self._enter(self._next, note)
            self._ancestors = note.ancestors

    def _summed_up(self, summary: Summary) -> None:
        """Of two summaries the one that covers more counts."""
        if summary.upto > self._summed:
            self._summed = summary.upto
            self._shows.sum_up(summary_shown(summary), summary.upto)

    def _show(self, upto: int) -> None:
        items = self._shows.shown
        waiting = bool(items) and not isinstance(items[-1], TurnItem)
        if waiting and upto <= self._shown:
            return
        self._show_news(upto)
        if not items or isinstance(items[-1], TurnItem):
            self._shows.add(NoticeItem(GO_ON))
        self._shows.cut_here(upto, self._names.values())

    def _show_news(self, upto: int) -> None:
        self._shown = upto
        shown, self._later = self._later, []
        if shown and shown[-1][0] > upto:
            self._later = [(position, message) for position, message in shown if position > upto]
            shown = [(position, message) for position, message in shown if position <= upto]
        results = self._results(shown)
        if any(isinstance(message, Noted) for _, message in shown):
            self._shows.add(NoticeItem(ASIDE))
        for position, message in shown:
            if not isinstance(message, Noted) and results.get(call_of(message)) is not message:
                self._fix(self._item(position, message), (position, message))

    def _results(self, shown: list[tuple[int, News]]) -> dict[str, Settles]:
        """Fix the results of the last turn's calls; gives the messages that were used."""
        batch, self._batch = self._batch, ()
        if not batch:
            return {}
        ids = {call.id for call in batch}
        used: dict[str, tuple[int, Settles]] = {}
        for position, message in shown:
            id = call_of(message)
            if id in ids and isinstance(message, Settles):
                used.setdefault(id, (position, message))
        found = [used.get(call.id) for call in batch]
        views = [self._view(call, one and one[1]) for call, one in zip(batch, found, strict=True)]
        self._fix(ResultsItem(tuple(views)), *found)
        self._detached, self._foreign = {}, False
        return {id: message for id, (_, message) in used.items()}

    def _view(self, call: Call, settles: Settles | None) -> ResultView:
        if isinstance(settles, Result):
            self._forget(settles)
            return ResultView(call.id, call.name, result_shown(settles), settles.is_error)
        if isinstance(settles, Reported):
            return ResultView(call.id, call.name, seed_shown(settles, self.thread, self._ancestors))
        text = self._detached.get(call.id, BELONGS if self._foreign else MISSING)
        return ResultView(call.id, call.name, (Text(text),), is_error=text is MISSING)

    def _forget(self, result: Result) -> None:
        """No further result of this call can be shown."""
        if result.cause not in LEAVES_OPEN:
            self._names.pop(result.call, None)

    def _item(self, position: int, message: Told) -> AnyItem:
        id = f"news{position}{self._mark}"
        match message:
            case Said():
                return InputItem(message.at, words_shown(message.parts))
            case Result():
                call = self._names.get(message.call, Call(message.call, "unknown"))
                self._forget(message)
                return late_shown(id, message, call)
            case Happened():
                return event_shown(id, message)
            case Reported(what="born"):
                return birth_shown(message, self.thread, self._ancestors)
            case _:
                return word_shown(id, message)

    def _fix(self, item: AnyItem, *sources: tuple[int, Told] | None) -> None:
        """Show an item. ``sources``: the messages it is made of, one for each of its results."""
        self._shows.add(item)
        for view, source in enumerate(sources):
            if source is not None and not is_short(source[1]):
                self._fold(view, *source)
        if self._folded and any(source and source[0] <= self._folded for source in sources):
            self._shows.fold(self._folded)

    def _fold(self, view: int, position: int, message: Told) -> None:
        folded = folded_shown(message, f"{self.thread}.{position}")
        if folded:
            self._shows.long.append(Long(position, len(self._shows.shown) - 1, view, folded))
