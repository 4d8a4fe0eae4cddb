"""What follows a failure, and tiers as deadlines."""

import pytest

from torpor.core.errors import Broken, Conflict, ModelRefused, Refused, TorporError, Unavailable
from torpor.core.retry import Again, Park, after_failure, backoff, told_wait
from torpor.core.tiers import TIERS, Tier, not_before, start_by


def judge(error: TorporError, attempt: int = 0, tries: int = 12) -> Again | Park:
    return after_failure(error, attempt, 1_000.0, tries, 0.0)


def test_a_busy_provider_is_tried_again() -> None:
    assert judge(Unavailable("busy")) == Again(1_000.5, 1)
    assert judge(Unavailable("busy"), attempt=3) == Again(1_004.0, 4)


def test_the_provider_is_believed_when_it_says_how_long() -> None:
    assert judge(Unavailable("busy", retry_after=90.0)) == Again(1_090.0, 1)
    assert judge(Unavailable("busy", retry_after=0.1)) == Again(1_000.5, 1)


def test_trying_ends_at_the_agents_limit_and_keeps_the_inputs() -> None:
    """E18."""
    assert judge(Unavailable("busy"), attempt=10) == Again(1_150.0, 11)
    assert judge(Unavailable("busy"), attempt=11) == Park("Gave up after 12 tries: busy", "tries")
    assert judge(Unavailable("busy"), attempt=40) == Park("Gave up after 41 tries: busy", "tries")
    assert judge(Unavailable("busy"), attempt=1, tries=2) == Park("Gave up after 2 tries: busy", "tries")


def test_an_error_may_allow_fewer_tries() -> None:
    """WIR-13."""
    assert judge(Unavailable("cut", tries=2)) == Again(1_000.5, 1)
    assert judge(Unavailable("cut", tries=2), attempt=1) == Park("Gave up after 2 tries: cut", "tries")


def test_what_a_provider_refuses_is_set_aside_unless_no_input_caused_it() -> None:
    """E27, E28."""
    assert judge(ModelRefused("too long", kind="context")) == Park("too long", "context", aside=True)
    assert judge(ModelRefused("odd")) == Park("odd", "request", aside=True)
    assert judge(ModelRefused("no money", kind="quota")) == Park("no money", "quota")
    assert judge(ModelRefused("bad key", kind="auth")) == Park("bad key", "auth")
    assert judge(ModelRefused("bad settings", kind="setup")) == Park("bad settings", "setup")
    assert judge(Refused("no")) == Park("no", "request", aside=True)


def test_what_is_broken_parks_with_its_inputs_aside() -> None:
    assert judge(Broken("oh")) == Park("oh", "broken", aside=True)
    assert judge(Conflict("oh")) == Park("oh", "broken")


def test_waiting_doubles_up_to_a_bound_and_is_spread() -> None:
    assert [backoff(n, 0.0) for n in range(5)] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert [backoff(n, 1.0) for n in range(3)] == [1.0, 2.0, 4.0]
    assert backoff(8, 0.0) == 128.0
    assert backoff(9, 0.0) == 150.0
    assert backoff(10_000_000, 1.0) == 300.0
    assert backoff(2, 0.5, first=2.0, longest=5.0) == 3.75


def test_errors_carry_what_their_catcher_needs() -> None:
    plain = Unavailable("busy")
    assert (str(plain), plain.retry_after, plain.tries) == ("busy", None, None)
    told = Unavailable("busy", retry_after=1.0, tries=2)
    assert (told.retry_after, told.tries) == (1.0, 2)
    assert (str(ModelRefused("x")), ModelRefused("x").kind) == ("x", "request")
    assert all(issubclass(kind, TorporError) for kind in (Refused, Conflict, Unavailable, Broken))


@pytest.mark.parametrize(
    ("told", "wait"),
    [
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("0", 0.0),
        ("-3", 0.0),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("Mon, 99 Foo 2026 00:00:00 GMT", None),
        ("Thu, 01 Jan 1970 00:02:30 GMT", 50.0),
        ("Thu, 01 Jan 1970 00:01:30 GMT", 0.0),
    ],
)
def test_what_a_server_says_of_waiting(told: str, wait: float | None) -> None:
    assert told_wait(told, 100.0) == wait


@pytest.mark.parametrize(
    ("tier", "by", "earliest"),
    [("realtime", 100.0, 100.0), ("async", 160.0, 155.0), ("batch", 86_500.0, 82_900.0)],
)
def test_a_tier_says_when_a_slice_must_start_and_when_it_may(tier: str, by: float, earliest: float) -> None:
    assert start_by(tier, 100.0) == by
    assert not_before(tier, by) == earliest


def test_a_deadline_of_its_own_counts_if_it_is_sooner() -> None:
    assert start_by("batch", 100.0, 200.0) == 200.0
    assert start_by("async", 100.0, 200.0) == 160.0


def test_there_are_three_tiers() -> None:
    assert {
        "realtime": Tier(0.0, 0.0),
        "async": Tier(60.0, 5.0),
        "batch": Tier(86_400.0, 3_600.0),
    } == TIERS
