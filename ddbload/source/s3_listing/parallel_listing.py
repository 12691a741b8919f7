"""A listing of a large prefix in parts that are listed side by side, and given in order.

A part lists what comes after one key and ends with another: so parts tile the keys, wherever they
are cut. A page's keys beyond its part's end are another part's, and left out. No clock, no sockets.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Generator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ddbload.aws.failures import AwsFailure
from ddbload.aws.http_client.http1 import Response
from ddbload.errors import SourceNotFound, SourceUnreadable
from ddbload.source.s3_listing.key_space import (
    Alphabets,
    KeySpan,
    cuts,
    next_larger_keys,
    pages_left,
)
from ddbload.source.s3_listing.list_page import (
    BadPage,
    ListedObject,
    ListPage,
    is_sorted,
    read_page,
    token_of,
)
from ddbload.source.s3_requests import S3Request, failure_of_content

if TYPE_CHECKING:
    from ddbload.aws.signing.s3_signer import S3Signer

PAGES_AHEAD = 64
"""So many may have come before they are taken: some 30 MB."""
_PAGES_EACH = 6.0
"""How long a part may be. Parts far ahead would only wait, for what comes before them."""
_PAGES_LEAST = 2.0
_PAGES_FIRST = 2
"""So many are listed before anything is divided: short listings are not worth it."""
_WORTH_CUTTING = 3.0
"""Pages that are left. On the average a part asks for half a page too much."""
_SAMPLES = 8
"""Keys of a page whose characters are looked at."""
_VAIN = 24
"""So many parts may turn out empty, and one more for two pages that did not, before no more are
made."""
_NEAR = 8
"""Parts that may ask for pages beyond PAGES_AHEAD, since all others wait for them."""


class PageSink(Protocol):
    """Sends requests; see `requesting.Requesting`."""

    def free(self) -> int:
        """How many more may be sent now."""

    def send(self, job: S3Request) -> None:
        """Send one."""

    def wait(self) -> tuple[list[tuple[S3Request, Any]], list[tuple[S3Request, Response]]]:
        """What came."""

    def retry(self, job: S3Request, meant: AwsFailure) -> None:
        """Send one once more."""


class _KeyRange:
    """Keys after one, up to and with another."""

    __slots__ = (
        "after",
        "arrived",
        "asked",
        "came",
        "climbed",
        "first",
        "is_done",
        "last",
        "pages",
        "taken",
        "token",
        "until",
    )

    def __init__(self, after: str | None, until: str | None, *, climbed: bool = False) -> None:
        self.after, self.until = after, until
        self.climbed = climbed
        self.token: str | None = None
        """Of the page to be asked for next, where that is known."""
        self.asked = self.came = self.taken = 0
        self.arrived: dict[int, ListPage] = {}
        self.pages: list[ListPage] = []
        self.first = self.last = ""
        self.is_done = False

    @property
    def is_waiting(self) -> bool:
        """Whether it is to ask for a page."""
        return not self.is_done and (not self.asked or self.token is not None)

    def span(self) -> KeySpan:
        return KeySpan(self.first, self.last, self.taken, self.until)


class PageRequest(S3Request):
    """A page of a part."""

    __slots__ = ("number", "part", "query", "where")

    peeks: ClassVar[bool] = True

    def __init__(self, part: _KeyRange, query: Mapping[str, str], where: str) -> None:
        super().__init__()
        self.part, self.query, self.where = part, query, where
        part.asked += 1
        self.number = part.asked

    def request(self, signer: S3Signer) -> tuple[bytes, int]:
        """A listing's."""
        return signer.list(self.query)

    def doing(self) -> str:
        """What."""
        return f"listing {self.where}"

    def expected(self, meant: AwsFailure) -> Exception | None:
        """No bucket."""
        return no_bucket(meant, self.where)

    def peek(self, partial: Response) -> str | None:
        """The next page's token."""
        return token_of(partial)


def no_bucket(meant: AwsFailure, where: str) -> Exception | None:
    """The named error for a bucket that is not there; None for other failures."""
    if meant.code in ("NoSuchBucket", "404"):
        bucket = "/".join(where.split("/")[:3])
        return SourceNotFound(f"{bucket}: no such bucket")
    return None


class ParallelListing:
    """One listing."""

    def __init__(
        self,
        asker: PageSink,
        bucket: str,
        prefix: str,
        *,
        after: str | None,
        delimiter: str = "",
        divides: bool = True,
        pages_ahead: int = PAGES_AHEAD,
    ) -> None:
        """`divides`: whether parts are to be listed side by side; never with a delimiter."""
        self._asker = asker
        self._where = f"s3://{bucket}/{prefix}"
        self._common = {"encoding-type": "url", "list-type": "2"}
        if prefix:
            self._common["prefix"] = prefix
        if delimiter:
            self._common["delimiter"] = delimiter
        self._divides = divides and not delimiter
        self._pages_ahead = pages_ahead
        self._parts = [_KeyRange(after, None)]
        self._reached = after
        """The last key given."""
        self._alphabets = Alphabets(prefix)
        self._useful = self._vain = 0
        self._was_divided = self._ignores_after = False
        self._skipped: str | None = None

    def pages(self) -> Generator[ListPage]:
        """All pages, in order. Raises what `listing.list_objects` says."""
        parts = self._parts
        while parts:
            head = parts[0]
            if head.pages:
                page = head.pages.pop(0)
                if page.objects:
                    self._reached = page.objects[-1].key
                yield page
            elif head.is_done:
                del parts[0]
            else:
                self._ask()
                self._take()

    # Asking

    def _ask(self) -> None:
        free = self._asker.free()
        held = sum(len(part.pages) + part.asked - part.taken for part in self._parts)
        for number, part in enumerate(self._parts):
            if free <= 0:
                return
            if part.is_waiting and self._may_hold(number, held):
                self._send(part)
                free -= 1
                held += 1
        if self._divides and self._useful >= _PAGES_FIRST:
            self._divide(free, held)

    def _may_hold(self, number: int, held: int) -> bool:
        most = self._pages_ahead
        return not number or held < (2 * most if number < _NEAR else most)

    def _send(self, part: _KeyRange) -> None:
        query = dict(self._common)
        if part.token is not None:
            query["continuation-token"] = part.token
        elif part.after is not None:
            query["start-after"] = part.after
        part.token = None
        self._asker.send(PageRequest(part, query, self._where))

    def _divide(self, free: int, held: int) -> None:
        """Make parts for connections that have nothing to do, of what comes soonest."""
        if self._vain > _VAIN + self._useful // 2:
            return
        left: list[tuple[float, _KeyRange]] = []
        if free > 0:
            left = [(self._left(part), part) for part in self._parts if part.taken]
        # The longest first, so that what is short is cut only when there is nothing else to do.
        for pages, part in sorted(left, key=itemgetter(0), reverse=True):
            number = self._parts.index(part)
            if free <= 0 or pages < _WORTH_CUTTING:
                return
            if self._may_hold(number, held):
                made = self._cut(part, free, pages)
                for place, (cut, until) in enumerate(made):
                    fresh = _KeyRange(cut, until, climbed=part.climbed)
                    self._parts.insert(number + 1 + place, fresh)
                    self._send(fresh)
                free -= len(made)
                held += len(made)

    def _left(self, part: _KeyRange) -> float:
        """About how many pages of a part nobody has asked for."""
        if part.is_done:
            return 0.0
        if part.until is None and not part.climbed:
            return math.inf
        return pages_left(part.span(), self._alphabets) - (part.asked - part.taken)

    def _cut(self, part: _KeyRange, count: int, pages: float) -> list[tuple[str, str | None]]:
        """Cut a part short; the ranges of those that follow it."""
        span = part.span()
        if part.until is None and not part.climbed:
            part.climbed = True
            found = next_larger_keys(span, self._alphabets, count)
        else:
            on_its_way = part.asked - part.taken
            most = min(count, math.ceil(pages / _PAGES_LEAST) - 1)
            found = cuts(span, self._alphabets, most, _PAGES_EACH, on_its_way)
        if not found:
            return []
        self._was_divided = True
        ends = [*found[1:], part.until]
        part.until = found[0]
        return list(zip(found, ends, strict=True))

    # Taking

    def _take(self) -> None:
        peeked, answers = self._asker.wait()
        for job, token in peeked:
            part = job.part  # type: ignore[attr-defined]
            if part.until is None and job.number == part.asked:  # type: ignore[attr-defined]
                part.token = token
        for job, answer in answers:
            assert isinstance(job, PageRequest)  # noqa: S101 - for type checkers
            part = job.part
            try:
                page = read_page(answer.body)
            except BadPage as error:
                self._asker.retry(job, failure_of_content(error))
                continue
            if job.number == part.asked:
                part.token = page.token
            part.arrived[job.number] = page
            while not part.is_done and part.taken + 1 in part.arrived:
                self._add(part, part.arrived.pop(part.taken + 1))

    def _add(self, part: _KeyRange, page: ListPage) -> None:
        """Take a part's next page."""
        objects = page.objects
        start = objects[0].key if objects else ""
        is_last = page.token is None
        if objects and not self._is_next(part, objects):
            return
        if self._skipped is not None:
            objects = objects[bisect_right(objects, self._skipped, key=itemgetter(0)) :]
            page = page._replace(objects=objects)
        if objects and part.until is not None and objects[-1].key >= part.until:
            objects = objects[: bisect_right(objects, part.until, key=itemgetter(0))]
            page = page._replace(objects=objects)
            is_last = True
        part.taken += 1
        if objects:
            self._useful += 1
            part.first = part.first or objects[0].key
            part.last = objects[-1].key
            for each in (*objects[:: 1 + len(objects) // _SAMPLES], objects[-1]):
                self._alphabets.see(each.key)
        elif not part.first:
            self._vain += 1
            if part.after and not start.startswith(part.after):
                self._alphabets.deny(part.after)
        if objects or page.folders:
            part.pages.append(page)
        if is_last:
            part.is_done = True
            part.token = None
            part.arrived.clear()

    def _is_next(self, part: _KeyRange, objects: list[ListedObject]) -> bool:
        """Whether these are what the part lists next; if not, the listing has begun again.

        Not all that speaks S3's language knows of beginning after a key, or lists in order.
        """
        start = part.last or part.after
        is_ordered = is_sorted(objects)
        if is_ordered and (start is None or objects[0].key > start):
            return True
        if is_ordered and not part.taken and not self._ignores_after:
            self._begin_again()
            return False
        if self._was_divided or self._ignores_after:
            raise SourceUnreadable(
                f"{self._where}: the store does not list keys in S3's order, so that it cannot be"
                " listed side by side; list it with one request at a time"
            )
        self._divides = False
        return True

    def _begin_again(self) -> None:
        """List all from the beginning, page by page, and leave out what was given before."""
        self._ignores_after, self._divides = True, False
        self._skipped = self._reached
        for part in self._parts:
            part.is_done = True
        self._parts[:] = [_KeyRange(None, None)]
