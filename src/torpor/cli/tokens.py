"""The API token of a store: a file that only its owner may read."""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from torpor.core.errors import Refused

LEAST = 16
"""Characters of the shortest token that is accepted."""


def read_token(path: Path | None) -> str:
    """The token, or empty if there is no file. ``Refused`` if others may read it, or it is too short."""
    if path is None:
        return ""
    try:
        with path.open(encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(1_024).strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"The token file {path} cannot be read: {error}.") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise Refused(f"The token file {path} can be read by others. Run: chmod 600 {path}")
    if len(token) < LEAST or not token.isprintable():
        raise Refused(f"The token file {path} holds no token. Delete it; `torpor serve` makes a new one.")
    return token


def make_token(path: Path | None) -> str:
    """The token of this file, made if there is none yet; one that nobody keeps where there is no file."""
    if path is None:
        return secrets.token_urlsafe(32)
    token = read_token(path)
    if not token:
        _write_new(path, secrets.token_urlsafe(32))
        token = read_token(path)
    return token


def _write_new(path: Path, token: str) -> None:
    """Write the file whole or not at all; if somebody else was first, theirs stays."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(token + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise Refused(f"The token file {path} cannot be written: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)
