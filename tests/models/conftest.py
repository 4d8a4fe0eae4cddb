import pytest


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has in its environment stays out of the tests."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
