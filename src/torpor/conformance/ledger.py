"""What was seen, row by row, and the report that comes of it."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from torpor.conformance.exchange import Exchange
from torpor.core.errors import Refused

Verdict = Literal["kept", "broken", "unseen", "not built"]

EXCHANGES_SHOWN = 4
NOT_TRIED = "the exchange that shows it did not come about"


class Row(msgspec.Struct, frozen=True):
    """One numbered requirement. ``unseen`` says why it cannot be seen from outside, where nobody looked."""

    id: str
    level: str
    text: str
    unseen: str = ""
    title: str = ""

    @property
    def needs(self) -> str:
        """What the runtime must have built for this row to mean anything; empty: nothing."""
        return self.unseen.removeprefix("+") if self.unseen.startswith("+") else ""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verdict on one row. ``level`` is the level that was broken, which may be a milder one."""

    id: str
    level: str
    text: str
    verdict: Verdict
    why: str = ""
    exchanges: tuple[Exchange, ...] = ()
    title: str = ""
    """Of the group that it belongs to."""

    @property
    def is_grave(self) -> bool:
        """A MUST is broken."""
        return self.verdict == "broken" and self.level.startswith("MUST")


class Report(msgspec.Struct, frozen=True):
    """All findings on one end, in the order of their numbers."""

    subject: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """What the checks knew of the subject, and what else they noticed."""

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each verdict."""
        found = [finding.verdict for finding in self.findings]
        return {verdict: found.count(verdict) for verdict in ("kept", "broken", "unseen", "not built")}

    @property
    def is_sound(self) -> bool:
        """No MUST is broken, and something was seen at all."""
        return self.counts["kept"] > 0 and not any(finding.is_grave for finding in self.findings)

    def verdict(self, row: str) -> Verdict:
        """The verdict on one row. KeyError if it was not asked for."""
        return self.of(row).verdict

    def of(self, row: str) -> Finding:
        """The finding on one row. KeyError if it was not asked for."""
        for finding in self.findings:
            if finding.id == row:
                return finding
        raise KeyError(row)

    def broken(self) -> tuple[str, ...]:
        """The rows that are broken."""
        return tuple(finding.id for finding in self.findings if finding.verdict == "broken")


class _Seen(msgspec.Struct, frozen=True):
    verdict: Verdict
    why: str = ""
    exchanges: tuple[Exchange, ...] = ()
    level: str = ""


class Ledger:
    """Gathers what checks see. One break is enough; else one sight of it kept; else it stays unseen.

    ``secret`` is hidden in all exchanges.
    """

    def __init__(self, secret: str = "") -> None:
        self._secret = secret
        self._seen: dict[str, list[_Seen]] = {}
        self.notes: list[str] = []

    def kept(self, row: str, why: str = "") -> None:
        """The requirement was seen to be kept."""
        self._note(row, _Seen("kept", why))

    def broken(self, row: str, why: str, *exchanges: Exchange, level: str = "") -> None:
        """The requirement was seen to be broken; ``level`` where only its milder companion was."""
        shown = tuple(map(self._hidden, exchanges[-EXCHANGES_SHOWN:]))
        self._note(row, _Seen("broken", why, shown, level))

    def unseen(self, row: str, why: str) -> None:
        """It was looked for, and could not be seen."""
        self._note(row, _Seen("unseen", why))

    def judge(self, row: str, fine: bool, why: str, *exchanges: Exchange, level: str = "") -> bool:
        """Kept if ``fine``, else broken, because of ``why``. Gives ``fine`` back."""
        if fine:
            self.kept(row)
        else:
            self.broken(row, why, *exchanges, level=level)
        return fine

    def judge_all(self, rows: Iterable[str], fine: bool, why: str, *exchanges: Exchange) -> bool:
        """The same of several rows."""
        for row in rows:
            self.judge(row, fine, why, *exchanges)
        return fine

    def findings(self, rows: Iterable[Row], built: frozenset[str] | None = None) -> tuple[Finding, ...]:
        """The verdicts on rows; ``built``: what a runtime has, None for a tool server."""
        return tuple(self._finding(row, built) for row in rows)

    def _hidden(self, exchange: Exchange) -> Exchange:
        """The exchange without the credential, which a server may have said back."""
        if not self._secret:
            return exchange
        sent, answered = (
            text.replace(self._secret, "[credential]") for text in (exchange.sent, exchange.answered)
        )
        return Exchange(sent, answered)

    def _note(self, row: str, seen: _Seen) -> None:
        self._seen.setdefault(row, []).append(seen)

    def _finding(self, row: Row, built: frozenset[str] | None) -> Finding:
        seen = self._seen.get(row.id, [])
        if row.needs and not seen:
            missing = built is not None and row.needs not in built
            why = f"it has no {row.needs} yet" if missing else "there is no check of it yet"
            return _found(row, _Seen("not built" if missing else "unseen", why))
        for verdict in ("broken", "kept", "unseen"):
            for one in _gravest(seen, verdict):
                return _found(row, one)
        return _found(row, _Seen("unseen", row.unseen or NOT_TRIED))


def _found(row: Row, seen: _Seen) -> Finding:
    level = seen.level or row.level
    return Finding(row.id, level, row.text, seen.verdict, seen.why, seen.exchanges, row.title)


def _gravest(seen: list[_Seen], verdict: str) -> list[_Seen]:
    """Those with a verdict; breaks of the row's own level before milder ones."""
    return sorted((one for one in seen if one.verdict == verdict), key=lambda one: bool(one.level))


def read_rows(table: str) -> tuple[Row, ...]:
    """The rows of a table of requirements; a line that begins with '#' is the title of those below."""
    rows: list[Row] = []
    title = ""
    for line in table.strip().splitlines():
        if line.startswith("#"):
            title = line.removeprefix("#").strip()
        else:
            id, level, text, unseen = (cell.strip() for cell in line.split("|"))
            rows.append(Row(id, level, text, unseen, title))
    return tuple(rows)


def chosen_rows(table: str, only: Iterable[str]) -> tuple[Row, ...]:
    """The rows of a table, or those named. ``Refused`` for one that there is not."""
    rows = read_rows(table)
    wanted = frozenset(only)
    unknown = sorted(wanted - {row.id for row in rows})
    if unknown:
        told = f"they run from {rows[0].id} to {rows[-1].id}"
        raise Refused(f"There is no requirement {', '.join(unknown)}; {told}.")
    return tuple(row for row in rows if not wanted or row.id in wanted)
