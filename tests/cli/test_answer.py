"""``torpor answer``, with and without a server: what is asked is shown with the command that answers it."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.shell import Shell, until

PAYER = '''
from torpor import Agent, Approvals, tool
from torpor.models import ScriptedModel, call, say


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def paying(request):
    if request.results:
        return say("It says: " + request.results[0].text)
    return call("pay", amount=10)


payer = Agent("payer", model=ScriptedModel(paying), tools=[pay], approvals=Approvals(seconds=7200.0))
'''


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "payers.py").write_text(PAYER)
    settings = (tmp_path / "torpor.toml").read_text().replace('"bots:echo"', '"payers:payer", "bots:echo"')
    (tmp_path / "torpor.toml").write_text(settings)
    return shell


def asked(shell: Shell, thread: str) -> str:
    """The id of the wait that is asked, once it is."""
    until(lambda: "torpor answer" in shell.good("explain", thread))
    found = re.search(r"torpor answer (\S+) approve\|deny", shell.good("explain", thread))
    assert found
    return found[1]


@pytest.mark.slow
def test_answers_through_a_server_and_without_one(shell: Shell) -> None:
    with shell.serving():
        thread = shell.good("new", "payer", "Pay.").strip()
        other = shell.good("new", "payer", "Pay as well.").strip()
        wait = asked(shell, thread)
        told = shell.good("show", thread)
        assert f"torpor answer {wait} approve|deny" in told
        assert '{"amount": 10}' in told
        assert "left, then deny" in told
        assert "approval pay" in shell.good("threads")
        wrong = shell.run("answer", wait, "perhaps")
        assert wrong.returncode == 1
        assert "Answers: 'approve', 'deny'" in wrong.stderr
        denied = shell.run("answer", wait, "deny", "--comment", "Too much.")
        assert (denied.returncode, denied.stdout) == (0, "")
        assert "received (deny)" in denied.stderr
        until(lambda: "idle" in shell.good("explain", thread))
        assert "denied it. What they say: Too much." in shell.good("show", thread)
        again = shell.run("answer", wait, "approve", "--json")
        assert again.returncode == 1
        assert json.loads(again.stdout) == {"wait": wait, "outcome": "denied"}
        assert "over already: denied" in again.stderr
        for unknown in (f"{thread}.x.approval", "nothing", "../threads", "a b.c"):
            refused = shell.run("answer", unknown, "approve")
            assert refused.returncode == 1
            assert "never was" in refused.stderr
        left = asked(shell, other)
    assert asked(shell, other) == left
    approved = shell.run("answer", left, "approve")
    assert approved.returncode == 0
    assert "received (approve)" in approved.stderr
    unknown_here = shell.run("answer", f"{thread}.x.approval", "approve")
    assert (unknown_here.returncode, "never was" in unknown_here.stderr) == (1, True)
    assert shell.run("answer", left, "deny").returncode == 1
