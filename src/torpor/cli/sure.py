"""Asking before something is done that cannot be undone, and showing how far it is."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from torpor.core.errors import Refused


def make_sure(question: str, *, yes: bool, unasked: bool) -> bool:
    """Whether to go on: who sits at the terminal says so; where nobody does, ``yes`` or ``unasked`` does."""
    if yes or (unasked and not sys.stdin.isatty()):
        return True
    if not sys.stdin.isatty():
        raise Refused("Nobody is there to be asked. Say --yes if it is to be done.")
    import typer

    return typer.confirm(question, err=True)


@contextlib.contextmanager
def progress(verb: str) -> Iterator[Callable[[str, int], None]]:
    """Shows on a terminal how many rows are done; takes a kind and how many more."""
    from torpor.cli.screen import err

    done = 0
    with err().status(f"{verb}…") as status:

        def told(_: str, count: int) -> None:
            nonlocal done
            done += count
            status.update(f"{verb} {done:,} rows…")

        yield told
