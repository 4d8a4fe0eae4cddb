"""Messages as the API gives them: every kind comes back as it was."""

import msgspec
import pytest

from tests.web.messages import SAMPLES
from torpor.core.messages import Message
from torpor.runtime.replies import Entry
from torpor.web.shapes import entry_of, shown


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    entry = Entry(7, message)
    given = msgspec.json.decode(msgspec.json.encode(shown(entry)))
    assert given["position"] == 7
    assert given["type"] == type(message).__name__.lower()
    assert entry_of(given) == entry
