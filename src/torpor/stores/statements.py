"""SQL lives in .sql files beside the code; each statement there is a paragraph with a name."""

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_INSERTED = re.compile(r"\$(\w+)")


def statements(package: str, path: str) -> dict[str, str]:
    """The statements of a package's file, by name.

    ``-- name: x`` begins the paragraph ``x``; ``$x`` in a later one stands for its text.
    """
    text = resources.files(package).joinpath(path).read_text(encoding="utf-8")
    _, *pieces = _NAME.split(text)
    found: dict[str, str] = {}
    for name, body in zip(pieces[::2], pieces[1::2], strict=True):
        found[name] = _INSERTED.sub(lambda word: found[word[1]], body).strip()
    return found
