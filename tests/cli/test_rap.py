"""``torpor rap check``: what it prints, and how it ends."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Ended, ended, swapped
from torpor.cli import main

PEER = Path(__file__).parents[1] / "protocol" / "peers" / "http_server.py"
TOKEN = "sesame"


@pytest.fixture(scope="module")
def peer() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, PEER], stdout=subprocess.PIPE, env={"PEER_TOKEN": TOKEN}
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.kill()


def rap(*arguments: str) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with (
        swapped(sys, "argv", ["torpor", "rap", "check", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = ended(main)
    return Ended(code, out.getvalue(), err.getvalue())


def check(peer: str, *more: str, token: str = TOKEN) -> Ended:
    quick = ("--tool", "add", "--arguments", '{"a": 1, "b": 2}')
    return rap(peer, "--token", token, *quick, "--long", "wait", "--subscribing", 'count={"n": 2}', *more)


@pytest.mark.slow
def test_kept_and_unseen_rows_are_a_table(peer: str) -> None:
    done = check(peer, "--only", "ts-01,TS-02, TS-21")
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert lines[:3] == [peer, "", "Endpoints and manifest"]
    assert "✓ TS-01   MUST        serves discovery, and takes calls where the manifest says" in lines
    assert any(line.startswith("· TS-02   MUST        ") and "(not observable: " in line for line in lines)
    assert "Taking a call" in lines
    assert lines[-1] == "2 kept, 1 not observable"
    assert "a call that answers quickly: add" in done.stdout


@pytest.mark.slow
def test_a_broken_must_shows_its_exchange_and_ends_with_1(peer: str) -> None:
    done = check(peer, "--only", "TS-01", token="wrong")
    assert done.returncode == 1
    assert "✗ TS-01" in done.stdout
    assert "it answered 401" in done.stdout
    assert f"POST {peer}/invoke" in done.stdout
    assert "1 broken (1 of them a MUST)" in done.stdout
    assert "wrong" not in done.stdout


@pytest.mark.slow
def test_json_says_the_same(peer: str) -> None:
    done = check(peer, "--only", "TS-01,TS-02", "--json")
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["sound"] is True
    assert told["counts"] == {"kept": 1, "broken": 0, "unseen": 1, "not built": 0}
    assert [finding["id"] for finding in told["report"]["findings"]] == ["TS-01", "TS-02"]


@pytest.mark.slow
def test_a_runtime_is_checked_too() -> None:
    done = rap("--runtime", "--only", "RT-17,RT-117")
    assert done.returncode == 0, done
    assert "✓ RT-17" in done.stdout
    assert "✓ RT-117" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Name the base URL"),
        (("http://127.0.0.1:9", "--tool", "x", "--arguments", "{"), "no JSON"),
        (("http://127.0.0.1:9", "--long", "x=[1]"), "must be a JSON object"),
        (("http://127.0.0.1:9", "--only", "TS-999"), "TS-999"),
        (("--runtime", "--harness", "no.such:thing"), "cannot be loaded"),
    ],
)
def test_what_is_misused_is_said_in_a_line(arguments: tuple[str, ...], told: str) -> None:
    done = rap(*arguments)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_server_says_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from torpor.cli import rap as command
    from torpor.conformance.exchange import Exchange
    from torpor.conformance.ledger import Finding, Report

    evil = "\x1b[2J\u202e [bold]x[/bold]\r\nforged"
    finding = Finding("TS-01", "MUST", "is", "broken", evil, (Exchange(evil, evil),))
    assert command._tell(Report(evil, (finding,), (evil,)), as_json=False) == 1
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold]x[/bold]" in shown
    assert command._tell(Report(evil, (finding,), (evil,)), as_json=True) == 1
    assert capsys.readouterr().out.isascii()
