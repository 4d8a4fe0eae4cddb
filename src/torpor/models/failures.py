"""What went wrong with a provider, as one of our errors: by status, type and code, never by wording."""

import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from torpor.core.errors import ModelRefused, TorporError, Unavailable
from torpor.core.retry import told_wait

QUOTA = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "linked_organization_spend_limit_reached",
        "linked_organization_billing_unavailable",
        "organization_on_hold",
    }
)
CONTEXT = frozenset({"context_length_exceeded", "request_too_large", "string_above_max_length"})
CONTENT = frozenset({"content_filter", "content_policy_violation"})
AUTH = frozenset({"authentication_error", "permission_error", "invalid_api_key", "account_deactivated"})
REQUEST = frozenset(
    {
        "invalid_request_error",
        "not_found_error",
        "model_not_found",
        "unsupported_parameter",
        "BadRequestError",
    }
)
PASSING = frozenset({408, 409, 425, 429})
KIND_BY_STATUS = {401: "auth", 402: "quota", 403: "auth", 413: "context"}

LONGEST_WAIT = 366 * 86400.0
_SECRET = re.compile(r"\b(?:(?:sk|pk|key)[-_][\w*.-]{6,}|Bearer \S+)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_LONGEST = 300


class Facts(msgspec.Struct, frozen=True):
    """What a provider said of a failure. ``status`` is 0 for one inside a stream that began well."""

    provider: str
    status: int = 0
    names: frozenset[str] = frozenset()
    label: str = ""
    message: str = ""
    retry_after: float | None = None


def error_of(facts: Facts) -> TorporError:
    """Which of our errors it is."""
    kind = kind_of(facts)
    text = told(facts, kind)
    return ModelRefused(text, kind=kind) if kind else Unavailable(text, retry_after=facts.retry_after)


def kind_of(facts: Facts) -> str:
    """Who can cure it, or nothing where time may."""
    for kind, known in (("quota", QUOTA), ("context", CONTEXT), ("content", CONTENT)):
        if facts.names & known:
            return kind
    if facts.status:
        return _kind_by_status(facts.status)
    if facts.names & AUTH:
        return "auth"
    return "request" if facts.names & REQUEST else ""


def _kind_by_status(status: int) -> str:
    if status >= 500 or status in PASSING:
        return ""
    return KIND_BY_STATUS.get(status, "request")


def told(facts: Facts, kind: str) -> str:
    """The failure in words: bounded, without control characters, without anything like a key."""
    where = f"answered {facts.status}" if facts.status else "broke off its answer"
    text = f"{facts.provider} {where}"
    if facts.label:
        text += f" ({clean(facts.label)})"
    if facts.message and kind != "auth":
        text += f": {clean(facts.message)}"
    return text + _ADVICE.get(kind, "")


_ADVICE = {
    "auth": "; check the API key and what it may use",
    "quota": "; the account's money or limits are used up",
    "context": "; the request is too long for this model",
}


def clean(text: str) -> str:
    """One bounded line that is safe to print."""
    line = _CONTROL.sub(" ", _SECRET.sub("***", text)).strip()
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "…"


def facts_of(
    provider: str, *, status: int, body: object, headers: Mapping[str, str], secret: str = ""
) -> Facts:
    """Read status, headers and body. A numeric code in the body counts as a status where there is none."""
    error = _error_object(body)
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, dict) else None
    labels = [str(label) for label in (code, error.get("code"), error.get("type")) if label]
    if not status:
        status = _numeric_status(error)
    message = error.get("message")
    message = message if isinstance(message, str) else ""
    return Facts(
        provider=provider,
        status=status,
        names=frozenset(labels),
        label=labels[0] if labels else "",
        message=message.replace(secret, "***") if secret else message,
        retry_after=retry_after_of(headers, time.time()),
    )


def _error_object(body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        return {}
    inner = body.get("error")
    if isinstance(inner, dict):
        return inner
    return {"message": inner} if isinstance(inner, str) else body


def _numeric_status(error: dict[str, Any]) -> int:
    code = str(error.get("code") or error.get("status") or "")
    return int(code) if code.isdecimal() and len(code) == 3 and code[0] in "45" else 0


def retry_after_of(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, by ``Retry-After-Ms`` or ``Retry-After`` (seconds or a date); None if not told."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = told_wait(headers.get(name, ""), now)
        if seconds is not None:
            return min(seconds * factor, LONGEST_WAIT)
    return None
