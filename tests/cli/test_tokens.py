"""The token file: made once, readable by its owner alone."""

import stat
import threading
from pathlib import Path

import pytest

from torpor import Refused
from torpor.cli.tokens import make_token, read_token


def test_it_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "a.token"
    assert read_token(path) == ""
    token = make_token(path)
    assert len(token) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert make_token(path) == token == read_token(path)
    assert [one.name for one in tmp_path.iterdir()] == ["a.token"]


def test_processes_that_start_together_agree(tmp_path: Path) -> None:
    path = tmp_path / "a.token"
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(make_token(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {read_token(path)}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_one_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.token"
    make_token(path)
    path.chmod(mode)
    with pytest.raises(Refused, match="chmod 600"):
        read_token(path)


@pytest.mark.parametrize("text", ["", "short", "\x00" * 40, "é" * 40])
def test_one_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(Refused, match="token"):
        read_token(path)


def test_without_a_file(tmp_path: Path) -> None:
    assert read_token(None) == ""
    assert make_token(None) != make_token(None)
    with pytest.raises(Refused, match="cannot be written"):
        make_token(tmp_path / "absent" / "a.token")
