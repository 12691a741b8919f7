"""The style sheet of the page, for light and dark screens and for paper."""

from __future__ import annotations

import base64
import hashlib

_COLORS = {
    "page": ("#fff", "#12161c"),
    "panel": ("#f5f7fa", "#1b212a"),
    "line": ("#d5dbe3", "#39424f"),
    "ink": ("#1b2330", "#e6eaf0"),
    "muted": ("#525e6e", "#a7b1be"),
    "link": ("#1d5fa8", "#7db8f2"),
    "good": ("#19703a", "#5ccf86"),
    "warn": ("#8a5200", "#eab04a"),
    "bad": ("#b3261e", "#ff8a80"),
    "first": ("#2563a8", "#2f73bd"),
    "more": ("#7a5bb5", "#8464c8"),
    "open": ("#d3d9e1", "#39424f"),
    "failed": ("#c02f27", "#d0463e"),
    "rate-rows": ("#2563a8", "#4c94df"),
    "rate-units": ("#0f766e", "#2fa898"),
    "rate-throttled": ("#b26a00", "#d99a2b"),
}
"""Colors of light and dark screens; those from `first` on are marks."""
_MARKS = list(_COLORS)[list(_COLORS).index("first") :]
_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1040px;margin:0 auto;padding:24px 20px 40px}
h1{font-size:26px;line-height:1.25;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 10px;padding-bottom:4px;border-bottom:1px solid var(--line)}
p,ul{margin:6px 0}a{color:var(--link)}bdi{overflow-wrap:anywhere}
code{font:13px/1.45 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}
.sub,.muted,caption,footer{color:var(--muted)}
.status{display:inline-block;padding:2px 10px;border-radius:12px;border:1px solid;
font-size:14px;font-weight:600;margin-bottom:8px}
.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad)}
.box{background:var(--panel);border-left:4px solid;padding:10px 14px;margin:14px 0}
.box p,.box ul{color:var(--ink)}.box .name{font-weight:600}
.tiles,.law{display:flex;flex-wrap:wrap;align-items:center;gap:10px;margin:12px 0}
.tile{background:var(--panel);padding:8px 14px;min-width:max-content}
.tiles .tile{flex:1 1 112px}
.tile b{display:block;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.sign{font-size:22px;color:var(--muted)}
table{border-collapse:collapse;width:100%;margin:10px 0}
caption{text-align:left;padding-bottom:4px}
th,td{text-align:left;vertical-align:top;padding:5px 12px 5px 0;border-bottom:1px solid var(--line)}
th{font-weight:600}
tbody th{font-weight:400;color:var(--muted);width:320px}
.n{width:1%;text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.wide,.figure{overflow-x:auto}.wide td:not(.n){min-width:120px}
.figure:focus-visible,.wide:focus-visible{outline:2px solid var(--link);outline-offset:2px}
svg{display:block;width:100%;min-width:640px;height:auto;font:12px system-ui,sans-serif}
.label{fill:var(--muted)}.heading{fill:var(--ink);font-weight:600;font-size:13px}
.end{text-anchor:end}.middle{text-anchor:middle}.inside{fill:#fff;font-size:11px}
.grid{stroke:var(--line)}.limit{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:5 4}
.pause{fill:var(--panel);stroke:var(--line);stroke-dasharray:2 3}
rect.first,rect.more,rect.failed{stroke:var(--page);stroke-width:.5}
.mark{stroke:var(--bad);stroke-width:2.5;fill:none}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;font-size:13px}
.swatch{display:inline-block;width:11px;height:11px;margin-right:6px;background:currentColor}
footer{margin-top:40px;font-size:13px}
@media (max-width:600px){main{padding:16px 12px 32px}h1{font-size:21px}
.wide table{min-width:600px}tbody th{width:130px}}
@media print{main{max-width:none;padding:0}body{font-size:11pt}svg,.wide table{min-width:0}
h2{break-after:avoid}.figure,.tiles,.law,.box,tr{break-inside:avoid}
.figure,.wide{overflow:visible}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""


def _colors(place: int) -> str:
    return ":root{" + "".join(f"--{name}:{both[place]};" for name, both in _COLORS.items()) + "}"


CSS = (
    ":root{color-scheme:light dark}"
    f"{_colors(0)}@media screen and (prefers-color-scheme:dark){{{_colors(1)}}}{_RULES}"
    + "".join(f".{name}{{color:var(--{name});fill:var(--{name})}}" for name in _MARKS)
).replace("\n", "")
"""The whole style sheet."""
_HASH = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
"""Content security policy: no script, no request, and only this style sheet."""
