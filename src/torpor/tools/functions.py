"""Python functions as tools: described from their signature, run off the slice, their results bounded."""

import asyncio
import contextvars
import functools
import inspect
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol, overload

import msgspec

from torpor.core.definition import ToolSpec
from torpor.core.errors import Refused
from torpor.core.messages import Link, Part, Text
from torpor.ports import Side
from torpor.tools.reading import PAGE, History, Reach, read_range
from torpor.tools.rendering import failure, render
from torpor.tools.results import RESULT_KEPT, bounded
from torpor.tools.schema import compile_schema, describe

TIMEOUT = 600.0
"""Seconds that a function may take, where it does not say otherwise."""
INLINE_TIMEOUT = 5.0
"""Likewise for one that runs within the slice."""

REPEATS = ("safe", "keyed", "unsafe")


@dataclass(frozen=True)
class ToolContext:
    """What a tool may know of the call it serves: a parameter of this type is filled in, not offered."""

    thread: str = ""
    call: str = ""
    idempotency_key: str = ""
    """The same for every run of one call; give it to services that know such keys."""
    agent: str = ""
    user_id: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    """What the thread was started with."""
    attempt: int = 1
    """Above 1: an earlier run of this call may have happened."""
    lineage: tuple[Link, ...] = field(default=(), repr=False)
    """The histories of other threads that its own continues."""


class ResultParts(msgspec.Struct, frozen=True):
    """What a run gave. ``cause`` is set where the tool itself did not answer (``timeout``)."""

    parts: tuple[Part, ...]
    is_error: bool = False
    handle: str = ""
    """Names the blob with the whole text of ``size`` characters, where ``parts`` hold only the beginning."""
    size: int = 0
    cause: str = ""


class CallFacts(Protocol):
    """What the runtime knows of a call; ``context`` is JSON text."""

    @property
    def thread(self) -> str: ...
    @property
    def call(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def user_id(self) -> str: ...
    @property
    def context(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def lineage(self) -> tuple[Link, ...]: ...


@dataclass(frozen=True, eq=False)
class FunctionTool:
    """A function that agents may call; made by ``tool``. Calling it calls the function."""

    function: Callable[..., Any]
    _: KW_ONLY
    name: str
    description: str
    schema: dict[str, Any]
    bind: Callable[[dict[str, Any]], dict[str, Any]] = field(repr=False)
    context: str | None = None
    """The parameter that takes the ``ToolContext``."""
    repeat: str = "unsafe"
    inline: bool = False
    timeout: float = TIMEOUT
    needs_approval: bool = False
    destructive: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a slice needs it."""
        return ToolSpec(
            self.name,
            self.description,
            self.schema,
            compile_schema(self.schema),
            repeat=self.repeat,
            inline=self.inline,
            timeout=self.timeout,
            needs_approval=self.needs_approval,
            destructive=self.destructive,
        )

    async def run(self, context: ToolContext, arguments: Mapping[str, Any] | str) -> ResultParts:
        """Run it on arguments (or their JSON text); whatever the function does wrong becomes a result."""
        try:
            bound = self.bind(_decoded(arguments))
        except ValueError as error:
            return ResultParts((Text(f"Error: the arguments do not fit: {error}"),), is_error=True)
        if self.context:
            bound[self.context] = context
        try:
            async with asyncio.timeout(self.timeout) as limit:
                outcome = await self._outcome(partial(self.function, **bound))
        except TimeoutError:
            if not limit.expired():
                raise
            unit = "second" if self.timeout == 1 else "seconds"
            text = f"Error: {self.name} did not finish within {self.timeout:g} {unit}."
            return ResultParts((Text(text),), is_error=True, cause="timeout")
        return _result(self.name, outcome)

    async def _outcome(self, call: Callable[[], Any]) -> "_Outcome":
        if inspect.iscoroutinefunction(_inner(self.function)):
            return await _awaited(call)
        outcome = await _in_thread(self.name, call)
        return await _awaited(lambda: outcome.value) if inspect.isawaitable(outcome.value) else outcome


class BoundTool:
    """A tool with the place where its large results are kept; what the runtime runs."""

    def __init__(self, tool: FunctionTool, side: Side, *, limit: int = RESULT_KEPT) -> None:
        self.tool = tool
        self._side = side
        self._limit = limit

    async def run(self, facts: CallFacts, arguments: Mapping[str, Any] | str) -> ResultParts:
        """Run it for a call. Errors of the store are raised; all others are results."""
        result = await self.tool.run(_context(facts), arguments)
        kept = await bounded(result.parts, partial(self._side.put_blob, facts.thread), limit=self._limit)
        return ResultParts(kept.parts, result.is_error, kept.handle, kept.size, result.cause)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    repeat: str = "unsafe",
    inline: bool = False,
    timeout: float | None = None,
    needs_approval: bool = False,
    destructive: bool = False,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    repeat: str = "unsafe",
    inline: bool = False,
    timeout: float | None = None,
    needs_approval: bool = False,
    destructive: bool = False,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a function a tool. Name, description and schema come from its signature and docstring.

    ``repeat`` says what may happen when a run was interrupted by a crash: ``safe`` runs again, ``keyed`` runs
    again with the same ``idempotency_key``, ``unsafe`` is not run again and the model is told so. ``inline``
    (only for ``safe``) runs within the slice. ``timeout`` is in seconds: 600, or 5 for an inline tool. A sync
    function runs in a thread of its own, which a timeout cannot stop. A person approves each call of a tool
    that ``needs_approval`` before it runs, and so of one that is ``destructive``, if the agent's policy is
    not ``never``; such a tool is not run within the slice.

    TypeError for a function or a setting that cannot work.
    """
    _check(repeat, inline=inline, timeout=timeout)
    for flag, value in (("needs_approval", needs_approval), ("destructive", destructive)):
        if not isinstance(value, bool):
            raise TypeError(f"{flag} must be True or False, not {value!r}")
    seconds = timeout if timeout is not None else INLINE_TIMEOUT if inline else TIMEOUT

    def made(function: Callable[..., Any]) -> FunctionTool:
        _check_function(function)
        described = describe(function, skip=(ToolContext,))
        return FunctionTool(
            function,
            name=name or described.name,
            description=description or described.description,
            schema=described.schema,
            bind=described.bind,
            context=described.context,
            repeat=repeat,
            inline=inline,
            timeout=seconds,
            needs_approval=needs_approval,
            destructive=destructive,
        )

    return made if function is None else made(function)


def read_result(side: Side, history: History) -> FunctionTool:
    """The built-in tool by which a model reads on in a result that was cut, or is shown no longer."""

    async def read_result(handle: str, context: ToolContext, start: int = 0, length: int = PAGE) -> str:
        start = max(0, start)
        text, more = await read_range(
            Reach(side, history, context.thread, context.lineage), handle, start, length
        )
        end = start + len(text)
        follows = f"more follows: start={end}" if more else "this is the end"
        return f"{text}\n[characters {start} to {end}; {follows}]"

    return tool(
        name="read_result",
        description=(
            "Read a part of a large tool result of this conversation. handle: as given with the beginning; "
            f"start: first character, from 0; length: at most {PAGE} characters."
        ),
        repeat="safe",
        inline=True,
    )(read_result)


def _check(repeat: str, *, inline: bool, timeout: float | None) -> None:
    if repeat not in REPEATS:
        raise TypeError(f"repeat must be one of {', '.join(REPEATS)}, not {repeat!r}")
    if inline and repeat != "safe":
        raise TypeError("only a tool with repeat='safe' can be inline: a slice may be run again")
    if timeout is not None and not _is_duration(timeout):
        raise TypeError("timeout must be a finite number of seconds above 0")


def _is_duration(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0  # type: ignore[operator,arg-type]


def _check_function(function: Callable[..., Any]) -> None:
    if not callable(function):
        raise TypeError("a tool needs a function; use @tool or @tool(repeat=...)")
    inner = _inner(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError(f"tool {inner.__name__}: a generator has no single result; return a list or a text")


def _inner(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _decoded(arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    if isinstance(arguments, str):
        return msgspec.json.decode(arguments, type=dict[str, Any])
    return dict(arguments)


def _context(facts: CallFacts) -> ToolContext:
    return ToolContext(
        thread=facts.thread,
        call=facts.call,
        idempotency_key=f"{facts.thread}/{facts.call}",
        agent=facts.agent,
        user_id=facts.user_id,
        context=msgspec.json.decode(facts.context) if facts.context else {},
        attempt=facts.attempt,
        lineage=facts.lineage,
    )


class _Outcome(msgspec.Struct, frozen=True):
    value: Any = None
    error: BaseException | None = None


def _result(name: str, outcome: _Outcome) -> ResultParts:
    match outcome.error:
        case None:
            pass
        case Refused() as error:
            return ResultParts((Text(f"Error: {error}"),), is_error=True)
        case error:
            return ResultParts((failure(error),), is_error=True)
    try:
        return ResultParts(render(outcome.value))
    except (TypeError, ValueError) as error:
        text = f"Error: {name} ran, but what it returned cannot be shown: {error}"
        return ResultParts((Text(text),), is_error=True)


async def _awaited(call: Callable[[], Any]) -> _Outcome:
    """Await what ``call`` gives; only the cancellation of this task itself is raised."""
    task = asyncio.current_task()
    try:
        return _Outcome(await call())
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        return _Outcome(error=error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool may fail in any way; the model is told
        return _Outcome(error=error)


async def _in_thread(name: str, call: Callable[[], Any]) -> _Outcome:
    """Run in a thread of its own, which ends with the call: none waits idle, and none holds up an exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Outcome] = loop.create_future()

    def work() -> None:
        try:
            outcome = _Outcome(call())
        except BaseException as error:  # noqa: BLE001 - also what would otherwise end only this thread
            outcome = _Outcome(error=error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_deliver, done, outcome)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name=f"tool {name}", daemon=True).start()
    return await done


def _deliver(done: "asyncio.Future[_Outcome]", outcome: _Outcome) -> None:
    if not done.done():
        done.set_result(outcome)
