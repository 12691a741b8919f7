"""What cannot be judged, by name: never guessed, and never passed over in silence."""

from __future__ import annotations


class UnknownCall(Exception):
    """A request whose permissions are not known here. The message names the request."""


class UnsupportedPolicy(Exception):
    """A policy that would be judged wrongly here. The message names the policy and the feature."""


class UnresolvedTemplate(Exception):
    """A value in a template that cannot be known from what was given."""
