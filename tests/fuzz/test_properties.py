"""What the fuzzers check, for inputs made by rules: bodies that are nearly right, in every member."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.bounds import checked
from tests.fuzz.targets import TARGETS
from tests.fuzz.wires import BODIES, HEADERS

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None), max_size=30)
    | st.sampled_from(["T", "call_1", "call_2", "https://a.test", "\ud800", "a" * 300, "\x1b[0m", "-1", ""]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def nearly(draw: st.DrawFn, bodies: tuple[dict[str, Any], ...]) -> bytes:
    """A right body with some members left out, replaced, doubled or added."""
    body: dict[str, Any] = dict(draw(st.sampled_from(bodies)))
    for name in draw(st.lists(st.sampled_from(sorted(body)), max_size=3, unique=True)):
        body[name] = draw(VALUES)
    for name in draw(st.lists(st.sampled_from(sorted(body)), max_size=2, unique=True)):
        del body[name]
    body |= draw(st.dictionaries(st.text(max_size=8), VALUES, max_size=2))
    text = json.dumps(body)
    doubled = draw(st.booleans())
    if body and doubled:
        name = draw(st.sampled_from(sorted(body)))
        text = f"{{{json.dumps(name)}: {json.dumps(draw(VALUES))}, {text[1:]}"
    return text.encode()


def _seeds(name: str) -> tuple[dict[str, Any], ...]:
    """The seeds of a target that are JSON objects."""
    found = []
    for seed in TARGETS[name].seeds:
        try:
            value = json.loads(seed.partition(b"\x00")[0])
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return tuple(found)


@SETTINGS
@given(st.integers(0, 4), nearly(BODIES))
def test_callbacks_that_are_nearly_right(which: int, body: bytes) -> None:
    checked(TARGETS["callback"], b"%d\x00%s\x00%s" % (which, HEADERS, body))


@pytest.mark.parametrize("name", ["invocation", "manifest", "answers"])
def test_bodies_that_are_nearly_right(name: str) -> None:
    @SETTINGS
    @given(nearly(_seeds(name)), VALUES)
    def run(body: bytes, value: object) -> None:
        checked(TARGETS[name], body + b"\x00" + json.dumps(value).encode())

    run()


def _events(seed: bytes) -> list[dict[str, Any]]:
    return [
        json.loads(line[6:])
        for line in seed.decode("utf-8", "replace").splitlines()
        if line.startswith("data: {")
    ]


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_streams_that_are_nearly_right(name: str) -> None:
    events = _events(TARGETS[name].seeds[0])
    assert len(events) > 4

    @SETTINGS
    @given(st.lists(nearly(tuple(events)), max_size=8), st.integers(0, 255))
    def run(bodies: list[bytes], size: int) -> None:
        named = b"event: %s\ndata: %s\n\n" if name == "anthropic" else b"%sdata: %s\n\n"
        data = b"".join(named % (_kind(body) if name == "anthropic" else b"", body) for body in bodies)
        checked(TARGETS[name], bytes((0, size)) + data)

    run()


def _kind(body: bytes) -> bytes:
    kind = json.loads(body).get("type", "")
    return kind.encode("utf-8", "replace").replace(b"\n", b"") if isinstance(kind, str) else b"x"


@SETTINGS
@given(
    st.sampled_from(["rows", "segments", "tickets"]),
    st.data(),
)
def test_stored_bytes_that_are_nearly_right(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    seed = bytearray(data.draw(st.sampled_from(target.seeds)))
    for _ in range(data.draw(st.integers(1, 4))):
        seed[data.draw(st.integers(0, len(seed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.integers(0, len(seed)))
    checked(target, bytes(seed[:cut] if data.draw(st.booleans()) else seed))
