"""How the suites for stores open one."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from torpor.ports import Backend, Clock
from torpor.testing.clock import FakeClock

FullStore = Backend
"""A store that also keeps the small things beside threads, and takes them away again."""

Opening = Callable[[], AbstractAsyncContextManager[FullStore]]


class OpensStores(ABC):
    """The part that a subclass gives. Its tests need a plugin that runs async tests."""

    @abstractmethod
    def opened(self, place: Path, clock: Clock) -> AbstractAsyncContextManager[FullStore]:
        """A store over the rows kept for ``place`` (an empty folder at first), released on exit.

        Opened again, also meanwhile, it has the same rows. Its time is ``clock``'s.
        """

    @pytest.fixture
    def clock(self) -> FakeClock:
        """The store's clock."""
        return FakeClock()

    @pytest.fixture
    def opening(self, tmp_path: Path, clock: FakeClock) -> Opening:
        """Opens a store; each use is one more handle on the same rows."""
        return lambda: self.opened(tmp_path, clock)
