"""What is typed after ``torpor answer WAIT``, as an answer."""

import pytest

from torpor.cli.answer import _value
from torpor.core.errors import Refused


@pytest.mark.parametrize(
    ("wait", "typed", "value"),
    [
        ("t.c.choice", "2", 2),
        ("t.c.choice", "green", "green"),
        ("t.c.choice", "12345", "12345"),
        ("t.c.choice", '{"a": 1}', '{"a": 1}'),
        ("t.c.form", '{"a": 1}', {"a": 1}),
        ("t.c.form.2", ' {"a": [true]}', {"a": [True]}),
        ("t.c.form", "decline", "decline"),
        ("t.c.approval", "approve", "approve"),
        ("odd", "{", "{"),
    ],
)
def test_a_value_is_what_its_wait_takes(wait: str, typed: str, value: object) -> None:
    assert _value(wait, typed) == value


def test_what_is_no_object_is_no_form() -> None:
    with pytest.raises(Refused, match="no JSON object"):
        _value("t.c.form", '{"a": ')
