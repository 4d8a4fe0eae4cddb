"""What a case expects, said to the machine: each key is one kind of check."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.cases.lines import in_order, item_lines, like, lines
from tests.cases.stage import calls_of
from torpor.core.codec import decode_head
from torpor.core.messages import Message, Reported, Result, Said, Turn, text_of
from torpor.core.request import ResultsItem, TurnItem, item_text

if TYPE_CHECKING:
    from tests.cases.steps import Play


async def check(play: "Play", told: dict[str, Any], part: str = "") -> None:
    """All checks of a case, or of one of its steps; ``part``: of which thread."""
    for kind, expected in told.items():
        found = await Found.of(play, part)
        await getattr(found, f"is_{kind}")(expected)


class Found:
    """What there is to look at, of one thread."""

    def __init__(self, play: "Play", thread: str, part: str) -> None:
        self.play = play
        self.stage = play.stage
        self.thread = thread
        self.part = part or "root"
        self.messages: list[Message] = play.stage.histories.get(thread, [])
        self.labels = play.labels

    @classmethod
    async def of(cls, play: "Play", part: str) -> "Found":
        return cls(play, play.thread(part), part)

    @property
    def history(self) -> list[str]:
        return list(lines(self.messages, self.labels))

    def ids(self, name: str) -> str:
        return self.play.call(name)

    # ------------------------------------------------------------ histories

    async def is_history(self, expected: list[str]) -> None:
        """All lines, in order."""
        same = len(expected) == len(self.history) and all(map(like, expected, self.history))
        assert same, _apart(expected, self.history)

    async def is_has(self, expected: list[str]) -> None:
        missing = in_order(expected, self.history)
        assert not missing, f"no {missing!r} in its place in {_listed(self.history)}"

    async def is_lacks(self, expected: list[str]) -> None:
        there = [line for line in self.history if any(like(one, line) for one in expected)]
        assert not there, f"there is {there} in {_listed(self.history)}"

    async def is_count(self, expected: dict[str, int]) -> None:
        """How many lines are like a pattern."""
        found = {one: sum(like(one, line) for line in self.history) for one in expected}
        assert found == expected, f"{found} in {_listed(self.history)}"

    async def is_results(self, expected: dict[str, str]) -> None:
        """The text of each call's first result."""
        found: dict[str, str] = {}
        for one in self.messages:
            if isinstance(one, Result):
                found.setdefault(self.labels.get(one.call, "?"), text_of(one.parts))
        for name, text in expected.items():
            assert name in found, f"no result of {name} in {_listed(self.history)}"
            assert like(text, found[name]), f"{name}: {found[name]!r}, not {text!r}"

    async def is_causes(self, expected: dict[str, str]) -> None:
        """Why the runtime settled each call; empty: its tool did."""
        found = {
            self.labels.get(one.call, "?"): one.cause for one in self.messages if isinstance(one, Result)
        }
        assert {name: found.get(name) for name in expected} == expected, found

    async def is_settled(self, expected: list[str]) -> None:
        """Each of these calls has exactly one result."""
        found = Counter(self.labels.get(one.call, "?") for one in self.messages if isinstance(one, Result))
        assert {name: found[name] for name in expected} == dict.fromkeys(expected, 1), found

    async def is_ends_in_turn(self, expected: bool) -> None:
        """Nothing came after the last turn that it has not seen."""
        turned = isinstance(self.messages[-1], Turn) and self.messages[-1].upto == len(self.messages) - 1
        assert turned == expected, _listed(self.history)

    # ------------------------------------------------------------ the model

    async def is_last_said(self, expected: str) -> None:
        """The last completion was shown these words of a person, and they are the last ones said."""
        said = [one for one in self.messages if isinstance(one, Said)]
        turns = [one for one in self.messages if isinstance(one, Turn)]
        assert text_of(said[-1].parts) == expected
        assert turns[-1].upto > self.messages.index(said[-1]), _listed(self.history)

    async def is_asked(self, expected: int) -> None:
        """Requests that a provider got, failed ones too."""
        found = [one for one in self.stage.asked if one.attempt.thread == self.thread]
        assert len(found) == expected, f"{len(found)} requests, not {expected}: {_listed(self.history)}"

    async def is_completions(self, expected: int) -> None:
        turns = sum(isinstance(one, Turn) for one in self.messages)
        assert turns == expected, f"{turns} turns, not {expected}: {_listed(self.history)}"

    def _request(self, ordinal: int) -> Any:
        asked = [one for one in self.stage.asked if one.attempt.thread == self.thread]
        found = [one for one in asked if one.attempt.ordinal == ordinal - 1]
        assert found, f"completion {ordinal} was never asked for: {_listed(self.history)}"
        return found[-1].request

    async def is_news(self, expected: dict[int, list[str]]) -> None:
        """What is new in the request of each completion, from 1: all items since the last turn."""
        for ordinal, patterns in expected.items():
            found = list(item_lines(self._request(ordinal).since_turn, self.labels))
            same = len(found) == len(patterns) and all(map(like, patterns, found))
            assert same, f"request {ordinal}: {_apart(patterns, found)}"

    async def is_shown(self, expected: dict[int, list[str]]) -> None:
        """Items that a request has, in this order, among others."""
        for ordinal, patterns in expected.items():
            found = list(item_lines(self._request(ordinal).items, self.labels))
            missing = in_order(patterns, found)
            assert not missing, f"request {ordinal}: no {missing!r} in its place in {_listed(found)}"

    async def is_unshown(self, expected: dict[int, list[str]]) -> None:
        """Words that stand nowhere in a request."""
        for ordinal, words in expected.items():
            text = "\n".join(map(item_text, self._request(ordinal).items))
            assert not [word for word in words if word in text], f"request {ordinal}: {text}"

    async def is_last_shown(self, patterns: list[str]) -> None:
        """Items that the last request has."""
        asked = [one for one in self.stage.asked if one.attempt.thread == self.thread]
        await self.is_shown({asked[-1].attempt.ordinal + 1: patterns})

    async def is_shorter(self, expected: dict[int, int]) -> None:
        """Letters that the words of a request have at most."""
        for ordinal, most in expected.items():
            assert sum(len(item_text(item)) for item in self._request(ordinal).items) <= most

    async def is_results_shown(self, expected: dict[int, int]) -> None:
        """How many results a request has."""
        for ordinal, number in expected.items():
            items = self._request(ordinal).items
            assert sum(len(item.results) for item in items if isinstance(item, ResultsItem)) == number

    async def is_argument_chars(self, expected: dict[str, int]) -> None:
        """How long the arguments of calls are in history."""
        found = {self.labels[one.id]: len(one.arguments) for one in calls_of(self.messages)}
        assert {name: found[name] for name in expected} == expected

    async def is_arguments_shown(self, expected: dict[int, int]) -> None:
        """How long a call's arguments are in a request at most."""
        for ordinal, most in expected.items():
            turns = [item for item in self._request(ordinal).items if isinstance(item, TurnItem)]
            assert max(len(call.arguments) for turn in turns for call in turn.calls) <= most

    async def is_completions_at_most(self, expected: int) -> None:
        assert sum(isinstance(one, Turn) for one in self.messages) <= expected

    async def is_grows_by(self, expected: int) -> None:
        """By how many items each request is longer than the one before."""
        sizes = [len(one.request.items) for one in self.stage.asked if one.attempt.thread == self.thread]
        assert {after - before for before, after in pairwise(sizes)} == {expected}, sizes

    async def is_gap(self, expected: dict[int, float]) -> None:
        """Least seconds between the so-manieth request and the one before it, from 1."""
        at = [one.at for one in self.stage.asked if one.attempt.thread == self.thread]
        for number, seconds in expected.items():
            assert at[number - 1] - at[number - 2] >= seconds, at

    async def is_same_request(self, expected: list[int]) -> None:
        """These requests, from 1, are the same."""
        asked = [one.request for one in self.stage.asked if one.attempt.thread == self.thread]
        assert len({asked[number - 1].hash for number in expected}) == 1

    # ------------------------------------------------------------ tools

    async def is_effects(self, expected: dict[str, int]) -> None:
        """How often each call took effect in the world."""
        done = Counter(self.stage.tools.done)
        found = {name: done[id] + self.stage.works.effects(id) for name in expected if (id := self.ids(name))}
        assert found == expected

    async def is_handed_over(self, expected: dict[str, int]) -> None:
        """How often the tool server was given each call."""
        assert {name: self.stage.tools.taken[self.ids(name)] for name in expected} == expected

    async def is_runs(self, expected: list[str]) -> None:
        """All runs of functions, in order."""
        assert self.stage.works.runs == expected

    async def is_run_count(self, expected: dict[str, int]) -> None:
        runs = Counter(self.stage.works.runs)
        assert {name: runs[name] for name in expected} == expected

    async def is_run_at_most_once(self, expected: list[str]) -> None:
        runs = Counter(self.stage.works.runs)
        assert all(runs[name] <= 1 for name in expected), runs

    async def is_never_sent(self, expected: list[str]) -> None:
        """Calls that no tool has seen, of whatever turn; they may not even be in history."""
        sent = {self.labels.get(id, id) for id in [*self.stage.tools.taken, *self.stage.works.by_call]}
        assert not sent & set(expected), sent

    async def is_cancelled(self, expected: list[str]) -> None:
        """Calls of which tool servers were told that nobody wants them any more."""
        assert sorted(self.labels[id] for id in set(self.stage.tools.cancelled)) == sorted(expected)

    async def is_chosen(self, expected: dict[str, int]) -> None:
        assert {self.labels[id]: value for id, value in self.stage.tools.choices} == expected

    async def is_statuses(self, expected: list[int]) -> None:
        """How all callbacks so far were answered."""
        assert self.stage.statuses == expected

    async def is_never_500(self, expected: bool) -> None:
        assert all(status in (200, 400, 401, 403, 404, 410, 413) for status in self.stage.statuses)

    # ------------------------------------------------------------ the thread

    async def is_alive(self, expected: int) -> None:
        """Processes that still run."""
        assert self.stage.alive == expected

    async def is_ends_in_turn_or_late(self, expected: bool) -> None:
        """All that owes an answer has one."""
        told = await self.stage.outside.threads.explain(self.thread)
        assert not told.owes, told.text

    async def is_state(self, expected: str) -> None:
        row = await self.stage.store.row(self.thread)
        assert row is not None
        assert row.state == expected, _listed(self.history)

    async def is_waits(self, expected: list[str]) -> None:
        """Kinds of all that it waits for."""
        told = await self.stage.outside.threads.explain(self.thread)
        assert sorted(wait.kind for wait in told.waits) == sorted(expected), told.text

    async def is_explain(self, expected: str) -> None:
        told = await self.stage.outside.threads.explain(self.thread)
        assert like(expected, told.text), told.text

    async def is_owes(self, expected: bool) -> None:
        told = await self.stage.outside.threads.explain(self.thread)
        assert told.owes == expected, told.text

    async def is_people_asked(self, expected: list[str]) -> None:
        """Calls for which people are asked something now."""
        asked = await self.stage.outside.threads.waits(self.thread)
        assert sorted(self.labels[one.call] for one in asked) == sorted(expected)
        assert len({one.id for one in asked}) == len(asked)

    async def is_keep_waits(self, expected: bool) -> None:
        """Remember the ids of what people are asked."""
        self.play.kept = [one.id for one in await self.stage.outside.threads.waits(self.thread)]
        assert len(set(self.play.kept)) == len(self.play.kept)

    async def is_same_waits(self, expected: bool) -> None:
        """They are the same as when they were remembered."""
        assert [one.id for one in await self.stage.outside.threads.waits(self.thread)] == self.play.kept

    async def is_until(self, expected: str) -> None:
        """When the only wait with an end is over, as an instant."""
        told = await self.stage.outside.threads.explain(self.thread)
        assert expected in told.text, told.text

    async def is_reason(self, expected: str) -> None:
        row = await self.stage.store.row(self.thread)
        assert row is not None
        reason = decode_head(row.head, row.shape).reason
        assert like(expected, reason), reason

    async def is_children(self, expected: list[str]) -> None:
        """States of all children, those that are closed too."""
        rows = await self.stage.outside.threads.children(self.thread)
        assert sorted(row.state for row in rows) == sorted(expected)

    async def is_answers(self, expected: list[str]) -> None:
        """What became of people's answers."""
        assert self.play.answers == expected

    async def is_refused(self, expected: list[str]) -> None:
        """What was refused to people, in words."""
        found = self.play.refusals
        assert len(found) == len(expected), found
        assert all(map(like, expected, found)), found

    async def is_threads(self, expected: dict[str, dict[str, Any]]) -> None:
        """Checks of other threads, by their part."""
        for part, told in expected.items():
            await check(self.play, told, part)

    async def is_own_reports(self, expected: dict[str, str]) -> None:
        """What each part has reported stands under its own thread."""
        reports = [one for one in self.messages if isinstance(one, Reported) and one.what == "report"]
        found = {one.thread: text_of(one.parts) for one in reports}
        assert found == {self.play.cast.thread(part): text for part, text in expected.items()}

    async def is_parts(self, expected: dict[str, int]) -> None:
        """How many threads play a part."""
        assert {part: len(self.play.cast.threads(part)) for part in expected} == expected


def _listed(found: Sequence[str]) -> str:
    return "\n  " + "\n  ".join(line[:200] for line in found)


def _apart(expected: Sequence[str], found: Sequence[str]) -> str:
    return f"expected{_listed(expected)}\nfound{_listed(found)}"
