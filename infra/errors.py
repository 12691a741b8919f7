"""Errors that end synthesis, like those of `ddbload.errors`."""

from __future__ import annotations


class DeploymentError(Exception):
    """Base of all errors that `app.py` prints without a traceback."""


# Settings.


class UnknownSetting(DeploymentError):
    """A context key that looks like a misspelt knob."""


class InvalidSetting(DeploymentError):
    """The value of a knob is not allowed."""

    def __init__(self, message: str, knob: str | None = None) -> None:
        """`knob`: name of the setting; None if the message says what to set."""
        super().__init__(message)
        self.knob = knob


class TableElsewhere(DeploymentError):
    """A table of another account or region, which are not supported."""


class TableNotListed(DeploymentError):
    """An upload rule names a table that the deployment may not write."""


class BucketNotListed(DeploymentError):
    """An upload rule names a bucket that the deployment may not read."""


class AmbiguousUpload(DeploymentError):
    """Two upload rules have the same bucket and prefix."""


class TooManySettings(DeploymentError):
    """The settings exceed AWS's limits for environments, policies or event patterns."""


# Packages in the functions' asset.


class DistributionMissing(DeploymentError):
    """A pinned distribution is not installed, or in another version."""


class DistributionDamaged(DeploymentError):
    """A file of an installed distribution does not match the distribution's RECORD."""


class DistributionNotPure(DeploymentError):
    """A distribution has compiled code, which runs on one architecture only."""


# Layers.


class WheelUnavailable(DeploymentError):
    """pip could not download a wheel for the functions' platform."""


class WheelDamaged(DeploymentError):
    """A wheel does not have the hash that is expected, or is no wheel."""


class LayersTooLarge(DeploymentError):
    """Code and layers exceed Lambda's limit."""
