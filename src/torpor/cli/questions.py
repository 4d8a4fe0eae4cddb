"""What people are asked, as people read it, with the command that answers it."""

from collections.abc import Iterable, Iterator

from rich.text import Text

from torpor.cli.screen import duration, line
from torpor.cli.visible import one_line
from torpor.runtime.questions import Question

SHOWN = 2_000
"""Characters of a call's arguments that are shown; people see what they approve."""


def asked(questions: Iterable[Question], now: float) -> Iterator[Text]:
    """The lines of questions."""
    for one in questions:
        left = f", {duration(one.until - now)} left, then {one.default or 'given up'}" if one.until else ""
        yield line(("asks   ", "dim"), (f"{one.kind} for {one.name}", "bold"), left)
        if one.prompt:
            yield line(" " * 7, one_line(one.prompt, SHOWN))
        if one.arguments:
            yield line(" " * 7, one_line(one.arguments, SHOWN))
        if one.url:
            yield line(" " * 7, one_line(one.url, 10_000))
        for place, choice in enumerate(one.choices):
            yield line(" " * 7, f"{place}  ", one_line(choice, SHOWN))
        if one.form:
            yield line(" " * 7, one_line(one.form, SHOWN))
        words = "PLACE|dismiss" if one.choices else "|".join(one.answers)
        words = f"'{{…}}'|{words}" if one.form else words
        yield line(" " * 7, (f"torpor answer {one.id} {words}", "cyan"))
