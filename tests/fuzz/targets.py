"""All places that read foreign bytes, by name."""

from tests.fuzz import apis, pipes, rows, streams, wires, words
from tests.fuzz.bounds import Target

TARGETS: dict[str, Target] = {
    target.name: target for module in (wires, streams, rows, words, pipes, apis) for target in module.TARGETS
}
