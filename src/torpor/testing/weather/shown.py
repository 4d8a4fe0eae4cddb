"""What a model may be shown: each call answered once, in call order, and something new at the end."""

from collections.abc import Sequence

from torpor.core.request import AnyItem, ResultsItem, TurnItem
from torpor.testing.weather.record import Record


def check_items(items: Sequence[AnyItem], record: Record) -> None:
    """Note what is wrong with a request."""
    owed: list[str] = []
    seen: set[str] = set()
    for item in items:
        if isinstance(item, ResultsItem):
            given = [result.call for result in item.results]
            record.must(given == owed, f"a request has results of {given} where {owed} are owed")
            owed = []
            continue
        record.must(not owed, f"a request leaves the calls {owed} unanswered")
        if isinstance(item, TurnItem):
            owed = [call.id for call in item.calls]
            record.must(not seen.intersection(owed), f"a request has a call of {owed} twice")
            seen.update(owed)
    record.must(not owed, f"a request ends with the calls {owed} unanswered")
    record.must(bool(items) and not isinstance(items[-1], TurnItem), "a request asks nothing")
