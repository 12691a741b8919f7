"""Metadata hook of hatchling: the package's page is README.md with absolute links.

README.md links to files of its checkout, which the package's page does not have.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_BLOCK_OR_LINK = re.compile(
    r"^```.*?^```$|(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)",
    re.MULTILINE | re.DOTALL,
)


def with_absolute_links(page: str, repository: str) -> str:
    """Return the page with its relative links made absolute.

    `repository`: address of the repository on GitHub.
    """
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")

    def absolute(found: re.Match[str]) -> str:
        target = found["target"]
        if target is None or target.startswith(("https://", "http://")):
            return found[0]
        target = target.removeprefix("./")
        if target.startswith("#"):
            place = repository
        elif found["image"]:
            place = f"{raw}/main/"
        else:
            place = f"{repository}/{'tree' if target.endswith('/') else 'blob'}/main/"
        return f"{found['image']}[{found['text']}]({place}{target})"

    return _BLOCK_OR_LINK.sub(absolute, page)


class ReadmeHook(MetadataHookInterface):
    """Hook that sets the project's `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README, for the repository that `project.urls` names."""
        page = Path(self.root, "README.md").read_text("utf-8")
        text = with_absolute_links(page, metadata["urls"]["Homepage"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
