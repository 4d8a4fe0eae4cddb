"""Wakes those who wait for work: one for each strike, or all whose time has come."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Container

from torpor.ports import Clock

NEVER = float("inf")


class _Waiter:
    __slots__ = ("agents", "tiers", "until", "woken")

    def __init__(
        self,
        woken: asyncio.Future[None],
        until: float,
        agents: Container[str] | None,
        tiers: Container[str] | None,
    ) -> None:
        self.woken = woken
        self.until = until
        self.agents = agents
        self.tiers = tiers

    def wants(self, agent: str, tier: str) -> bool:
        if self.agents is not None and agent not in self.agents:
            return False
        return self.tiers is None or tier in self.tiers


class Bell:
    """The waiting side of a queue. However many wait, one task at most watches the clock."""

    def __init__(self, clock: Clock | None) -> None:
        self.now: Callable[[], float] = clock.now if clock else time.time
        self._sleep: Callable[[float], Awaitable[None]] = clock.sleep if clock else asyncio.sleep
        self._waiters: list[_Waiter] = []
        self._alarm: asyncio.Task[None] | None = None
        self._alarm_at = 0.0

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return len(self._waiters)

    async def wait(
        self, until: float, agents: Container[str] | None = None, tiers: Container[str] | None = None
    ) -> None:
        """Wait for a strike that concerns these agents and tiers, or for the instant ``until``."""
        waiter = _Waiter(asyncio.get_running_loop().create_future(), until, agents, tiers)
        self._waiters.append(waiter)
        self._set_alarm(until)
        try:
            await waiter.woken
        except asyncio.CancelledError:
            if waiter.woken.done() and not waiter.woken.cancelled():
                self.strike_all()  # its strike is somebody else's now
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def strike(self, agent: str, tier: str, at: float = 0.0) -> bool:
        """There is work from ``at`` on: wake one waiter whom it concerns, if it would not wake by then.

        One who waits for some tiers only is woken before those who could do other work as well. Says whether
        somebody was woken.
        """
        found: _Waiter | None = None
        for waiter in self._waiters:
            # One that is done was cancelled and has not run since: it would take the strike along.
            if waiter.until > at and waiter.wants(agent, tier) and not waiter.woken.done():
                if waiter.tiers is not None:
                    self._wake(waiter)
                    return True
                found = found or waiter
        if found is not None:
            self._wake(found)
        return found is not None

    def strike_all(self, at: float = 0.0) -> None:
        """Wake everybody who would not wake by ``at``, to look again."""
        for waiter in [waiter for waiter in self._waiters if waiter.until > at]:
            self._wake(waiter)

    def close(self) -> None:
        """Wake everybody and stop watching the clock."""
        self.strike_all()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _wake(self, waiter: _Waiter) -> None:
        self._waiters.remove(waiter)
        if not waiter.woken.done():
            waiter.woken.set_result(None)

    def _set_alarm(self, until: float) -> None:
        if self._alarm is not None and not self._alarm.done():
            if self._alarm_at <= until:
                return
            self._alarm.cancel()
        self._alarm_at = until
        self._alarm = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while self._waiters:
            self._alarm_at = min(waiter.until for waiter in self._waiters)
            await self._sleep(self._alarm_at - self.now())
            now = self.now()
            for waiter in [waiter for waiter in self._waiters if waiter.until <= now]:
                self._wake(waiter)
