"""Calls that wait for a person to sign in at their MCP server."""

from torpor.core.codec import decode_head
from torpor.core.errors import Refused
from torpor.core.messages import By
from torpor.core.signals import AnsweredSignal, RequestedSignal
from torpor.ports import AUTHORIZATIONS, Side, Store
from torpor.tools.mcp.asking import Post, name_of
from torpor.tools.mcp.authorization import Authorizations
from torpor.tools.mcp.challenges import AuthorizationNeeded
from torpor.tools.mcp.records import Records, Run


class Signing:
    """Asks people to sign in. Without ``authorizations`` nobody can."""

    def __init__(
        self, store: Store, side: Side, records: Records, post: Post, authorizations: Authorizations | None
    ) -> None:
        self._store = store
        self._side = side
        self._records = records
        self._post = post
        self._authorizations = authorizations

    async def look(self, run: Run) -> None:
        """See whether a person has answered since; the time until then counts for no limit."""
        number = run.record.signing
        if number and await run.answered(number) is not None:
            paused = run.record.paused + run.clock.now() - run.record.signed
            await run.save(signing=0, consent="", paused=paused)

    async def begin(self, run: Run, needed: AuthorizationNeeded) -> bool:
        """Ask a person to sign in; False: the call may be tried again at once.

        ``Refused`` if it cannot be asked for, ``Unavailable`` if not now.
        """
        if self._authorizations is None:
            raise Refused(f"{needed} That is not set up here.")
        facts = run.facts
        consent = await self._authorizations.begin(needed, facts.thread, facts.call)
        if consent is None:
            return False
        number, now = run.record.signing or run.record.asked + 1, run.clock.now()
        asked, signed = max(number, run.record.asked), run.record.signed if run.record.signing else now
        await run.save(signing=number, asked=asked, signed=signed, consent=consent.key)
        name = name_of(facts.call, number)
        await self._side.put(AUTHORIZATIONS, f"{facts.thread}/{name}", consent.url.encode())
        signal = RequestedSignal(
            facts.thread, name, now, By("tool", facts.server), trace=facts.trace, call=facts.call,
            kind="authorization", prompt=str(needed), url=name, told=True,
        )  # fmt: skip
        await self._post(signal)
        return await self._authorizations.is_waiting(consent.key, facts.thread, facts.call)

    async def settled(self, thread: str, call: str, outcome: str) -> None:
        """A person came back from signing in: settle the wait, as that person would."""
        record = await self._records.get(thread, call)
        if record is None or not record.signing or outcome == "failed":
            return
        if outcome == "authorized":
            await self._records.answer(thread, call, record.signing, "done")
        row, name = await self._store.row(thread), name_of(call, record.signing)
        head = decode_head(row.head, row.shape) if row else None
        for wait in head.waits.values() if head else ():
            if wait.url == name:
                value = "done" if outcome == "authorized" else "dismiss"
                now, by = await self._store.now(), By("person", verified="signed in")
                signal = AnsweredSignal(thread, f"{wait.id}/answer", now, by, wait=wait.id, value=value)
                await self._post(signal)

    async def give_up(self, thread: str, call: str) -> None:
        """A call is not wanted any more: its link is over."""
        record = await self._records.get(thread, call)
        if record is not None and record.consent and self._authorizations is not None:
            await self._authorizations.withdraw(record.consent, thread, call)
