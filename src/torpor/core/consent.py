"""Which calls need a person's approval, and what exactly is approved."""

from hashlib import sha256

import msgspec

from torpor.core.definition import Approvals, Definition, ToolSpec

_encode = msgspec.msgpack.Encoder(order="sorted").encode


def is_needed(approvals: Approvals, spec: ToolSpec) -> bool:
    """Whether calls of a tool wait for a person's approval."""
    if spec.builtin or approvals.policy == "never":
        return False
    if approvals.policy == "always" and not spec.inline:
        return True
    return spec.destructive or spec.needs_approval


def digest(approvals: Approvals, spec: ToolSpec, arguments: str) -> str:
    """What is approved: the tool as its author defines it, where it runs, its arguments, and the policy."""
    tool = (spec.name, spec.description, spec.schema, spec.server, spec.destructive, spec.needs_approval)
    return sha256(_encode((tool, arguments, approvals.policy))).hexdigest()


def objection(definition: Definition, name: str, arguments: str, approved: str) -> str:
    """Why a call may not run, though it may have been approved; empty if it may.

    ``approved``: the digest that a person has approved; empty if nobody was asked.
    """
    spec, approvals = definition.tools.get(name), definition.approvals
    if spec is None:
        return "the tool is not there any more" if approved else ""
    if not approved:
        return "the tool needs a person's approval by now" if is_needed(approvals, spec) else ""
    if digest(approvals, spec, arguments) == approved:
        return ""
    return "what was approved is not what would run: the tool, the call or the policy has changed"


def told(name: str, why: str) -> str:
    """What a model reads of a call that was not run for such a reason."""
    return f"Error: {name} was not run, because {why}. Call it again, and a person is asked again."
