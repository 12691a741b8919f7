"""Settings of property tests, which cannot open a socket."""

from __future__ import annotations

from tests.unit.conftest import sockets_off

__all__ = ["sockets_off"]
