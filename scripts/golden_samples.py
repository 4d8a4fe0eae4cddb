"""Write the golden samples: a file of every stored shape, whole conversations as text, the built-in tools.

A sample of a shape that is there already is never touched: released code has stored such bytes. What is new
or has new fields is added beside it. The others are written anew; read the difference.

Run from the top of the repository: python -m scripts.golden_samples
"""

from __future__ import annotations

import json

import msgspec

from tests.golden.samples import GOLDEN, file_of, samples
from tests.golden.stories import STORIES, written
from torpor.core.builtins import BUILTINS
from torpor.core.codec import encode


def readable(body: bytes) -> str:
    """Stored bytes as text that people can read and compare."""
    return json.dumps(msgspec.msgpack.decode(body), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write what is missing, and all the others."""
    for name, value in samples().items():
        body = encode(value)
        file = file_of(name, body)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_bytes(body)
            file.with_suffix(".json").write_text(readable(body), encoding="utf-8")
    tools = json.dumps([msgspec.to_builtins(tool) for tool in BUILTINS], indent=1)
    (GOLDEN / "builtins.json").write_text(tools + "\n", encoding="utf-8")
    stories = GOLDEN / "conversations"
    stories.mkdir(exist_ok=True)
    for name, story in STORIES.items():
        (stories / f"{name}.txt").write_text(written(story()), encoding="utf-8")


if __name__ == "__main__":
    main()
