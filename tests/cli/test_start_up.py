"""What asking for help loads: nothing that only some command needs."""

import subprocess
import sys

LATE = {
    "aiohttp", "anthropic", "jsonschema_rs", "openai", "pydantic", "rich", "sqlite3", "starlette", "uvicorn",
    "torpor.wiring", "torpor.web.app",
}  # fmt: skip


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_an_import_loads_almost_nothing() -> None:
    assert not LATE & modules_after("import torpor")


def test_help_loads_no_command_s_needs() -> None:
    loaded = modules_after("import torpor.cli.app")
    assert not LATE & loaded
    assert "typer" in loaded


def test_help_names_every_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torpor", "--help"], capture_output=True, text=True, check=True
    )
    for name in (
        "serve",
        "worker",
        "new",
        "say",
        "show",
        "threads",
        "explain",
        "stop",
        "nudge",
        "close",
        "doctor",
        "demo",
    ):
        assert f"\n  {name} " in done.stdout
    version = subprocess.run(
        [sys.executable, "-m", "torpor", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith("torpor ")
