"""Payloads that nobody should send, by name."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from tests.unit.steps.world import BUCKET, KEY, TABLE

DEEP: Any = json.loads("[" * 400 + "]" * 400)
WRONG_TYPES: dict[str, Any] = {
    "null": None,
    "true": True,
    "minus one": -1,
    "a fraction": 0.5,
    "a huge number": 10**400,
    "infinity": float("inf"),
    "not a number": float("nan"),
    "a list": [1, [2]],
    "an object": {"a": {"b": 1}},
    "nested": DEEP,
}
TEXTS: dict[str, str] = {
    "empty": "",
    "a surrogate": "\ud800",
    "NUL": "a\0b",
    "an escape": "\x1b]0;owned\x07\x1b[2J",
    "a C1 control": "\x9b31m",
    "a line end": "a\nb\r\n",
    "bidirectional": "a\u202etxt.csv",
    "parents": "../../../../etc/passwd",
    "absolute": "/etc/passwd",
    "a device": "/dev/zero",
    "an ARN": "arn:aws:dynamodb:us-east-1:123456789012:table/books",
    "a prototype": "__proto__",
    "dunder": "__class__.__init__.__globals__",
    "a template": "${jndi:ldap://x/} {{7*7}} %s {0.__class__}",
    "JSONPath": "$.input..*",
    "SQL": "'; DROP TABLE books; --",
    "markup": "<script>alert(1)</script>",
    "long": "x" * 100_000,
    "an emoji": "\U0001f4a5",
    "full width": "\uff42\uff4f\uff4f\uff4b\uff53",
    "a URL": "http://169.254.169.254/latest/meta-data/",
}
_FIELDS = (
    *("run", "run.id", "run.resume_of", "run.force", "source", "source.bucket", "source.key"),
    *("source.version_id", "source.etag", "source.format", "source.delimiter", "source.quote"),
    *("source.escape", "source.comment", "source.skip_lines", "source.header", "source.columns"),
    *("source.encoding", "source.compression", "source.max_expansion", "source.prefix"),
    *("source.glob", "source.path", "source.manifest", "source.within", "target", "target.table"),
    *("types", "types.n", "mapping", "mapping.rename", "mapping.drop", "mapping.set", "nulls"),
    *("nulls.policy", "nulls.markers", "infer_types", "options", "options.mode"),
    *("options.engine", "options.workers", "options.concurrency", "options.chunk_bytes"),
    *("options.max_wcu", "options.max_rejects", "options.max_row_bytes"),
    *("options.position_attribute", "surprise", "__proto__", "constructor", "a\x1b[2J", "\ud800"),
)
_NUMERIC = (
    *("run.force", "source.skip_lines", "source.header", "source.max_expansion", "infer_types"),
    *("options.workers", "options.concurrency", "options.max_wcu", "options.max_rejects"),
)
_TEXT_FIELDS = (
    *("run.id", "run.resume_of", "source.bucket", "source.key", "source.version_id"),
    *("source.etag", "source.delimiter", "source.encoding", "source.glob", "source.prefix"),
    *("source.manifest", "source.path", "source.within", "target.table", "types.n"),
    *("options.mode", "options.position_attribute"),
)


def good_payload() -> dict[str, Any]:
    return {
        "run": {"id": "run-1"},
        "source": {"bucket": BUCKET, "key": KEY},
        "target": {"table": TABLE},
        "types": {},
        "options": {"engine": "threads", "workers": 1},
    }


def payloads() -> Iterator[tuple[str, Any]]:
    """Yield each payload with its name."""
    for name, value in WRONG_TYPES.items():
        yield f"the payload is {name}", value
        for field in _FIELDS:
            # All numbers are alike to a field that takes none.
            if name not in ("true", "a fraction", "infinity", "not a number") or field in _NUMERIC:
                yield f"{field} is {name}", _with(field, value)
    for name, value in TEXTS.items():
        yield f"the payload is {name}", value
        for field in _TEXT_FIELDS:
            yield f"{field} is {name}", _with(field, value)
    for name, changes in _COMBINATIONS.items():
        made = good_payload()
        for field, value in changes.items():
            _put(made, field, value)
        yield name, made


_COMBINATIONS: dict[str, dict[str, Any]] = {
    "a bucket and a manifest": {"source.manifest": "s3://b/m"},
    "a version of a prefix": {"source.key": None, "source.prefix": "in/", "source.etag": "e"},
    "another id than the one to resume": {"run.resume_of": "other"},
    "a column with a lone surrogate": {"source.columns": ["id", "\ud800"]},
    "columns past counting": {"source.columns": ["c"] * 100_001},
    "types past counting": {"types": {f"c{n}": "S" for n in range(30_000)}},
    "a long type's column": {"types": {"x" * 70_000: "S"}},
    "an encoding that is none": {"source.encoding": "rot13"},
    "an encoding that runs code": {"source.encoding": "idna"},
    "a table elsewhere": {"target.table": "arn:aws:dynamodb:eu-west-1:1:table/t"},
    "another table": {"target.table": "somebody-elses"},
    "another bucket": {"source.bucket": "somebody-elses"},
    "a pattern without end": {"source.key": None, "source.glob": "**" * 3000},
    "a confinement elsewhere": {"source.within": "somebody-elses/"},
    "a skip past the end": {"source.skip_lines": 2**53},
    "a row limit of one byte": {"options.max_row_bytes": 1},
}


def _with(field: str, value: Any, made: dict[str, Any] | None = None) -> dict[str, Any]:
    made = good_payload() if made is None else made
    _put(made, field, value)
    return made


def _put(made: dict[str, Any], field: str, value: Any) -> None:
    *parents, last = field.split(".")
    for parent in parents:
        made = made.setdefault(parent, {})
    made[last] = copy.deepcopy(value)
