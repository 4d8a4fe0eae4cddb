"""The commands as people run them: real processes on a real file."""

import contextlib
import json
import os
import pty
import re
import signal
import socket
import sqlite3
import stat
import subprocess
from pathlib import Path

import pytest

from tests.cli.shell import Shell, until

pytestmark = pytest.mark.slow


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_without_a_server_a_worker_does_what_was_posted(shell: Shell) -> None:
    started = shell.process("new", "echo", "hello", "there")
    assert started.returncode == 0
    assert "No worker runs 'echo'" in started.stderr
    thread = started.stdout.strip()
    assert "waits for a worker" in shell.good("explain", thread)

    assert shell.process("worker", "--until-idle").returncode == 0
    assert "idle" in shell.good("explain", thread)
    text = shell.good("show", thread)
    assert "hello there" in text
    assert "echo hello there" in text
    assert "its model worked" in text

    said = shell.run("say", thread, "-", said="from the input")
    assert (said.returncode, said.stdout) == (0, "")
    assert "received (steer)" in said.stderr
    assert shell.process("worker", "bots:echo", "--until-idle").returncode == 0
    found = shell.shown(thread)
    assert [message["type"] for message in found["messages"]] == ["noted", "said", "turn", "said", "turn"]
    assert found["messages"][-1]["text"] == "echo from the input"
    assert [record["version"] for record in found["records"]] == [0, 1]
    assert found["thread"]["explanation"]["waits"] == []


def test_an_agent_may_name_a_configured_mcp_server(shell: Shell) -> None:
    (shell.folder / "filing.py").write_text(
        "from torpor import Agent, McpServer\n"
        "from torpor.models import ScriptedModel\n"
        'filer = Agent("filer", model=ScriptedModel(lambda request: "."), tools=[McpServer("files")])\n'
    )
    settings = shell.folder / "torpor.toml"
    table = '[mcp.files]\ncommand = ["no-such-program", "${FILES_KEY:-none}"]\n'
    settings.write_text(settings.read_text().replace('"bots:fetcher"', '"filing:filer"') + table)
    thread = shell.good("new", "filer", "Hello.").strip()
    shell.good("say", thread, "And more.")
    assert shell.shown(thread)["thread"]["explanation"]["received"] == 2


def test_with_a_server_commands_go_through_it(shell: Shell) -> None:
    with shell.serving() as url:
        token_file = shell.folder / "threads.db.token"
        assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
        waited = shell.run("new", "echo", "hi", "--wait", "--owner", "ann", "--context", '{"a": 1}')
        assert waited.returncode == 0, waited.stderr
        thread, reply = waited.stdout.split("\n", 1)
        assert reply == "echo hi\n"
        assert "warning" not in waited.stderr
        assert shell.good("say", thread, "again", "-w") == "echo again\n"
        (row,) = json.loads(shell.good("threads", "--json", "--owner", "ann"))
        assert (row["id"], row["context"], row["state"]) == (thread, {"a": 1}, "open")
        assert thread in shell.good("threads")
        said = [message for message in shell.shown(thread)["messages"] if message["type"] == "said"]
        assert {message["by"]["verified"] for message in said} == {"token"}
        assert f"answers at {url}" in shell.good("doctor")
        shell.good("close", thread)
        until(lambda: "closed" in shell.good("explain", thread))
        refused = shell.run("say", thread, "hello?")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "closed" in refused.stderr
    assert f"POST /threads/{thread}/messages 202" in shell.log
    assert token_file.read_text().strip() not in shell.log
    assert "none answers" in shell.good("doctor")
    assert "echo again" in shell.good("show", thread)


def test_a_foreign_server_at_the_address_gets_no_token(
    shell: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Shell(tmp_path_factory.mktemp("other"))
    with shell.serving() as own:
        assert shell.good("new", "echo", "hi").strip()
    with other.serving() as url:
        file = sqlite3.connect(shell.folder / "threads.db")
        with file:
            changed = file.execute(
                "UPDATE small SET value = CAST(replace(CAST(value AS TEXT), ?, ?) AS BLOB) "
                "WHERE space = 'addresses' AND instr(value, ?)",
                (own, url, own.encode()),
            )
            assert changed.rowcount
        file.close()
        before = other.log.count("GET /healthz")
        thread = shell.good("new", "echo", "hello").strip()
        assert other.log.count("GET /healthz") > before
        assert "POST /threads" not in other.log
    assert "a worker" in shell.good("explain", thread)


def test_a_port_that_is_taken_leaves_nothing_behind(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = shell.run("serve", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert "perhaps another server of yours; give another port to --listen" in done.stderr
    assert sorted(path.name for path in shell.folder.iterdir()) == ["bots.py", "torpor.toml"]


def test_a_server_without_agents_says_how_to_name_some(shell: Shell) -> None:
    (shell.folder / "torpor.toml").write_text('listen = "127.0.0.1:0"\n')
    with shell.serving():
        assert "Name some, `torpor serve package.module:name`" in shell.log


def test_threads_are_a_line_each_where_nobody_looks_at_a_terminal(shell: Shell) -> None:
    shell.environment["COLUMNS"] = "40"
    ids = [shell.good("new", "echo", "many words " * 9).strip() for _ in range(2)]
    heading, *rows = shell.good("threads").splitlines()
    assert heading.split()[:3] == ["thread", "agent", "state"]
    assert sorted(row.split()[0] for row in rows) == sorted(ids)
    assert all("open   slice echo" in row and "many words many words many" in row for row in rows)


@pytest.mark.parametrize(("command", "usage"), [("new", "[TEXT]..."), ("serve", "[AGENT]...")])
def test_usage_lines_hold_no_brackets_in_brackets(shell: Shell, command: str, usage: str) -> None:
    told = shell.good(command, "--help").splitlines()[0]
    assert usage in told
    assert "[[" not in told


def test_a_worker_that_was_killed_loses_nothing(tmp_path: Path) -> None:
    shell = Shell(tmp_path, TORPOR_LEASE="1", TORPOR_CLAIM="1")
    thread = shell.good("new", "fetcher", "look").strip()
    with shell.running("worker") as process:
        until((tmp_path / "started").exists)
        assert "fetch" in shell.good("explain", thread)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(5)
    (tmp_path / "gate").write_text("open \x1b[2J\x1b]0;title\x07 now")
    assert shell.process("worker", "--until-idle").returncode == 0
    found = shell.shown(thread)
    assert [message["type"] for message in found["messages"]] == ["noted", "said", "turn", "result", "turn"]
    assert found["messages"][-1]["text"] == "It says: open \x1b[2J\x1b]0;title\x07 now"
    text = shell.good("show", thread)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "open ␛[2J␛]0;title␇ now" in text
    assert "→ fetch()" in text
    assert "for fetch" in text


def test_stop_and_nudge(shell: Shell) -> None:
    thread = shell.good("new", "fetcher", "look").strip()
    with shell.running("worker"):
        until((shell.folder / "started").exists)
        shell.good("stop", thread)
        until(lambda: "stopped" in shell.good("explain", thread))
        (shell.folder / "gate").write_text("x")
        shell.good("nudge", thread)
        until(lambda: "idle" in shell.good("explain", thread))
    assert "stopped" in shell.good("show", thread)


def test_a_reply_streams_to_a_terminal(shell: Shell) -> None:
    with shell.serving():
        thread = shell.good("new", "echo").strip()
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            shell.command("say", thread, "--wait", "one \x1b[31m two"),
            cwd=shell.folder, env=shell.environment, stdout=theirs, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 1_000):
                seen += piece
        except OSError:
            pass  # the other side is closed: that is how a terminal says so
        os.close(ours)
        assert process.wait(5) == 0
    assert seen.decode() == "echo one ␛[31m two\r\n"


def test_a_reply_that_does_not_come_in_time(shell: Shell) -> None:
    with shell.serving():
        waited = shell.run("new", "fetcher", "look", "--wait", "--timeout", "0.5")
        assert waited.returncode == 1
        assert "no reply yet" in waited.stderr
        assert "fetch" in waited.stderr
        (shell.folder / "gate").write_text("x")


def test_follow_shows_what_comes(shell: Shell) -> None:
    with shell.serving():
        thread = shell.good("new", "echo", "one", "--wait").split("\n")[0]
        with shell.running("show", thread, "--follow"):
            until(lambda: "echo one" in shell.log)
            shell.good("say", thread, "two")
            until(lambda: "echo two" in shell.log)
    assert shell.log.count("echo one") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("frobnicate",), 2, "No such command"),
        (("say",), 2, "Missing argument"),
        (("new", "echo", "hi", "--context", "{"), 2, "no JSON"),
        (("new", "echo", "--wait"), 2, "first words"),
        (("new", "nobody", "hi"), 1, "No agent 'nobody' is known here. Known: echo, fetcher."),
        (("new", "echo", "   "), 1, "nothing in this message"),
        (("show", "x"), 1, "There is no store"),
        (("threads", "--store", "memory:"), 1, "where no command reaches it"),
        (("threads", "--store", "postgresql://me:secret@127.0.0.1:1/x"), 1, "does not answer"),
        (("threads", "--store", "redis://x"), 1, "There is no store of the kind 'redis'"),
        (("threads", "--config", "absent.toml"), 1, "absent.toml cannot be read"),
        (("worker", "bots:nobody"), 1, "'bots' has no agent 'nobody'. It has: echo, fetcher."),
        (("worker", "bots"), 1, "write package.module:name"),
        (("serve", "--listen", "0.0.0.0"), 1, "no address to listen on"),
        (("new", "echo", "hi", "--store", "sqlite:///no/such/folder/x.db"), 1, "cannot be opened"),
    ],
)
def test_what_is_refused(shell: Shell, arguments: tuple[str, ...], code: int, says: str) -> None:
    done = shell.run(*arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    assert done.stdout == ""


def test_stores_that_cannot_be_used_are_left_alone(shell: Shell) -> None:
    thread = shell.good("new", "echo", "hi").strip()
    path = shell.folder / "threads.db"
    assert "no thread 'nobody'" in shell.run("show", "nobody").stderr
    file = sqlite3.connect(path)
    file.execute("PRAGMA user_version = 999")
    file.close()
    before = path.read_bytes()
    for arguments in (("show", thread), ("say", thread, "x"), ("doctor",), ("worker", "--until-idle")):
        done = shell.process(*arguments) if arguments[0] == "worker" else shell.run(*arguments)
        assert done.returncode == 1
        assert "newer release" in done.stderr + done.stdout
    assert path.read_bytes() == before
    path.write_bytes(b"this is no database at all, but long enough to be looked at\n" * 100)
    done = shell.run("doctor")
    assert (done.returncode, "✗ store" in done.stdout) == (1, True)
    assert "no SQLite database" in shell.run("threads").stderr


def test_doctor_says_what_is_wrong(shell: Shell) -> None:
    absent = shell.run("doctor")
    assert (absent.returncode, "there is no file threads.db yet" in absent.stdout) == (1, True)
    thread = shell.good("new", "echo", "hi").strip()
    stranded = shell.run("doctor")
    assert stranded.returncode == 1
    assert "start a worker for echo" in stranded.stdout
    assert shell.process("worker", "--until-idle").returncode == 0
    well = shell.run("doctor")
    assert well.returncode == 0, well.stdout
    assert "✗" not in well.stdout
    (shell.folder / "threads.db.token").write_text("a-token-that-anybody-may-read\n")
    (shell.folder / "threads.db.token").chmod(0o644)
    readable = shell.run("doctor")
    assert (readable.returncode, "chmod 600" in readable.stdout) == (1, True)
    assert thread not in readable.stdout


def test_a_wrong_setting_is_named(shell: Shell) -> None:
    with (shell.folder / "torpor.toml").open("a") as file:
        file.write("worker = 3\n")
    done = shell.run("threads")
    assert done.returncode == 1
    assert "there is no setting 'worker'. Did you mean workers?" in done.stderr
    assert "settings" in shell.run("doctor").stdout


def test_a_worker_that_was_killed_is_not_taken_for_one_that_runs(shell: Shell) -> None:
    with shell.running("worker") as process:
        until(lambda: "working" in shell.log)
        process.kill()
    seen = shell.run("doctor")
    assert re.search(r"✓ workers .* runs echo, fetcher \(last seen \d+ s ago\)", seen.stdout)
    shell.good("new", "echo", "hi")
    kept = shell.run("doctor")
    assert (kept.returncode, "✓ threads   1 thread of echo" in kept.stdout) == (0, True), kept.stdout


def test_doctor_says_that_a_file_is_read_only(shell: Shell) -> None:
    shell.good("new", "echo", "hi")
    (shell.folder / "threads.db").chmod(0o444)
    done = shell.run("doctor")
    assert (done.returncode, "✗ store" in done.stdout) == (1, True)
    assert "threads.db is read-only: make the file and its folder writable" in done.stdout


NOISE = b"a\xff\xfe\xed\xa0\x80b"


@pytest.mark.parametrize("served", [False, True])
def test_bytes_that_are_no_text_never_end_in_a_traceback(shell: Shell, served: bool) -> None:
    with shell.serving() if served else contextlib.nullcontext():
        thread = shell.good("new", "echo", "hi").strip()
        tried = (
            (["say", thread, NOISE], 0),
            (["say", thread, "-"], 0),
            (["say", thread, "x", "--key", NOISE], 1),
            (["say", NOISE, "x"], 1),
            (["new", "echo", NOISE, "--owner", NOISE, "--user-id", NOISE, "--context", b'"\xff"'], 0),
            (["new", NOISE, "x"], 1),
            (["new", "echo", "x", "--thread", NOISE], 1),
            (["threads", "--owner", NOISE, "--agent", NOISE], 0),
            (["show", NOISE], 1),
        )
        for arguments, code in tried[:4] if served else tried:
            done = subprocess.run(
                [os.fsencode(part) for part in [*shell.command(), *arguments]],
                cwd=shell.folder, env=shell.environment, input=NOISE, capture_output=True, check=False,
            )  # fmt: skip
            assert (done.returncode, b"Traceback" in done.stderr) == (code, False), (arguments, done.stderr)
    shown = shell.shown(thread)
    told = [message["text"] for message in shown["messages"] if message["type"] == "said"]
    told += [words["text"] for words in shown["thread"]["received"]]
    assert [text for text in told if "\ufffd" in text] == ["a\ufffd\ufffd\ufffd\ufffd\ufffdb"] * 2


def test_forks_and_trees(shell: Shell) -> None:
    thread = shell.good("new", "echo", "one").strip()
    assert shell.process("worker", "--until-idle").returncode == 0
    refused = shell.run("fork", thread, "--at", "9")
    assert (refused.returncode, "from 1 to 3" in refused.stderr) == (1, True)
    heir = shell.good("fork", thread, "--at", "2").strip()
    told = json.loads(shell.good("fork", thread, "--json"))
    assert (told["parent"], told["root"]) == ("", told["id"])
    shell.good("say", heir, "two")
    assert shell.process("worker", "--until-idle").returncode == 0
    assert f"it continues {thread} up to 2" in shell.good("show", heir)
    assert f"{heir} continues this history from 2 on" in shell.good("show", thread)
    file = sqlite3.connect(shell.folder / "threads.db")
    with file:
        file.execute("UPDATE threads SET parent = ?, root = ?, purpose = 'child' WHERE thread = ?",
                     (thread, thread, heir))  # fmt: skip
    file.close()
    _, *rows = shell.good("threads", "--tree").splitlines()
    assert [row.split()[0] for row in rows].index(heir) == [row.split()[0] for row in rows].index(thread) + 1
    assert len(json.loads(shell.good("threads", "--purpose", "root", "--json"))) == 2
