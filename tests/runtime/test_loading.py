"""Agents by reference: whatever their module does, it is said in one line, with its place."""

import sys
from pathlib import Path

import pytest

from torpor.core.errors import Refused
from torpor.models import resolve
from torpor.wiring import load_agents

GOOD = "from torpor import Agent\nfrom torpor.models import ScriptedModel\n"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x = 1\n\n1 / 0\n", r"/{name}\.py:3: ZeroDivisionError: division by zero\.$"),
        ("def broken(:\n", r"/{name}\.py:1: SyntaxError: invalid syntax\.$"),
        ("import no_such_module\n", r"/{name}\.py:1: ModuleNotFoundError: No module named 'no_such"),
        ("from json import no_such_name\n", r"/{name}\.py:1: ImportError: cannot import name 'no_such_name'"),
        ("raise SystemExit(3)\n", r"/{name}\.py:1: SystemExit: 3\.$"),
        ("raise RuntimeError('two\\nlines')\n", r"RuntimeError: two lines\.$"),
        ("assert False\n", r"/{name}\.py:1: AssertionError\.$"),
        ("x = '\ud800'\n", r"{name}.*(SyntaxError|UnicodeDecodeError)"),
        (GOOD + "a = Agent('a', model=None)\n", r"/{name}\.py:3: Agent 'a': its model must be"),
        (GOOD + "a = Agent('a', model=ScriptedModel([]))\n", r"has no agent 'agent'\. It has: a\.$"),
        ("agent = 5\n", r"is a int, not an Agent\.$"),
    ],
)
def test_a_module_that_fails_is_named_with_the_place_and_the_error(
    source: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"agents_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_bytes(source.encode(errors="surrogatepass"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Refused, match=says.replace("{name}", name)) as refused:
        load_agents([f"{name}:agent"])
    sys.modules.pop(name, None)
    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_script_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_script.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        Refused, match=r"script failing_script:x cannot.*/failing_script\.py:1: ZeroDivisionError"
    ):
        resolve("scripted:failing_script:x")


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(Refused, match=r"'no_such:x' cannot be loaded: ModuleNotFoundError: No module named"):
        load_agents(["no_such:x"])
