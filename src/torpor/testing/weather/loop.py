"""An event loop whose time is virtual and whose order comes of a seed: no threads, no sockets, no waiting.

What is ready belongs to a *process*, which keeps it in the order in which it came, as a loop of its own
would; which process goes on next is drawn. When nothing is ready anywhere, time jumps to the next timer. A
process that is killed takes no further step; one that is paused takes none until it goes on.
"""

import asyncio
import heapq
from asyncio import Future, Task
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

STEPS = 400_000
"""Steps of one run: one that takes more never comes to its end."""


class Endless(AssertionError):
    """A run does not come to its end."""


class Place:
    """Where code runs: a process, or the world outside of all of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[Handle] = deque()
        self.dead = False
        self.paused = False
        self.steps_left = -1
        """Steps until it is killed; below 0: it is not."""
        self.killed: Callable[[], None] = lambda: None
        """Called when that has come."""
        self.context = copy_context()
        self.context.run(HERE.set, self)


HERE: ContextVar[Place] = ContextVar("HERE")
"""The place of the code that runs."""


class Handle:
    """One callback that is to be called, perhaps later."""

    __slots__ = ("args", "callback", "context", "gone", "moment", "place")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, place: Place
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.place = place
        self.gone = False
        self.moment = 0.0

    def cancel(self) -> None:
        """It is not called."""
        self.gone = True

    def cancelled(self) -> bool:
        """Whether it is not."""
        return self.gone

    def when(self) -> float:
        """The loop's time at which it is called."""
        return self.moment


class Loop(asyncio.AbstractEventLoop):
    """The loop. ``random`` draws who goes on; ``start`` is its time at first."""

    def __init__(self, random: Random, start: float = 0.0) -> None:
        self._random = random.random
        self._time = start
        self._timers: list[tuple[float, int, Handle]] = []
        self._numbers = 0
        self.outside = Place("outside")
        self.places = [self.outside]
        self.graves: list[object] = []
        """What is kept until the run has ended: what the dead held must not go in the middle of it."""
        self.steps = 0
        self._running = False

    # ---------------------------------------------------------------- what asyncio asks of a loop

    def time(self) -> float:
        return self._time

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> Future[Any]:
        return Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: Any,
    ) -> Task[T]:
        return Task(coro, loop=self, name=name, context=context)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        context = context or copy_context()
        place = context.get(HERE, self.outside)
        handle = Handle(callback, args, context, place)
        (self.graves if place.dead else place.ready).append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_at(self._time + max(0.0, delay), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        context = context or copy_context()
        handle = Handle(callback, args, context, context.get(HERE, self.outside))
        handle.moment = when
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, handle))
        return handle

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tasks of the dead end without a word."""

    # ---------------------------------------------------------------- running

    def begin(self, place: Place, coro: Coroutine[Any, Any, T]) -> None:
        """Begin a task at a place."""
        self.graves.append(self._task(place, coro))

    def _task(self, place: Place, coro: Coroutine[Any, Any, T]) -> Task[T]:
        return Task(coro, loop=self, name="task", context=place.context.copy())

    def run_until_complete(self, future: Any) -> Any:
        """Run a coroutine outside of all processes, to its end."""
        task = self._task(self.outside, future)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not task.done():
                self._step()
        finally:
            self._running = False
            asyncio._set_running_loop(None)
        return task.result()

    def _step(self) -> None:
        place = self._chosen()
        if place is None:
            self._jump()
            return
        handle = place.ready.popleft()
        if handle.gone:
            return
        self.steps += 1
        if self.steps > STEPS:
            raise Endless(f"no end after {STEPS:,} steps")
        if place.steps_left >= 0 and self._ends_here(place):
            return
        handle.context.run(handle.callback, *handle.args)

    def _ends_here(self, place: Place) -> bool:
        place.steps_left -= 1
        if place.steps_left >= 0:
            return False
        place.killed()
        return place.dead

    def _chosen(self) -> Place | None:
        """Who goes on."""
        ready = [place for place in self.places if place.ready and not place.paused]
        if not ready:
            return None
        if len(ready) == 1:
            return ready[0]
        return ready[int(self._random() * len(ready))]

    def _jump(self) -> None:
        """Move on to the next timer."""
        timers = self._timers
        while timers:
            when, _, handle = heapq.heappop(timers)
            if handle.gone or handle.place.dead:
                self.graves.append(handle)
                continue
            self._time = max(self._time, when)
            handle.place.ready.append(handle)
            if not (timers and timers[0][0] <= self._time) and not handle.place.paused:
                return
        if not any(place.ready and not place.paused for place in self.places):
            raise Endless("everybody waits, and nothing will ever come")

    def kill(self, place: Place) -> None:
        """Take all steps of a place away, for good."""
        place.dead = True
        self.places.remove(place)
        self.graves.append(list(place.ready))
        place.ready.clear()
