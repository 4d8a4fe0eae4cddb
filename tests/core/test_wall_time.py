"""Wall times as instants: gaps, overlaps, zones, and what is none."""

from datetime import UTC, datetime

import pytest

from torpor.core.wall_time import wall_time

TWICE = " comes twice in {}; this is the earlier.)"
NEVER = " does not exist in {}; this is the first instant after the gap.)"


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("day", "clock", "zone", "instant", "rule"),
    [
        ("2026-06-01", "10:00", "Europe/Berlin", "2026-06-01 08:00", ""),
        ("2026-06-01", "10:00:59", "UTC", "2026-06-01 10:00:59", ""),
        ("2026-06-01", "9:05", "UTC", "2026-06-01 09:05", ""),
        ("2026-06-01", "00:00", "UTC", "2026-06-01 00:00", ""),
        ("2026-06-01", "23:59:59", "UTC", "2026-06-01 23:59:59", ""),
        # TIM-02, SRC-07, TIM-01
        ("2026-03-08", "02:30", "America/New_York", "2026-03-08 07:00", NEVER),
        ("2026-03-08", "02:00", "America/New_York", "2026-03-08 07:00", NEVER),
        ("2026-03-08", "03:00", "America/New_York", "2026-03-08 07:00", ""),
        ("2026-03-08", "01:59", "America/New_York", "2026-03-08 06:59", ""),
        ("2026-11-01", "01:30", "America/New_York", "2026-11-01 05:30", TWICE),
        ("2026-11-01", "01:00", "America/New_York", "2026-11-01 05:00", TWICE),
        ("2026-11-01", "02:00", "America/New_York", "2026-11-01 07:00", ""),
        ("2026-09-06", "00:00", "America/Santiago", "2026-09-06 04:00", NEVER),
        ("2026-10-04", "02:15", "Australia/Lord_Howe", "2026-10-03 15:30", NEVER),
        ("2026-04-05", "01:45", "Australia/Lord_Howe", "2026-04-04 14:45", TWICE),
        ("2026-10-25", "02:30", "Europe/Berlin", "2026-10-25 00:30", TWICE),
        ("2026-03-29", "02:30", "Europe/Berlin", "2026-03-29 01:00", NEVER),
        # a whole day that never was
        ("2011-12-30", "12:00", "Pacific/Apia", "2011-12-30 10:00", NEVER),
        ("2011-12-29", "12:00", "Pacific/Apia", "2011-12-29 22:00", ""),
    ],
)
def test_a_wall_time_is_one_instant_and_says_which_rule_made_it(
    day: str, clock: str, zone: str, instant: str, rule: str
) -> None:
    moment, told = wall_time(day, clock, zone)
    assert moment == at(instant)
    assert told.endswith(rule.format(zone))
    if rule:
        assert told.startswith(f" ({day} {clock:>05}")
    else:
        assert told == ""


@pytest.mark.parametrize(
    ("day", "clock", "zone", "told"),
    [
        ("2026-02-30", "10:00", "UTC", "'2026-02-30' is not a date of the form YYYY-MM-DD."),
        ("tomorrow", "10:00", "UTC", "'tomorrow' is not a date of the form YYYY-MM-DD."),
        ("d" * 300, "10:00", "UTC", f"'{'d' * 100}' is not a date of the form YYYY-MM-DD."),
        ("2026-01-01", "24:00", "UTC", "'24:00' is not a time of the form HH:MM or HH:MM:SS."),
        ("2026-01-01", "23:60", "UTC", "'23:60' is not a time of the form HH:MM or HH:MM:SS."),
        ("2026-01-01", "23:59:60", "UTC", "'23:59:60' is not a time of the form HH:MM or HH:MM:SS."),
        ("2026-01-01", "10", "UTC", "'10' is not a time of the form HH:MM or HH:MM:SS."),
        ("2026-01-01", "10:00 ", "UTC", "'10:00 ' is not a time of the form HH:MM or HH:MM:SS."),
        ("2026-01-01", "t" * 300, "UTC", f"'{'t' * 100}' is not a time of the form HH:MM or HH:MM:SS."),
        (
            "2026-06-01",
            "10:00",
            "Mars/Base",
            "'Mars/Base' is not a time zone; give an IANA name such as Europe/Berlin.",
        ),
    ],
)
def test_what_is_no_wall_time_is_told_in_words(day: str, clock: str, zone: str, told: str) -> None:
    with pytest.raises(ValueError, match="is not a") as caught:
        wall_time(day, clock, zone)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "zone", ["", ".", "../etc/passwd", "/etc/localtime", "a\0b", "Europe", "z" * 9_000, "é"]
)
def test_what_is_no_zone_is_never_read_as_a_file(zone: str) -> None:
    with pytest.raises(ValueError, match="is not a time zone") as caught:
        wall_time("2026-01-01", "10:00", zone)
    assert len(str(caught.value)) < 300
