"""Where requests go."""

from __future__ import annotations

from dataclasses import dataclass

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go. `scheme`: http or https. `region`: for which they are signed."""

    scheme: str
    host: str
    """A name, or an address without brackets."""
    port: int
    region: str

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"
