"""What a slice costs: the agent_scale workload through the runtime, beside a lean loop that does the same.

With no arguments: both stores, runtime and lean loop in turn, the ratios against the bars, and the figures of
docs/performance.md. With ``--store``: one run. ``--json`` prints one JSON object and nothing else.
"""

import argparse
import sys
from pathlib import Path

import msgspec
from comparing import compare, compare_all
from profiling import PARTS, shares
from reporting import compared, told, write_page
from running import Figures, Options, run
from verifying import Skipped

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def main() -> int:
    """The command. Exits with 1 if any history is not as it should be."""
    given = _arguments().parse_args()
    try:
        return _compared(given) if given.lean or len(sys.argv) == 1 else _ran(given)
    except Skipped as skipped:
        print(f"agent_scale: {skipped}", file=sys.stderr)
        return 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent_scale", description=__doc__)
    add = parser.add_argument
    add("--agents", type=_count, default=0, help="agents in all (600)")
    add("--turns", type=_count, default=20, help="turns of each: two completions a turn")
    add("--wave", type=_count, default=0, help="agents at once (half of them, at most 500)")
    add(
        "--store",
        default="",
        help="memory:, sqlite: (temporary), sqlite:///path (new) or postgresql:// (empty)",
    )
    add(
        "--text",
        choices=("same", "varied"),
        default="same",
        help="repeated text, or different text each time",
    )
    add("--synchronous", choices=("FULL", "NORMAL"), default="FULL", help="what a commit waits for, on disk")
    add("--slots", type=_count, default=0, help="slices side by side (8; 64 on disk)")
    add("--loop", choices=("asyncio", "uvloop"), default="asyncio", help="the event loop")
    add(
        "--repeat",
        type=_count,
        default=0,
        help="runs, of which the median counts (1; 3 beside the lean loop)",
    )
    add("--no-pack", action="store_true", help="leave threads at rest as they were written")
    add("--lean", action="store_true", help="beside the lean loop, run in turn, with the ratios")
    add("--json", action="store_true", help="one JSON object on the standard output")
    add("--alone", default="", help=argparse.SUPPRESS)  # one run of a comparison, in a process of its own
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return count


def _options(given: argparse.Namespace, store: str) -> Options:
    agents = given.agents or 600
    return Options(
        agents=agents,
        turns=given.turns,
        wave=given.wave or min(500, max(1, agents // 2)),
        store=store,
        text=given.text,
        synchronous=given.synchronous,
        slots=given.slots,
        loop=given.loop,
        pack=not given.no_pack,
    )


def _ran(given: argparse.Namespace) -> int:
    if given.alone:
        print(msgspec.json.encode(run(msgspec.json.decode(given.alone, type=Options))).decode())
        return 0
    options = _options(given, given.store or "memory:")
    figures = run(options) if given.repeat <= 1 else compare([options], given.repeat)[0].median
    _show(given, figures)
    return 0


def _show(given: argparse.Namespace, figures: Figures) -> None:
    if given.json:
        print(_json(figures))
    else:
        print(told(figures))


def _compared(given: argparse.Namespace) -> int:
    stores = (given.store,) if given.store else ("memory:", "sqlite:")
    comparison = compare_all([_options(given, store) for store in stores], given.repeat or 3)
    if given.json:
        print(_json({**msgspec.to_builtins(comparison.runs[0].median), **msgspec.to_builtins(comparison)}))
        return 0
    print(compared(comparison))
    if len(sys.argv) == 1:
        write_page(
            PAGE, msgspec.structs.replace(comparison, shares={store: shares(store) for store in PARTS})
        )
    return 0


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()


if __name__ == "__main__":
    sys.exit(main())
