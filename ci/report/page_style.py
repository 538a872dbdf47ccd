"""The style of the HTML page: one column of cards, light and dark, from phone to desktop."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--page:#f4f5f7;--card:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d5d9de;
--track:#e9ecef;--band:#b9d7c6;--tick:#1b1f24;--good:#13693d;--bad:#c1272d;--open:#8a5a00;--new:#2457a6;
--heat:36,87,166;--bad-soft:#fbe3e3;--open-soft:#fbf0d5;--good-soft:#dff1e6;--new-soft:#e1eafa}
@media (prefers-color-scheme:dark){:root{--page:#14171a;--card:#1d2125;--ink:#e6e9ec;--soft:#a3acb5;
--line:#3a4149;--track:#2b3036;--band:#2f5a45;--tick:#f0f2f4;--good:#5fd08f;--bad:#ff8078;--open:#f0b849;
--new:#8ab4f8;--heat:138,180,248;--bad-soft:#4a2324;--open-soft:#43361a;--good-soft:#1f3b2c;--new-soft:#22324d}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:16px}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 4px}h2{font-size:1.15rem;margin:0 0 10px}
h3{font-size:.95rem;margin:14px 0 6px}
p{margin:4px 0}.soft,small{color:var(--soft)}
section,header,details.card{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:16px;margin:0 0 14px;overflow-wrap:break-word;min-width:0}
header{border-left-width:8px}header.good{border-left-color:var(--good)}header.bad{border-left-color:var(--bad)}
header.open{border-left-color:var(--open)}
code{overflow-wrap:anywhere;font:.86em/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.word{display:inline-block;padding:0 8px;border-radius:9px;font-weight:600;
font-size:.85rem;white-space:nowrap}
.word.good{color:var(--good);background:var(--good-soft)}.word.bad{color:var(--bad);background:var(--bad-soft)}
.word.open{color:var(--open);background:var(--open-soft)}.word.new{color:var(--new);background:var(--new-soft)}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin-top:12px}
.tile{border:1px solid var(--line);border-radius:8px;padding:6px 14px;min-width:88px}
.tile b{display:block;font-size:1.35rem;line-height:1.2}
table{border-collapse:collapse;width:100%}.cards td>div{min-width:5em;overflow-wrap:anywhere}
.cards td:nth-child(2)>div{min-width:8em}th,td{text-align:left;vertical-align:top;padding:6px 10px 6px 0;
border-top:1px solid var(--line)}thead th{border-top:0;color:var(--soft);font-weight:600;font-size:.82rem}
.scroll{overflow-x:auto;max-width:100%}
summary{cursor:pointer;font-weight:600}summary .word{margin-left:6px}
.metric{display:grid;grid-template-columns:minmax(0,2.2fr) minmax(0,3fr) minmax(0,2fr);gap:4px 16px;
align-items:center;padding:7px 0;border-top:1px solid var(--line)}
.metric:first-of-type{border-top:0}
.track{position:relative;height:18px;background:var(--track);border-radius:4px;margin:2px 0}
.track>*{position:absolute;top:0;bottom:0}
.band{background:var(--band)}.tick{width:3px;margin-left:-1.5px;background:var(--tick)}
.dot{width:12px;height:12px;top:3px!important;bottom:auto!important;margin-left:-6px;border-radius:50%;
border:2px solid var(--card);background:var(--good)}.dot.bad{background:var(--bad)}
.dot.open{background:var(--open)}.dot.new{background:var(--new)}
.span{top:7px!important;bottom:7px!important;background:var(--ink)}.bar{background:var(--new)}
.bar.bad{background:var(--bad)}.bar.late{background:var(--open)}
.margin{width:2px;margin-left:-1px;background:var(--bad)}.zero{width:2px;margin-left:-1px;background:var(--soft)}
.scale{display:flex;justify-content:space-between;color:var(--soft);font-size:.75rem}
.spark{width:100%;max-width:180px;height:30px;display:block}.spark path{fill:none;stroke:var(--new);
stroke-width:1.5;vector-effect:non-scaling-stroke}.spark circle{fill:var(--new)}
.heat td,.heat th{padding:4px 6px;border:1px solid var(--line);font-size:.8rem;text-align:center;
white-space:nowrap}.heat th[scope=row]{text-align:left}
.heat td.bad{background:var(--bad-soft);color:var(--bad);font-weight:600}
.heat td.open{background:var(--open-soft);color:var(--open);font-weight:600}
.heat td.none{color:var(--soft)}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:.82rem;color:var(--soft);margin:0 0 8px}
.key{display:inline-block;width:22px;height:10px;margin-right:5px;border-radius:2px;vertical-align:baseline}
@media (max-width:720px){main{padding:8px}section,header,details.card{padding:12px}
.metric{grid-template-columns:minmax(0,1fr)}
table.cards thead{display:none}table.cards tr{display:block;border-top:1px solid var(--line);padding:8px 0}
table.cards td>div,table.cards td:nth-child(2)>div{min-width:0}
table.cards td{display:flex;gap:10px;border:0;padding:2px 0}
table.cards td::before{content:attr(data-name);color:var(--soft);flex:0 0 84px;font-size:.82rem}}
@media print{body{background:#fff}section,header,details.card{break-inside:avoid}}
"""
