"""A chart of bars as SVG, with colours for light and dark pages."""

import math
from collections.abc import Sequence
from html import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 820, 320, 70, 28, 54

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 15px; }
.axis { font-size: 11px; fill: #59636e; }
.grid { stroke: #d1d9e0; }
.bar { fill: #8c959f; }
.ours { fill: #0969da; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .axis { fill: #9198a1; }
  .grid { stroke: #3d444d; }
  .bar { fill: #656c76; }
  .ours { fill: #4493f8; }
}
"""


def drawn(title: str, bars: Sequence[tuple[str, float, bool]]) -> str:
    """The chart. ``bars``: what each is called, how much it is, and whether it stands out.

    The scale is logarithmic: a bar ten times as far is ten times as much.
    """
    bars = sorted(bars, key=lambda bar: -bar[1])
    low = 10 ** math.floor(math.log10(max(1.0, min(bar[1] for bar in bars)) * 0.999))
    high = 10 ** math.ceil(math.log10(max(bar[1] for bar in bars)))
    high = max(high, low * 10)
    height = TOP + ROW * len(bars) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="22">{escape(title)}</text>',
        *_grid(low, high, height),
    ]
    for place, (name, amount, stands_out) in enumerate(bars):
        y = TOP + ROW * place
        wide = _at(amount, low, high) - LEFT
        kind = "ours" if stands_out else "bar"
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{wide:.1f}" height="20" rx="2"/>',
            f'<text x="{LEFT + wide + 6:.1f}" y="{y + 15}">{amount:,.0f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _at(amount: float, low: float, high: float) -> float:
    """Where an amount stands, from left to right."""
    share = math.log10(max(amount, low) / low) / math.log10(high / low)
    return LEFT + max(2.0, share * (WIDTH - LEFT - RIGHT))


def _grid(low: float, high: float, height: int) -> list[str]:
    lines, amount = [], low
    while amount <= high:
        x = LEFT if amount == low else _at(amount, low, high)
        lines += [
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 26}"/>',
            f'<text class="axis" x="{x:.1f}" y="{height - 10}" text-anchor="middle">{amount:,.0f}</text>',
        ]
        amount *= 10
    return lines
