"""What a person has approved is what runs: looked at once more, just before a call is carried out."""

from torpor.core import consent
from torpor.core.codec import decode_head
from torpor.core.effects import Invoke
from torpor.core.messages import Text
from torpor.core.thread import Head
from torpor.ports import Row, Store
from torpor.runtime.equip import Equipment
from torpor.runtime.roster import Roster, Verdict

OTHER = "what was approved is not what would run: its record and its order differ"


class Consents:
    """Compares calls that shall run with what their threads recorded, and with the tools as they are now."""

    def __init__(self, store: Store, roster: Roster, equipment: Equipment) -> None:
        self._store = store
        self._roster = roster
        self._equipment = equipment

    async def refusal(self, row: Row, effect: Invoke) -> Verdict | None:
        """Why a call may not run, as its result; None if it may."""
        why = await self._objection(row, effect)
        return Verdict((Text(consent.told(effect.name, why)),), cause="stale") if why else None

    async def _objection(self, row: Row, effect: Invoke) -> str:
        member = self._roster.get(row.agent)
        if member is None:
            return ""  # nothing runs here without its agent
        if not (effect.digest or effect.server):
            return consent.objection(member.definition({}), effect.name, effect.arguments, "")
        current = await self._store.row(row.thread) if effect.digest else row
        head = decode_head(current.head, current.shape) if current else Head()
        if effect.digest != _approved(head, effect.call):
            return OTHER
        definition = await self._equipment.definition(member, row.thread, head)
        return consent.objection(definition, effect.name, effect.arguments, effect.digest)


def _approved(head: Head, call: str) -> str:
    """The digest that a thread has recorded for a call."""
    open_ = head.pending.get(call) or head.detached.get(call)
    return open_.digest if open_ else ""
