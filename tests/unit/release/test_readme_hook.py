from __future__ import annotations

import re

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from infra import ROOT
from release.readme_hook import with_absolute_links

HOME = "https://github.com/a/b"
LINK = re.compile(r"\]\(([^)\s]*)\)")


@pytest.mark.parametrize(
    ("written", "published"),
    [
        ("[a](docs/a.md)", f"[a]({HOME}/blob/main/docs/a.md)"),
        ("[a](docs/a.md#b-c)", f"[a]({HOME}/blob/main/docs/a.md#b-c)"),
        ("[a\nb](./docs/a.md),", f"[a\nb]({HOME}/blob/main/docs/a.md),"),
        ("[tests](tests/)", f"[tests]({HOME}/tree/main/tests/)"),
        ("[below](#below)", f"[below]({HOME}#below)"),
        ("![a](docs/a.svg)", "![a](https://raw.githubusercontent.com/a/b/main/docs/a.svg)"),
        ("[`a`](https://x.y/z)", "[`a`](https://x.y/z)"),
        ("```sh\na[0](1)\n```", "```sh\na[0](1)\n```"),
    ],
)
def test_hook_makes_relative_links_absolute(written: str, published: str):
    assert with_absolute_links(written, HOME) == published


def test_package_page_is_the_readme_with_absolute_links():
    core = ProjectMetadata(str(ROOT), PluginManager()).core
    readme = (ROOT / "README.md").read_text("utf-8")
    assert core.readme_content_type == "text/markdown"
    assert len(LINK.findall(core.readme)) == len(LINK.findall(readme)) > 20
    assert [link for link in LINK.findall(core.readme) if not link.startswith("https://")] == []
    assert LINK.sub("", core.readme) == LINK.sub("", readme)
