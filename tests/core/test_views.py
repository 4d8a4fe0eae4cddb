"""Progress in words."""

import pytest

from torpor.core.views import Progress, views_space


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (Progress(0.5, "compiling"), "50% done: compiling"),
        (Progress(0.0), "0% done"),
        (Progress(1.0), "100% done"),
        (Progress(message="queued"), "queued"),
        (Progress(), ""),
    ],
)
def test_how_far_a_call_has_come(progress: Progress, words: str) -> None:
    assert progress.words == words


def test_each_thread_has_views_of_its_own() -> None:
    assert views_space("a") != views_space("b")
