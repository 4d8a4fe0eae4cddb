"""The configuration that the pages about MCP show is one that works, and the tools they name are offered."""

import json
import re
from pathlib import Path

import pytest

from tests.docs.pages import Block, page
from torpor.mcp.offers import of_agents, shared
from torpor.settings import load
from torpor.tools.mcp.clients import mcp_servers
from torpor.tools.mcp.configured import Configured

PAGES = ("docs/mcp.md", "docs/mcp_authorization.md")
ENVIRON = {"GITHUB_TOKEN": "t", "SEARCH_KEY": "k", "FILES_SECRET": "s"}
TOML = [block for name in PAGES for block in page(name).blocks("toml")]
JSON = [block for name in PAGES for block in page(name).blocks("json")]


@pytest.mark.parametrize("block", TOML, ids=map(str, TOML))
def test_settings_are_such(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "torpor.toml"
    file.write_text(block.text, encoding="utf-8")
    settings = load(file, environ={})
    found = Configured(settings.mcp, "", ENVIRON)
    assert [found[name].name for name in found] == list(settings.mcp)
    assert settings.mcp or settings.mcp_servers


@pytest.mark.parametrize("block", JSON, ids=map(str, JSON))
def test_files_of_other_clients_are_such(block: Block) -> None:
    assert mcp_servers(json.loads(block.text), environ=ENVIRON)


def test_the_tools_that_are_offered_are_named_with_their_arguments() -> None:
    offers = [*of_agents(["NAME"]), *shared(answers=True, calls=False)]
    shown = {f"`{offer.name}({', '.join(offer.takes['properties'])})`" for offer in offers}
    assert shown == set(re.findall(r"^\| (`\w+\([^)]*\)`)", page("docs/mcp.md").text, re.MULTILINE))
