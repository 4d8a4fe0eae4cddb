"""What the page about a fleet says can be run: its queries, and the commands of its unit."""

import configparser
import shlex
import subprocess
import sys
from contextlib import closing

import psycopg

from tests.docs.pages import page
from torpor.stores.postgres import Database, PostgresStore
from torpor.testing.samples import said, thread_row

PAGE = page("docs/fleet.md")


async def test_every_query_runs_and_sees_what_it_is_for(postgres_url: str) -> None:
    store = PostgresStore(Database.open(postgres_url))
    row = thread_row()
    await store.create(row, [said(row.thread)])
    found = []
    with closing(psycopg.connect(postgres_url)) as connection:
        connection.execute(
            "INSERT INTO torpor.rings"
            " (thread, agent, owner, tier, ring_at, start_by, not_before, ready, ready_at)"
            " VALUES ('x', 'a', 'o', 0, extract(epoch FROM now()) - 60, 0, 0, true, 0)"
        )
        found = [connection.execute(block.text.encode()).fetchall() for block in PAGE.blocks("sql")]
    await store.close()
    lag, signals, states, effects, owners = found
    assert 59 < lag[0][0] < 120
    assert lag[0][1] == 1
    assert [one[0] for one in signals] == [row.thread]
    assert states == [("open", 1)]
    assert effects[0][0] == 0
    assert owners == []


def test_the_unit_starts_a_command_that_there_is() -> None:
    (unit,) = PAGE.blocks("ini")
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit.text)
    program, *words = shlex.split(parser["Service"]["ExecStart"])
    assert program.endswith("/torpor")
    done = subprocess.run(
        [sys.executable, "-m", "torpor", *words, "--help"], capture_output=True, check=False
    )
    assert done.returncode == 0
