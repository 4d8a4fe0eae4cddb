"""``torpor doctor``: what is wrong with this set-up, in plain words."""

import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from torpor.cli.options import Config, Store, run, settings_of, with_agents
from torpor.runtime.presence import GOOD_FOR, Here, present

if TYPE_CHECKING:
    from torpor.settings import Settings
    from torpor.wiring import Parts

Finding = tuple[bool, str, str]
"""Whether it is well, what was looked at, and what was found."""

YEAR_2024 = 1_704_067_200.0
DRIFT = 60.0


def doctor(config: Config = None, store: Store = None) -> None:
    """Check this set-up, and say in plain words what is wrong."""
    run(_doctor(config, store))


async def _doctor(config: Path | None, store: str | None) -> int:
    from torpor.cli.screen import line, out

    screen, well = out(), True
    async for fine, what, found in _findings(config, store):
        well = well and fine
        sign = ("✓ ", "bold green") if fine else ("✗ ", "bold red")
        screen.print(line(sign, f"{what:<9} ", found))
    return 0 if well else 1


async def _findings(config: Path | None, store: str | None) -> AsyncIterator[Finding]:
    from torpor.core.errors import TorporError
    from torpor.settings import is_postgres, shown_store

    try:
        settings = with_agents(settings_of(config, store))
    except TorporError as error:
        yield False, "settings", str(error)
        return
    yield True, "settings", f"store {shown_store(settings.store)}, listen {settings.listen}"
    for finding in (*_agents(settings), *_token(settings)):
        yield finding
    broken = list(_database(settings) if is_postgres(settings.store) else _file(settings))
    for finding in broken:
        yield finding
    if not all(fine for fine, *_ in broken):
        return
    async with contextlib.AsyncExitStack() as stack:
        from torpor.wiring import open_parts

        try:
            parts = await stack.enter_async_context(open_parts(settings.store))
            async for finding in _inside(parts, settings):
                yield finding
        except TorporError as error:
            yield False, "store", str(error)


def _agents(settings: "Settings") -> Iterator[Finding]:
    from torpor.core.errors import TorporError
    from torpor.wiring import load_agents

    if not settings.agents:
        yield True, "agents", "none are set; serve and worker need them as arguments or in torpor.toml"
    for ref in settings.agents:
        try:
            (agent,) = load_agents([ref])
            yield True, "agents", f"{ref} is {agent.name!r}"
        except TorporError as error:
            yield False, "agents", str(error)


def _token(settings: "Settings") -> Iterator[Finding]:
    from torpor.cli.tokens import read_token
    from torpor.core.errors import TorporError

    try:
        token = read_token(settings.token_path)
        yield (
            True,
            "token",
            f"kept in {settings.token_path}" if token else "none yet; `torpor serve` makes one",
        )
    except TorporError as error:
        yield False, "token", str(error)


def _database(settings: "Settings") -> Iterator[Finding]:
    from torpor.wiring import examine

    for fine, found in examine(settings.store):
        yield fine, "store", found


def _file(settings: "Settings") -> Iterator[Finding]:
    """The file itself, looked at without writing to it."""
    import sqlite3

    from torpor.settings import store_path

    path = store_path(settings.store)
    if path is None:
        yield True, "store", "memory: keeps nothing; each process has its own"
        return
    if not path.exists():
        yield False, "store", f"there is no file {path} yet; `torpor new` or `torpor serve` makes it"
        return
    if not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        yield False, "store", f"{path} is read-only: make the file and its folder writable for this user"
        return
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            damage = [row[0] for row in file.execute("PRAGMA quick_check(3)")]
            version = file.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        yield False, "store", f"{path} cannot be read: {error}"
        return
    if damage == ["ok"]:
        yield True, "store", f"{path} is whole, {path.stat().st_size:,} bytes, schema {version}"
    else:
        yield False, "store", f"{path} is damaged: {'; '.join(damage)}. Restore a copy."


async def _inside(parts: "Parts", settings: "Settings") -> AsyncIterator[Finding]:
    from torpor.cli.remote import reach

    now = await parts.store.now()
    yield True, "key", f"{len(parts.keys.ids)} to sign callbacks, the newest {parts.keys.ids[-1]}"
    yield await _clock(parts, now)
    server = await reach(parts.side, settings)
    known = (await parts.address()).url
    if server is not None:
        yield True, "server", f"answers at {server.url}"
    else:
        yield True, "server", f"none answers (the last one: {known})" if known else "none was started yet"
    workers = await present(parts.side, now)
    yield _workers(workers, now)
    yield await _stranded(parts, now, workers, is_served=server is not None)


def _workers(workers: list[Here], now: float) -> Finding:
    told = "; ".join(
        f"{here.worker} runs {', '.join(here.agents)} (last seen {max(0.0, now - here.seen):.0f} s ago)"
        for here in workers
    )
    gone = any(here.is_overdue(now) for here in workers)
    hint = f". One that was killed counts as there for {GOOD_FOR:.0f} s" if gone else ""
    return not gone, "workers", f"{told}{hint}" if told else "none runs now"


async def _clock(parts: "Parts", now: float) -> Finding:
    rows = await parts.store.threads(limit=1_000)
    ahead = max((row.updated for row in rows), default=0.0) - now
    if now < YEAR_2024:
        return False, "clock", f"it is before 2024 here ({now:.0f}); set the clock"
    if ahead > DRIFT or abs(now - time.time()) > DRIFT:
        return False, "clock", f"threads were written {ahead:.0f} s in the future: the clock was set back"
    return True, "clock", "agrees with what is stored"


async def _stranded(parts: "Parts", now: float, workers: list[Here], *, is_served: bool) -> Finding:
    from torpor.cli.screen import duration

    stranded = await parts.store.stranded()
    if not stranded:
        return True, "threads", "none is stranded"
    longest = duration(now - min(since for _, since in stranded))
    running = {agent for here in workers for agent in here.agents}
    waiting = sorted({row.agent for row, _ in stranded} - running)
    if waiting:
        cure = f"start a worker for {', '.join(waiting)}"
    elif is_served:
        cure = "the running workers' sweep rings them"
    else:
        cure = "no server answers; if the workers above are gone, start one"
    fine = is_served and not waiting
    return fine, "threads", f"{len(stranded)} have work that is not done, since {longest}: {cure}"
