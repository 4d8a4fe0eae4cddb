"""``torpor rap check``: says whether a tool server, or a runtime, keeps the protocol."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from torpor.cli.options import Json, run

if TYPE_CHECKING:
    from torpor.conformance.ledger import Finding, Report
    from torpor.conformance.probe import Call

SIGNS = {
    "kept": ("✓", "green"),
    "broken": ("✗", "bold red"),
    "unseen": ("·", "dim"),
    "not built": ("o", "yellow"),
}
WORDS = {"kept": "kept", "broken": "broken", "unseen": "not observable", "not built": "not built"}
INDENT = " " * 23

rap = typer.Typer(no_args_is_help=True, help="The protocol between runtimes and tool servers.")


@rap.callback()
def _rap() -> None:
    """The protocol between runtimes and tool servers."""


@rap.command("check")
def check(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The tool server's base URL.")] = None,
    *,
    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Its bearer token.", envvar="TORPOR_RAP_TOKEN", show_envvar=True),
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="A tool that answers quickly.")] = None,
    arguments: Annotated[
        str, typer.Option(metavar="JSON", help="Arguments for it, as a JSON object.")
    ] = "{}",
    long: Annotated[str | None, typer.Option(metavar="NAME={…}", help="A call that works for long.")] = None,
    subscribing: Annotated[
        str | None, typer.Option(metavar="NAME={…}", help="A call that subscribes.")
    ] = None,
    choosing: Annotated[
        str | None, typer.Option(metavar="NAME={…}", help="A call that asks for a choice.")
    ] = None,
    authorizing: Annotated[
        str | None, typer.Option(metavar="NAME={…}", help="A call that asks for oauth.")
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="REQUIREMENTS", help="Requirements to check, with commas between.")
    ] = "",
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds to wait for a result that must come.")
    ] = 10.0,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where callbacks are taken.")
    ] = "127.0.0.1:0",
    public_url: Annotated[
        str, typer.Option(metavar="URL", help="How the server reaches that, if not so.")
    ] = "",
    runtime: Annotated[bool, typer.Option("--runtime", help="Check a runtime, not a server.")] = False,
    harness: Annotated[
        str, typer.Option(metavar="MODULE:NAME", help="The runtime; left out: this one.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Check a tool server, or a runtime, requirement by requirement; exit code 1 if a MUST is broken.

    Tools marked readOnly are tried unasked; others are called only if an option names them.
    """
    from torpor.conformance.probe import Call, Patience
    from torpor.core.errors import Refused

    rows = frozenset(row.strip().upper() for row in only.split(",") if row.strip())
    if runtime:
        run(_check_runtime(harness, rows, as_json))
        return
    if url is None:
        raise Refused("Name the base URL of a tool server, or say --runtime.")
    calls = {"long": long, "subscribing": subscribing, "choosing": choosing, "authorizing": authorizing}
    known = {role: _call(role, told) for role, told in calls.items() if told}
    if tool:
        known["quick"] = Call(tool, _object("--arguments", arguments))
    run(_check_server(url, token, rows, known, Patience(result=wait), (listen, public_url), as_json))


async def _check_server(
    url: str,
    token: str | None,
    only: frozenset[str],
    calls: "dict[str, Call]",
    patience: object,
    addresses: tuple[str, str],
    as_json: bool,
) -> int:
    from torpor.conformance.probe import Patience
    from torpor.conformance.server import Options, check_server

    assert isinstance(patience, Patience)
    options = Options(
        token=token,
        only=only,
        calls=calls,
        patience=patience,
        listen=addresses[0],
        public_url=addresses[1],
    )
    return _tell(await check_server(url, options), as_json)


async def _check_runtime(harness: str, only: frozenset[str], as_json: bool) -> int:
    from torpor.conformance.runtime import check_runtime, load_harness

    return _tell(await check_runtime(load_harness(harness), only=only), as_json)


def _call(role: str, told: str) -> "Call":
    from torpor.conformance.probe import Call

    name, _, arguments = told.partition("=")
    return Call(name.strip(), _object(f"--{role}", arguments or "{}"))


def _object(option: str, text: str) -> dict[str, object]:
    from torpor.core.errors import Refused

    try:
        value = json.loads(text)
    except ValueError as error:
        raise Refused(f"{option} is no JSON: {error}.") from None
    if not isinstance(value, dict):
        raise Refused(f"{option} must be a JSON object.")
    return value


def _tell(report: "Report", as_json: bool) -> int:
    from torpor.cli import screen

    if as_json:
        typer.echo(screen.as_json({"sound": report.is_sound, "counts": report.counts, "report": report}))
        return 0 if report.is_sound else 1
    out, title = screen.out(), ""
    out.print(screen.line((report.subject, "bold")))
    for finding in report.findings:
        if finding.title != title:
            title = finding.title
            out.print(screen.line(("\n" + title, "bold")))
        _tell_one(finding)
    for note in report.notes:
        out.print(screen.line(("\n" + note, "dim")))
    grave = sum(finding.is_grave for finding in report.findings)
    counts = [f"{count} {WORDS[verdict]}" for verdict, count in report.counts.items() if count]
    graver = f" ({grave} of them a MUST)" if grave else ""
    style = "bold green" if report.is_sound else "bold red"
    told = ", ".join(counts).replace(" broken", f" broken{graver}")
    out.print(screen.line((f"\n{told}", style)))
    return 0 if report.is_sound else 1


def _tell_one(finding: "Finding") -> None:
    from torpor.cli import screen
    from torpor.cli.visible import one_line

    out = screen.out()
    sign, style = SIGNS[finding.verdict]
    head = (f"{sign} {finding.id:<6}  {finding.level:<12}", style)
    if finding.verdict in ("unseen", "not built"):
        why = f"  ({WORDS[finding.verdict]}: {one_line(finding.why)})"
        out.print(screen.line(head, finding.text, (why, "dim")))
        return
    out.print(screen.line(head, finding.text))
    if finding.verdict == "broken":
        out.print(screen.line((INDENT + one_line(finding.why, 400), "red")))
        for exchange in finding.exchanges:
            out.print(screen.line((f"{INDENT}{one_line(exchange.sent, 900)}", "dim")))
            out.print(screen.line((f"{INDENT}  = {one_line(exchange.answered, 900)}", "dim")))
