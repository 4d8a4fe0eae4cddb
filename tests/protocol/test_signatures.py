"""Signed messages: cases CBK-01, CBK-04, CBK-05 and CBK-08."""

import base64
import json
import math
import re
from typing import Any

import pytest

from torpor.core.errors import Refused
from torpor.tools.signatures import ID, SIGNATURE, TIMESTAMP, Secrets, Unsigned, is_signed

SECRET = "whsec_test_key_32_bytes_long_____"
AT = 1_767_225_600
RAW = '{"type":"tool_result","group_id":"th_1","id":"call_1","text":"café"}'.encode()
HEADERS = [
    (ID, "evt_01"),
    (TIMESTAMP, str(AT)),
    (SIGNATURE, "v1,yHM+ag+mkCZpKSFKh+8JXU6XifHsaANhseCr/Uxom3g="),
]
KEY = b"0123456789abcdef0123456789abcdef"
OTHER = b"fedcba9876543210fedcba9876543210"


def signed(key: bytes = KEY, body: bytes = RAW, **changes: str) -> list[tuple[str, str]]:
    """The headers of a message, with some of them replaced."""
    headers = Secrets(key).sign("evt_01", AT, body)
    return [(name, changes.get(name.removeprefix("webhook-"), value)) for name, value in headers.items()]


def test_cbk_01_the_bytes_are_signed_as_they_came() -> None:
    secrets = Secrets(SECRET)
    assert secrets.verify(HEADERS, RAW, AT).id == "evt_01"
    for other in (json.dumps(json.loads(RAW)).encode(), RAW + b" ", RAW.replace(b"{", b"{ ")):
        with pytest.raises(Unsigned, match="not valid"):
            secrets.verify(HEADERS, other, AT)


def test_what_is_signed_here_is_what_was_signed_there() -> None:
    assert list(Secrets(SECRET).sign("evt_01", AT + 0.9, RAW).items()) == HEADERS


def test_a_secret_is_base64_with_or_without_padding_or_the_key_itself() -> None:
    text = base64.b64encode(KEY).decode()
    for given in (f"whsec_{text}", f"whsec_{text.rstrip('=')}", KEY, KEY.decode()):
        assert Secrets(given).verify(signed(), RAW, AT).secret == 0


@pytest.mark.parametrize(("late", "taken"), [(-300, True), (300, True), (-301, False), (301, False)])
def test_cbk_02_the_time_of_a_message_may_differ_by_five_minutes(late: int, taken: bool) -> None:
    if taken:
        assert Secrets(KEY).verify(signed(), RAW, AT + late).secret == 0
    else:
        with pytest.raises(Unsigned, match="too old"):
            Secrets(KEY).verify(signed(), RAW, AT + late)


@pytest.mark.parametrize("tolerance", [math.nan, -math.inf, math.inf, -1, 0, "300", None, True])
def test_cbk_04_a_tolerance_that_checks_nothing_is_refused(tolerance: Any) -> None:
    with pytest.raises(Refused, match="finite number of seconds"):
        Secrets(KEY, tolerance)


@pytest.mark.parametrize("time", ["NaN", "inf", "-1", "1e9", "", " 1", "\uff11", f"{AT}.0", "9" * 40])
def test_a_time_that_is_none_is_refused(time: str) -> None:
    secrets = Secrets(KEY)
    headers = signed(timestamp=time)
    with pytest.raises(Unsigned, match="cannot be read"):
        secrets.verify(headers, RAW, AT)


@pytest.mark.parametrize("now", [math.nan, math.inf])
def test_a_clock_that_tells_no_time_accepts_nothing(now: float) -> None:
    with pytest.raises(Unsigned):
        Secrets(KEY).verify(signed(), RAW, now)


@pytest.mark.parametrize("signature", ["v1,é", "v1,\udce9", "v1,", "", "v1", ",", "v2,x", "v1a,x", "v1,AAAA"])
def test_cbk_05_a_signature_of_any_characters_is_refused(signature: str) -> None:
    body = b"{}"
    headers = [(ID, "evt_01"), (TIMESTAMP, str(AT)), (SIGNATURE, signature)]
    with pytest.raises(Unsigned, match="not valid"):
        Secrets(KEY).verify(headers, body, AT)


def test_cbk_08_several_signatures_are_one_header() -> None:
    good, old = dict(signed())[SIGNATURE], dict(signed(OTHER))[SIGNATURE]
    for listed in (f"{old} {good}", f"{good} {old}", f"v1a,zzz {good}", f"nonsense {good}"):
        assert Secrets(KEY).verify(signed(signature=listed), RAW, AT).secret == 0


@pytest.mark.parametrize("name", [ID, TIMESTAMP, SIGNATURE])
def test_cbk_08_a_header_that_comes_twice_is_refused_whatever_it_says(name: str) -> None:
    headers = signed()
    for second in ("1", dict(headers)[name]):
        with pytest.raises(Unsigned, match="more than once"):
            Secrets(KEY).verify([*headers, (name.title(), second)], RAW, AT)


@pytest.mark.parametrize("name", [ID, TIMESTAMP, SIGNATURE])
def test_a_missing_header_is_refused(name: str) -> None:
    headers = [one for one in signed() if one[0] != name]
    with pytest.raises(Unsigned, match="not signed"):
        Secrets(KEY).verify(headers, RAW, AT)


@pytest.mark.parametrize("id", ["", "a b", "é", "x" * 257, "a\x00"])
def test_an_id_of_a_strange_form_is_refused(id: str) -> None:
    with pytest.raises(Unsigned, match="cannot be read"):
        Secrets(KEY).verify(signed(id=id), RAW, AT)


def test_all_secrets_verify_and_the_first_one_signs() -> None:
    both = Secrets([OTHER, KEY])
    assert both.verify(signed(), RAW, AT).secret == 1
    headers = list(both.sign("evt_01", AT, RAW).items())
    assert Secrets(OTHER).verify(headers, RAW, AT).secret == 0
    with pytest.raises(Unsigned):
        Secrets(KEY).verify(headers, RAW, AT)


def test_ids_are_made_fit_for_being_signed() -> None:
    headers = Secrets(KEY).sign("t.c1.choice/choice", AT, RAW)
    assert headers[ID] == "t-c1-choice-choice"
    assert Secrets(KEY).verify(headers.items(), RAW, AT).id == "t-c1-choice-choice"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "at least one"),
        ("", "0 bytes"),
        ("whsec_", "0 bytes"),
        ("whsec_c2hvcnQ=", "5 bytes"),
        ([KEY, KEY], "given twice"),
        ([KEY, 5], "text or bytes"),
    ],
)
def test_secrets_that_cannot_work_are_refused(given: Any, says: str) -> None:
    with pytest.raises(Refused, match=re.escape(says)):
        Secrets(given)


def test_secrets_are_not_shown() -> None:
    assert repr(Secrets([KEY, OTHER])) == "Secrets(2)"


def test_whether_a_message_is_signed_at_all() -> None:
    assert is_signed([("Webhook-Signature", "v1,x")])
    assert not is_signed([("webhook-id", "x")])
