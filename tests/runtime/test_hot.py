"""Which threads stay decoded in memory."""

from torpor.core.thread import Head
from torpor.ports import Version
from torpor.runtime.hot import Hot, Warm


def warm(size: int, state: str = "open") -> Warm:
    return Warm(Version(1, "a"), Head(agent="clerk", state=state), None, size)


def kept(hot: Hot, *threads: str) -> list[str]:
    return [thread for thread in threads if hot.get(thread) is not None]


def test_those_used_longest_ago_go_first() -> None:
    hot = Hot(100)
    for thread in ("a", "b"):
        hot.put(thread, warm(40))
    hot.get("a")
    hot.put("c", warm(40))
    assert kept(hot, "a", "b", "c") == ["a", "c"]
    hot.put("a", warm(70))
    assert kept(hot, "a", "b", "c") == ["a"]


def test_a_thread_that_has_closed_is_not_kept() -> None:
    hot = Hot(100)
    hot.put("a", warm(40))
    hot.put("a", warm(60, "closed"))
    assert kept(hot, "a") == []
    hot.put("b", warm(100))
    assert kept(hot, "b") == ["b"], "the closed one takes no room"
