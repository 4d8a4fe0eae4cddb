"""The tools a server offers: functions with their descriptions and the promises made about them."""

import asyncio
import inspect
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from torpor.core.builtins import BUILTINS
from torpor.core.request import INJECTED
from torpor.tools.schema import compile_schema, describe
from torpor.tools.server.call import ToolCall
from torpor.tools.server.content import ToolError

TIMEOUT = 600.0
LONG_TIMEOUT = 86_400.0

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_CUSTOM = re.compile(r"x-[A-Za-z0-9_.-]+")
# Names that a runtime gives to tools of its own: it would not offer these.
_RESERVED = frozenset({shown.name for shown in BUILTINS} | {INJECTED, "read_result"})


class Offer:
    """One tool: what is published about it and how it is run.

    `restartable` says that the function may run again, with the same key, after a crash of the server;
    `timeout` bounds, in seconds, the time until its result or subscription.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        restartable: bool = False,
        timeout: float = TIMEOUT,
        display_script: str | None = None,
    ) -> None:
        described = describe(function, skip=(ToolCall,))
        self.name = name or described.name
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"tool name {self.name!r}: use 1 to 128 ASCII letters, digits, _ or -")
        if self.name in _RESERVED:
            raise ValueError(f"tool name {self.name!r} is reserved for the runtime")
        self.description = description or described.description
        self.restartable = restartable
        self.timeout = timeout
        self._function = function
        self._context = described.context
        self._schema = described.schema
        self._violations = compile_schema(described.schema)
        self._bind = described.bind
        self._annotations = _checked_annotations(annotations or {})
        self._display_script = display_script

    def definition(self) -> dict[str, Any]:
        """What the manifest says about the tool."""
        definition: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "inputSchema": self._schema,
        }
        if self._annotations:
            definition["annotations"] = self._annotations
        if self._display_script is not None:
            definition["displayScript"] = self._display_script
        return definition

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Turn a call's arguments into the function's. Raises ToolError saying what does not fit."""
        violations = self._violations(arguments)
        if violations:
            raise ToolError(f"the arguments do not fit the schema of {self.name}: {'; '.join(violations)}")
        try:
            return self._bind(arguments)
        except ValueError as error:
            raise ToolError(f"the arguments do not fit {self.name}: {error}") from None

    async def run(self, call: ToolCall, arguments: dict[str, Any]) -> Any:
        """Run the function with bound arguments; a function that is not async runs in a thread of its own."""
        if self._context is not None:
            arguments = {**arguments, self._context: call}
        if inspect.iscoroutinefunction(self._function):
            try:
                return await self._function(**arguments)
            except SystemExit:
                raise ToolError("the tool tried to end the server") from None
        outcome = _in_thread(self._function, arguments)
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            # A thread cannot be stopped, only asked; it may still return what it has.
            return await outcome


def _checked_annotations(annotations: Mapping[str, Any]) -> dict[str, Any]:
    known = {"readOnly", "destructive", "idempotent", "longRunning", "requiresAuth"}
    for key in annotations:
        if key not in known and not _CUSTOM.fullmatch(key):
            raise ValueError(f"annotation {key!r}: name your own like x-yours-{key}")
    return dict(annotations)


def _in_thread(function: Callable[..., Any], arguments: dict[str, Any]) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result(value) if error is None else outcome.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = function(**arguments)
        except BaseException as raised:  # noqa: BLE001 -- carried to the event loop
            error = raised if isinstance(raised, Exception) else RuntimeError(type(raised).__name__)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    # A daemon thread: a function that never returns must not keep the server from stopping.
    threading.Thread(target=work, name=f"tool-{function.__name__}", daemon=True).start()
    return outcome
