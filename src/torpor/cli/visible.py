"""Text of others, made harmless for a terminal: what would steer it is shown instead of obeyed."""

import re

_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls, but for tabs and line breaks
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\u2028\u2029\ufeff\ufff9-\ufffb"  # hidden breaks and marks
    "\ud800-\udfff"  # lone surrogates, which no terminal can be sent
    "\U000e0000-\U000e007f]"  # invisible tags
)


def visible(text: str) -> str:
    """The text with each control character, escape and direction mark replaced by a visible sign."""
    return _STEERS.sub(_sign, text)


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line, visible, cut to so many characters."""
    flat = " ".join(visible(text[: 4 * limit]).split())
    return flat if len(flat) <= limit and len(text) <= 4 * limit else f"{flat[: limit - 1]}…"


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"<U+{code:04X}>"
