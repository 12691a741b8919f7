"""What synthesis ends with when it cannot go on. The class name is the error's name.

A message says what is wrong, where, and what to do, like those of `ddbload.errors`.
"""

from __future__ import annotations


class DeploymentError(Exception):
    """Base of all of them: `app.py` prints these without a traceback."""


# What the knobs say.


class UnknownSetting(DeploymentError):
    """A context key that looks like a misspelt knob."""


class InvalidSetting(DeploymentError):
    """A knob's value is not one that the deployment can have."""


class TableElsewhere(DeploymentError):
    """A table is given by ARN: tables of other accounts or regions are not supported."""


class TableNotListed(DeploymentError):
    """An upload goes to a table that the deployment may not write."""


class BucketNotListed(DeploymentError):
    """An upload comes from a bucket that the deployment may not read."""


class AmbiguousUpload(DeploymentError):
    """Two mappings name the same place."""


class TooManySettings(DeploymentError):
    """The settings do not fit where AWS keeps them: environment, policies, event patterns."""


# What the functions are made of.


class DistributionMissing(DeploymentError):
    """A pinned distribution is not installed where synthesis runs, or has another version."""


class DistributionDamaged(DeploymentError):
    """An installed distribution's file is not what its own record says."""


class DistributionNotPure(DeploymentError):
    """A distribution has compiled code, which would run on one architecture only."""
