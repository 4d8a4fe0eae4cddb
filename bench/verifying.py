"""That no work was skipped: every history is complete, in order, and says what it should."""

from lean import Message as LeanMessage
from lean import Result as LeanResult
from lean import Said as LeanSaid
from lean import Turn as LeanTurn
from workload import ARGUMENTS, Texts

from torpor.core.codec import decode_head, decode_message
from torpor.core.messages import Born, Call, Message, Noted, Result, Said, Text, Turn, text_of
from torpor.wiring import Parts


class Skipped(Exception):
    """Work was not done, or not as it should be."""


async def verify(parts: Parts, texts: Texts, agents: int, turns: int) -> None:
    """Read every history back from the store. ``Skipped`` says what is wrong with the first bad one."""
    for agent in range(agents):
        await _verify(parts, texts, agent, turns)
    rest = await parts.queue.size()
    stranded = await parts.store.stranded()
    _hold(rest == 0 and not stranded, f"{rest} threads are rung and {len(stranded)} are stranded at the end")


async def _verify(parts: Parts, texts: Texts, agent: int, turns: int) -> None:
    thread = f"agent-{agent}"
    row = await parts.store.row(thread)
    stored = await parts.store.read(thread)
    records = await parts.store.records(thread)
    length = 1 + 4 * turns
    _hold(row is not None and row.length == length == len(stored), f"{thread} has {len(stored)} messages")
    assert row is not None
    _hold(stored[-1].position == length, f"{thread} ends at {stored[-1].position}")
    _hold(len(records) == 2 * turns, f"{thread} has {len(records)} records of slices")
    head = decode_head(row.head)
    _hold(
        not head.pending and not head.owes and head.ordinal == 2 * turns, f"{thread} is not at rest: {head}"
    )
    messages = [decode_message(message.body) for message in stored]
    born = messages[0]
    _hold(isinstance(born, Noted) and isinstance(born.note, Born), f"{thread} begins with {born}")
    for turn in range(turns):
        _verify_turn(texts, agent, turn, messages[1 + 4 * turn : 5 + 4 * turn])


def _verify_turn(texts: Texts, agent: int, turn: int, messages: list[Message]) -> None:
    said, asked, result, told = messages
    thread = f"agent-{agent}"
    where = f"{thread}, turn {turn}"
    assert isinstance(said, Said)
    assert isinstance(asked, Turn)
    assert isinstance(result, Result)
    assert isinstance(told, Turn)
    _hold(text_of(said.parts) == texts.said(agent, turn), f"{where}: said {said}")
    words, call = asked.parts
    assert isinstance(call, Call)
    _hold(words == Text("".join(texts.pieces(thread, 2 * turn))), f"{where}: answered {words}")
    _hold((call.name, call.arguments) == ("run_command", ARGUMENTS), f"{where}: called {call}")
    _hold(result.call == call.id and not result.is_error, f"{where}: got {result}")
    _hold(text_of(result.parts) == texts.output(call.id), f"{where}: got {result}")
    _hold(told.parts == (Text("".join(texts.pieces(thread, 2 * turn + 1))),), f"{where}: told {told}")


def verify_lean(histories: dict[int, list[LeanMessage]], texts: Texts, turns: int) -> None:
    """The same for a lean loop's histories."""
    for agent, messages in histories.items():
        _hold(len(messages) == 4 * turns, f"agent-{agent} has {len(messages)} messages")
        for turn in range(turns):
            _verify_lean_turn(texts, agent, turn, messages[4 * turn : 4 * turn + 4])


def _verify_lean_turn(texts: Texts, agent: int, turn: int, messages: list[LeanMessage]) -> None:
    thread = f"agent-{agent}"
    where = f"{thread}, turn {turn}"
    said, asked, result, told = messages
    _hold(isinstance(said, LeanSaid) and said.text == texts.said(agent, turn), f"{where}: said {said}")
    _hold(isinstance(asked, LeanTurn) and isinstance(told, LeanTurn), f"{where}: {asked}, {told}")
    _hold(isinstance(result, LeanResult), f"{where}: got {result}")
    assert isinstance(asked, LeanTurn)
    assert isinstance(result, LeanResult)
    _hold((asked.name, asked.arguments) == ("run_command", ARGUMENTS), f"{where}: called {asked}")
    _hold(result.call == asked.call and result.text == texts.output(asked.call), f"{where}: got {result}")
    for ordinal, answered in enumerate((asked, told), 2 * turn):
        _hold(answered.text == "".join(texts.pieces(thread, ordinal)), f"{where}: answered {answered}")


def _hold(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Skipped(otherwise)
