"""Paths below one root directory."""

from pathlib import Path

from torpor.tools.server import ToolError


def inside(root: Path, path: str, *, must_exist: bool = True) -> Path:
    """Resolve a path against the root, links included. Raises ToolError if it leads out or to nothing."""
    try:
        found = (root / path).resolve(strict=must_exist)
    except (OSError, ValueError, RuntimeError):
        raise ToolError(f"there is no {path!r} below the root directory") from None
    if not found.is_relative_to(root):
        raise ToolError(f"{path!r} is outside the root directory; use a path below it")
    return found
