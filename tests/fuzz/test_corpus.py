"""Every seed, and every input that a fuzzer found interesting, again: bounded, and no error but ours."""

from pathlib import Path

import pytest

from tests.fuzz.bounds import checked
from tests.fuzz.run import CORPUS, seconds_of
from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_stays_mended(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    target = TARGETS[name]
    kept = [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
    for data in (*target.seeds, *kept):
        checked(target, data)


def test_the_corpus_is_of_targets_that_there_are() -> None:
    assert {path.name for path in Path(CORPUS).iterdir() if path.is_dir()} <= set(TARGETS)


def test_times() -> None:
    assert [seconds_of(told) for told in ("90", "90s", "10m", "2h", "0.5h")] == [90, 90, 600, 7_200, 1_800]
    with pytest.raises(SystemExit):
        seconds_of("soon")
