"""Second implementation of IAM's patterns and policies: slow, plain, and independent."""

from __future__ import annotations


def matches(pattern: str, text: str) -> bool:
    """Match `*` with any characters, `?` with one character, and others literally."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(matches(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in {"?", text[0]} and matches(pattern[1:], text[1:])


def allows(statements: list[dict], action: str, resource: str) -> bool:
    """Evaluate statements by the IAM User Guide, "Policy evaluation logic".

    Only identity-based policies are covered.
    """
    effects = {
        statement["Effect"]
        for statement in statements
        if any(matches(pattern, resource) for pattern in statement["Resource"])
        and (
            any(matches(pattern.lower(), action.lower()) for pattern in statement["Action"])
            if "Action" in statement
            else not any(matches(p.lower(), action.lower()) for p in statement["NotAction"])
        )
    }
    return effects == {"Allow"}
