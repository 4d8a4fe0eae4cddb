"""The HTTP API as its own description has it: schemathesis, against a server that is a process."""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cli.shell import Shell
from tests.docs.pages import ROOT

TOOL = ROOT / ".venv" / "schemathesis" / "bin" / "schemathesis"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "ignored_auth",
)
EXAMPLES = 10
SECONDS = 400

# A description knows nothing of the threads that there are, so some are named; streams never end.
CONFIG = """
[parameters]
"path.thread" = "T"

[[operations]]
include-path = "/threads/{thread}/events"
enabled = false
"""


@pytest.mark.skipif(not TOOL.exists(), reason="schemathesis is not installed: make test-long does that")
async def test_the_api_does_what_its_description_says(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    with shell.serving() as url:
        token = (tmp_path / "threads.db.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            await _ask(session, f"{url}/threads", {"agent": "echo", "thread": "T", "text": "hi"})
            done = await asyncio.to_thread(
                subprocess.run,
                [
                    str(TOOL),
                    *("--config-file", str(tmp_path / "schemathesis.toml")),
                    *("run", f"{url}/openapi.json", "-H", f"Authorization: Bearer {token}"),
                    *("--checks", ",".join(CHECKS), "--max-examples", str(EXAMPLES)),
                    *("--phases", "coverage,fuzzing", "--request-timeout", "60", "--no-color"),
                    *("--seed", "1", "--continue-on-failure", "--suppress-health-check", "all"),
                ],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-6_000:]
            tried = re.search(r"(\d+) generated", done.stdout)
            assert tried, done.stdout[-2_000:]
            assert int(tried[1]) > 300
            async with session.get(f"{url}/healthz") as answer:
                assert answer.status == 200
    assert "should not" not in shell.log
    assert "Traceback" not in shell.log
    assert token not in shell.log


async def _ask(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
    async with session.post(url, json=body) as answer:
        assert answer.status == 201, json.dumps(await answer.json())
