"""The style sheet of the page, for light and dark screens and for paper."""

from __future__ import annotations

import base64
import hashlib

_LIGHT = """
--page:#fff;--panel:#f5f7fa;--line:#d5dbe3;--ink:#1b2330;--muted:#525e6e;--link:#1d5fa8;
--good:#19703a;--warn:#8a5200;--bad:#b3261e;
--first:#2563a8;--more:#7a5bb5;--failed:#c02f27;--open:#d3d9e1;
--rows:#2563a8;--units:#0f766e;--throttled:#b26a00;
--written:#2563a8;--rejected:#c02f27;--superseded:#b26a00;--skipped:#77838f;
--filtered:#a9b4c0
"""
_DARK = """
--page:#12161c;--panel:#1b212a;--line:#39424f;--ink:#e6eaf0;--muted:#a7b1be;--link:#7db8f2;
--good:#5ccf86;--warn:#eab04a;--bad:#ff8a80;
--first:#2f73bd;--more:#8464c8;--failed:#d0463e;--open:#39424f;
--rows:#4c94df;--units:#2fa898;--throttled:#d99a2b;
--written:#4c94df;--rejected:#e0635b;--superseded:#d99a2b;--skipped:#7d8896;
--filtered:#55606d
"""
_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1040px;margin:0 auto;padding:24px 20px 40px}
h1{font-size:26px;line-height:1.25;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 10px;padding-bottom:4px;border-bottom:1px solid var(--line)}
p{margin:6px 0}
a{color:var(--link)}
code{font:13px/1.45 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}
bdi{overflow-wrap:anywhere}
.sub,.muted,caption,footer{color:var(--muted)}
.status{display:inline-block;padding:2px 10px;border-radius:12px;border:1px solid;
font-size:14px;font-weight:600;margin-bottom:8px}
.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad)}
.box{background:var(--panel);border-left:4px solid var(--line);padding:10px 14px;margin:14px 0}
.box.bad{border-color:var(--bad)}.box.warn{border-color:var(--warn)}
.box p,.box ul{color:var(--ink)}.box b,.box .name{font-weight:600}
.box .name{color:inherit}
ul{margin:6px 0;padding-left:20px}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin:12px 0}
.tile{background:var(--panel);padding:8px 14px;min-width:max-content;flex:1 1 112px}
.tile b{display:block;white-space:nowrap;
font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.law{display:flex;flex-wrap:wrap;align-items:center;gap:6px 12px;margin:12px 0}
.law .sign{font-size:22px;color:var(--muted)}
.law .tile{flex:0 1 auto}
table{border-collapse:collapse;width:100%;margin:10px 0}
caption{text-align:left;padding-bottom:4px}
th,td{text-align:left;vertical-align:top;padding:5px 12px 5px 0;border-bottom:1px solid var(--line)}
th{font-weight:600}
tbody th{font-weight:400;color:var(--muted);width:320px}
.n{width:1%;text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.wide,.figure{overflow-x:auto}
.figure:focus-visible,.wide:focus-visible{outline:2px solid var(--link);outline-offset:2px}
svg{display:block;width:100%;min-width:640px;height:auto;
font:12px system-ui,sans-serif}
.label{fill:var(--muted)}.heading{fill:var(--ink);font-weight:600;font-size:13px}
.end{text-anchor:end}.middle{text-anchor:middle}.inside{fill:#fff;font-size:11px}
.grid{stroke:var(--line);stroke-width:1}.limit{stroke:var(--bad);stroke-dasharray:5 4}
.pause{fill:var(--panel);stroke:var(--line);stroke-dasharray:2 3}
.rate-rows{fill:var(--rows)}.rate-units{fill:var(--units)}.rate-throttled{fill:var(--throttled)}
.first{fill:var(--first)}.more{fill:var(--more)}.failed{fill:var(--failed)}.open{fill:var(--open)}
rect.first,rect.more,rect.failed{stroke:var(--page);stroke-width:.5}
.mark{stroke:var(--bad);stroke-width:2.5;fill:none}
.row-written{fill:var(--written)}.row-rejected{fill:var(--rejected)}
.row-superseded{fill:var(--superseded)}.row-skipped{fill:var(--skipped)}
.row-filtered{fill:var(--filtered)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;font-size:13px}
.swatch{display:inline-block;width:11px;height:11px;margin-right:6px;background:var(--open)}
.swatch.first{background:var(--first)}.swatch.more{background:var(--more)}
.swatch.failed{background:var(--failed)}
.swatch.row-written{background:var(--written)}.swatch.row-rejected{background:var(--rejected)}
.swatch.row-superseded{background:var(--superseded)}.swatch.row-skipped{background:var(--skipped)}
.swatch.row-filtered{background:var(--filtered)}
footer{margin-top:40px;font-size:13px}
@media (max-width:600px){main{padding:16px 12px 32px}h1{font-size:21px}.tile{flex-basis:88px}
.wide table{min-width:600px}tbody th{width:130px}}
"""
_PAPER = """
main{max-width:none;padding:0}body{font-size:11pt}svg{min-width:0}
h2{break-after:avoid}.figure,.tiles,.law,.box,tr{break-inside:avoid}
.figure,.wide{overflow:visible}
.wide table{min-width:0}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
"""
CSS = (
    f":root{{color-scheme:light dark;{_LIGHT}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    f"{_RULES}@media print{{{_PAPER}}}"
).replace("\n", "")
"""The whole style sheet."""
_HASH = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
"""Content security policy: no script, no request, and only this style sheet."""
