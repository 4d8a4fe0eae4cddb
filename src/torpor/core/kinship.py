"""How words between threads look to a model: the seed of a child, reports, and what became of others."""

from collections.abc import Sequence

from torpor.core.messages import Part, Reported, Text
from torpor.core.request import InjectedItem, NoticeItem
from torpor.core.showing import whole_text, words_shown

BELONGS = "This call belongs to the parent thread; its result goes there."

_CHILD = (
    "[You are now inside the new thread {id}, which this call has made. {stack} All before this is the "
    "history of the thread {parent}: its plans and its open calls stay there, and none is yours. The "
    "instructions of this thread, word for word:]"
)
_FRESH = (
    "[You are inside the new thread {id}, made by the thread {parent}, whose history is not shown here. "
    "{stack} The instructions of this thread, word for word:]"
)
_BEGIN = (
    "[Begin by saying in your own words what this thread is to do, then do that and nothing else. Tell the "
    "thread {parent} what came of it with report_to_parent; end this thread with close_thread when nothing "
    "is left to do in it.]"
)
_EVENTS = (
    "[You are now inside the temporary thread {id}, made for events of a subscription ({source}) that stays "
    "with the thread {parent}. {stack} The history up to here is that thread's; its plans and its open calls "
    "stay there. Work on the events that follow. What you write here is not shown to people: if something "
    "matters to the thread {parent}, say it with report_to_parent. Then end this thread with close_thread.]"
)
_SUMMARY = (
    "[You are now inside the temporary thread {id} of the runtime's own. It goes on with nothing of the "
    "above: it writes the summary that will stand in its place.]"
)

_FORK = (
    "[From here on this is another thread, {id}, which goes on with the history above. No call and no "
    "subscription of it is open here, and none of its child threads is this one's.]"
)

_NEWS = {
    "report": "Report of {who}.",
    "ended": "{Who} has ended its exchange without a report; these are its last words.",
    "parked": "{Who} was set aside after a failure and does not go on by itself.",
    "stopped": "{Who} was stopped.",
    "closed": "{Who} is closed.",
    "adopted": "The thread between this one and {id} is closed: these two are parent and child now.",
    "told": "Message of the parent thread {id}.",
    "undelivered": "What this thread said to the thread {id} did not arrive.",
}


def is_bookkeeping(word: Reported) -> bool:
    """The end of a child that had nothing more to say: no model is shown it."""
    silent = word.what == "closed" and word.purpose != "child" and not (word.owes or word.parts)
    return silent or word.what == "rested"


def is_seed(word: Reported) -> bool:
    """The first word of a child, which its parent's spawn call stands for."""
    return word.what == "born" and word.purpose == "child"


def seed_shown(word: Reported, thread: str, ancestors: Sequence[str]) -> tuple[Part, ...]:
    """What a child is told first, as the result of the call that made it."""
    return (Text(_told(_CHILD, word, thread, ancestors)), *words_shown(word.parts), _begin(word))


def birth_shown(word: Reported, thread: str, ancestors: Sequence[str]) -> NoticeItem:
    """What a thread is told first that no shown call has made."""
    form = {"event": _EVENTS, "compaction": _SUMMARY}.get(word.purpose, _FRESH)
    last = (_begin(word),) if form is _FRESH else ()
    told = (Text(_told(form, word, thread, ancestors)), *word.parts, *last)
    return NoticeItem(whole_text(words_shown(told)))


def fork_shown(thread: str) -> NoticeItem:
    """What a fork is told where its own history begins."""
    return NoticeItem(_FORK.format(id=thread))


def _begin(word: Reported) -> Text:
    return Text(_BEGIN.format(parent=word.thread))


def _told(form: str, word: Reported, thread: str, ancestors: Sequence[str]) -> str:
    stack = f"The threads from the root to here: {', '.join((*ancestors, thread))}."
    source = " ".join(filter(None, (word.name, word.call)))
    return form.format(id=thread, parent=word.thread, stack=stack, source=source)


def word_shown(id: str, word: Reported) -> InjectedItem:
    """What another thread says, or what became of it."""
    kind = "temporary thread" if word.purpose == "event" else "child thread"
    events = ", made for events" if word.purpose == "event" else ""
    who = f"the {kind} {word.thread}{events}"
    note = _NEWS.get(word.what, "Word of {who}.").format(
        id=word.thread, who=who, Who=who[0].upper() + who[1:]
    )
    return InjectedItem(
        id=id,
        name=word.name,
        call=word.call,
        arguments=word.arguments,
        parts=words_shown(word.parts),
        at=word.at,
        source=word.what,
        notes=(note,),
    )
