"""How many tokens models take, as far as their names tell."""

from torpor.core.errors import Refused

OPENAI = (
    ("gpt-5-chat", 128_000),
    ("gpt-5", 272_000),  # of its 400,000 the rest is kept for the answer
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8_192),
    ("gpt-3.5-turbo", 16_385),
    ("o1-mini", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
)
ANTHROPIC = (("claude-", 200_000),)
"""Tokens by the beginning of a model's name, at the provider's own service."""


def window(given: int | None, name: str, known: tuple[tuple[str, int], ...]) -> int:
    """Tokens that a model takes: as given, else by its name; 0 if that is not known."""
    if given is not None:
        return check_window(given)
    plain = name.removeprefix("ft:")
    return next((tokens for beginning, tokens in known if plain.startswith(beginning)), 0)


def check_window(given: object) -> int:
    """A number of tokens that somebody names for a model's window. ``Refused`` if it is none."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise Refused(f"window must be a whole number of tokens, or 0 for not known, not {given!a:.60}.")
    return given
