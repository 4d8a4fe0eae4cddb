"""Step 7 of a wake: ask the model, gather what it streams, and give each of its calls its fate."""

import asyncio

from torpor.core.answer import Asked, Inline, answer, answer_cut, finish_turn, settle_inline
from torpor.core.chunks import Stop
from torpor.core.errors import Broken, Conflict, Refused, TorporError, Unavailable
from torpor.core.messages import Result, Text
from torpor.core.prompt import Projection, request
from torpor.core.request import Attempt, Request
from torpor.core.turn import Gathering
from torpor.runtime.lineages import read_all
from torpor.runtime.roster import CallContext
from torpor.runtime.state import Completion, Running, Slice

INLINE_SECONDS = 5.0
"""What a function may take within a slice, where it names no time of its own."""


async def ask(slice: Slice) -> Completion:
    """Ask the model once and gather its answer. Raises what the model raised, as one of the four errors."""
    step, kit, running = slice.step, slice.kit, slice.running
    slice.waits_before = len(step.settled)
    question = await _question(slice)
    limits = step.definition.limits
    attempt = Attempt(step.thread, step.head.ordinal, slice.snapshot.row.attempt, limits.seconds)
    slice.record |= {
        "ordinal": attempt.ordinal,
        "request_hash": question.hash,
        "definition": await kit.definitions.keep(kit.roster.outfit(step.definition)),
        "model": slice.member.model.name,
        "model_from": kit.clock.now(),
    }
    gathering = Gathering()
    kit.live.started(step.thread, gathering)
    running.asking = True
    try:
        await _stream(slice, question, attempt, gathering)
        if not running.asking:
            # A cancellation is on its way: let it arrive here, and not in the commit.
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        _forgive(running)
        if gathering.stop is not None:
            return Completion(gathering)
        if running.cut:
            return Completion(gathering, cut=True)
        if running.lost:
            raise Conflict("The lease went to another worker.") from None
        raise Unavailable("The completion took longer than a slice may last.") from None
    except TorporError:
        raise
    except Exception as error:
        raise Broken(f"The model failed in a way it should not: {type(error).__name__}: {error}") from error
    finally:
        running.asking = False
        slice.record["model_to"] = kit.clock.now()
    return Completion(gathering)


def _forgive(running: Running) -> None:
    """Go on after a cancellation that was meant for the completion alone; any other is passed on."""
    task = asyncio.current_task()
    if task is not None and not task.cancelling():
        raise Broken("The model's stream was cancelled, and nobody had asked for that.") from None
    if task is None or not (running.cut or running.overdue or running.lost):
        raise asyncio.CancelledError
    task.uncancel()


async def _stream(slice: Slice, question: Request, attempt: Attempt, gathering: Gathering) -> None:
    thread = slice.step.thread
    stream = slice.member.model.stream(question, attempt)
    live = slice.kit.live
    add, streamed = gathering.add, live.streamed
    first = True
    try:
        async for chunk in stream:
            if first:
                slice.record["first_byte"] = slice.kit.clock.now()
                first = False
            add(chunk)
            if live.has_watchers:
                streamed(thread, chunk)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


async def _question(slice: Slice) -> Request:
    outfit = slice.kit.roster.outfit(slice.step.definition)
    projection = slice.projection = await _whole(slice)
    slice.warm.take()
    _show(slice, projection)
    return request(outfit.definition, projection, outfit.fixed)


async def shown(slice: Slice) -> Projection:
    """What the model is shown if it is asked now."""
    projection = (await _whole(slice)).fork()
    _show(slice, projection)
    return projection


def _show(slice: Slice, projection: Projection) -> None:
    for message in slice.step.messages:
        projection.add(message)
    projection.show()


async def _whole(slice: Slice) -> Projection:
    """The projection of all that was committed. Much history is read only here, where a model is asked."""
    warm, row = slice.warm, slice.snapshot.row
    projection = warm.whole()
    if projection is None:
        history = await read_all(slice.kit.store, row)
        warm.projection = await slice.kit.lineages.begin(row, warm.head, history)
        warm.later = history
        projection = warm.whole()
        assert projection is not None
    return projection


async def take(slice: Slice, completion: Completion) -> None:
    """Append the turn and carry out what its calls decide at once."""
    step, record = slice.step, slice.record
    seconds = max(0.0, record["model_to"] - record["model_from"])
    step.now = slice.now()
    asked = Asked(step.head.length, slice.kit.ids.token(), slice.member.model.name, seconds)
    if completion.cut:
        answer_cut(step, completion.gathering.cut(), asked)
        return
    parts = completion.gathering.parts()
    stop = completion.gathering.stop or Stop()
    record |= {
        "usage": stop.usage,
        "product": stop.product,
        "provider_ids": stop.provider_ids,
        "model": stop.model or slice.member.model.name,
    }
    for inline in answer(step, parts, stop, asked):
        settle_inline(step, await _run_inline(slice, inline))
    finish_turn(step)


async def _run_inline(slice: Slice, inline: Inline) -> Result:
    step, row = slice.step, slice.snapshot.row
    function = slice.member.functions[inline.spec.name]
    context = CallContext(
        step.thread, inline.call, row.agent, row.user_id, row.context, lineage=step.head.lineage
    )
    try:
        async with asyncio.timeout(inline.spec.timeout or INLINE_SECONDS):
            got = await function.run(context, inline.arguments)
    except TimeoutError:
        text = Text("Error: the tool ran out of time.")
        return Result(step.now, inline.call, (text,), is_error=True, cause="timeout")
    except (Refused, Broken) as error:
        return Result(step.now, inline.call, (Text(f"Error: {error}"),), is_error=True)
    return Result(step.now, inline.call, got.parts, got.is_error, got.cause, got.handle, got.size)
