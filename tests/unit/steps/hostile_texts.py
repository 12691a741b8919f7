"""Texts that would harm a page, a terminal or a file if they were not escaped."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from ddbload.contracts.payload import Payload
from ddbload.contracts.results import Failure
from ddbload.contracts.row_counts import SegmentTimes
from ddbload.contracts.run_record import KeyAttribute, Table
from ddbload.contracts.source import Source
from ddbload.report_page.page import RunFacts
from tests.unit.steps.page_scenes import facts, record, reject, work

HOSTILE = [
    "<script>document.title='owned'</script>",
    "</title></style></svg><script>document.title='owned'</script>",
    '"><img src="http://127.0.0.1:1/owned.png" onerror="document.title=\'owned\'">',
    "' onmouseover='document.title=1' x='",
    "]]><script>alert(1)</script><![CDATA[",
    "--><script>alert(1)</script><!--",
    "javascript:document.title='owned'",
    "&lt;script&gt;&#60;b&#62;&amp;",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "\x1b[31mred\x1b[0m\x1b]8;;http://127.0.0.1:1/\x07link",
    "nul\0and\x85next",
    "lone \ud800 and \udcff",
    "right \u202eto left\u2066 and \u200b\ufeff",
    "<base href=http://127.0.0.1:1/><link rel=stylesheet href=x><meta http-equiv=refresh>",
    "x" * 400_000,
]


def hostile_facts(*, show_rows: bool = False) -> RunFacts:
    """Make a run in which everything that a user, a file or AWS writes is hostile."""
    whole = " ".join(text for text in HOSTILE if len(text) < 1000)
    columns = tuple(f"{text[:2000]} {place}" for place, text in enumerate(HOSTILE))
    source = Source(bucket=whole, key=whole, delimiter="<", quote='"', encoding=whole)
    made = record(
        1,
        payload=Payload(source, whole, {}),
        pinned={"etag": whole, "version_id": whole, "sha256": whole, "mtime_ns": whole},
        columns=columns,
        types=("S",) * len(columns),
        table=Table(whole, whole, (KeyAttribute(whole, "S", 2048),)),
        run=whole,
    )
    chunks, chains = work(1, 1, rejected=len(HOSTILE))
    (segment,) = chains[0]
    assert segment.times is not None
    times = SegmentTimes(whole, segment.times.began, segment.times.ended)
    lines = [
        reject(place, cause=text[:3000], column=columns[place], detail=text, raw=text, source=text)
        for place, text in enumerate(HOSTILE)
    ]
    failures = tuple(Failure(text, text, 0, segment.times.began) for text in HOSTILE)
    return facts(
        chunks,
        [[replace(segment, times=times, proven=False)]],
        status="FAILED",
        failures=failures,
        error=Failure(whole, whole, 0),
        rejects=lines,
        made=made,
        show_rows=show_rows,
    )


class ElementCollector(HTMLParser):
    """Elements, attributes and text of a page, as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.other: list[str] = []
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        """All text outside of the style sheet."""
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert len(dict(attributes)) == len(attributes)
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)
