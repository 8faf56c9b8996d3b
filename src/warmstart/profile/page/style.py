"""How the page of a report looks: one accent, which means errors; the rest is ink on paper, in light and in dark."""

from __future__ import annotations

STYLE = """
:root {
  --paper: #fdfcfa; --ink: #22211f; --soft: #6d6a64; --line: #e7e3dc; --wash: #f5f2ec;
  --accent: #b9482d; --tint: #e9b9a6; --second: #7f8a91; --faint: #dad5cb; --solid: #5d6a70;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #171614; --ink: #e9e6e0; --soft: #a09b92; --line: #33312d; --wash: #201f1c;
    --accent: #f08f6e; --tint: #7c4433; --second: #93a0a7; --faint: #4b4842; --solid: #8b989e;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
main { max-width: 960px; margin: 0 auto; padding: 56px 20px 40px; }
h1 { font-size: 34px; line-height: 1.15; letter-spacing: -.02em; margin: 0; font-weight: 650; }
h2 { font-size: 17px; line-height: 1.3; letter-spacing: -.005em; margin: 0 0 4px; font-weight: 620; }
p { margin: 0; }
.scope { color: var(--soft); margin-top: 6px; }
.note, .empty { color: var(--soft); font-size: 13px; line-height: 1.45; }
section > .note { margin-bottom: 14px; max-width: 68ch; }
figcaption.note { margin-top: 8px; }
.scroll + .note { margin-top: 8px; }
.empty { padding: 14px 0; }

.counts { display: grid; grid-template-columns: 1fr 1fr 1.7fr 1.2fr; gap: 20px 28px; margin: 32px 0 0; }
.counts dt { color: var(--soft); font-size: 13px; }
.counts dd { margin: 0; font-size: 30px; line-height: 1.2; font-weight: 600; letter-spacing: -.02em; }
.counts dd.note { font-size: 13px; line-height: 1.45; font-weight: 400; letter-spacing: 0; margin-top: 2px; }
.accent { color: var(--accent); }

.reading {
  margin: 36px 0 44px; padding: 20px 24px 22px; background: var(--wash);
  border-left: 3px solid var(--accent);
}
.reading h2 { font-size: 13px; font-weight: 400; color: var(--soft); margin: 0; letter-spacing: 0; }
.reading .verdict { font-size: 26px; line-height: 1.25; font-weight: 620; letter-spacing: -.015em; margin-bottom: 8px; }
.reading p + p { margin-top: 6px; max-width: 72ch; }

.columns { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 44px 40px; align-items: start; }
.full { grid-column: 1 / -1; }
.tall { grid-row: span 2; }
figure { margin: 0; }
.narrow { display: none; }

svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 11.5px; fill: var(--soft); }
svg .label { fill: var(--ink); }
svg .value { fill: var(--ink); font-weight: 600; paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
svg .middle { text-anchor: middle; }
svg .end { text-anchor: end; }
.mark .hit { fill: transparent; }
.mark:hover .hit { fill: var(--ink); fill-opacity: .05; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .zero { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 2; }
svg .whisker { fill: none; stroke: var(--accent); stroke-width: 1.5; }
svg .dot { fill: var(--accent); stroke: var(--accent); stroke-width: 1.5; }
svg .s1 .whisker { stroke: var(--second); }
svg .s1 .dot { fill: var(--second); stroke: var(--second); }
svg .dot.hollow { fill: var(--paper); }
svg .bar { fill: var(--tint); }
svg .bar.hollow { fill: none; stroke: var(--tint); stroke-width: 1.5; }
svg .band { fill: var(--accent); fill-opacity: .14; }
svg .line { fill: none; stroke: var(--accent); stroke-width: 1.75; stroke-linejoin: round; }
svg .calls { fill: var(--second); fill-opacity: .45; }
svg .range { stroke: var(--tint); stroke-width: 6; stroke-linecap: round; }
svg .good { fill: var(--solid); }
svg .bad { fill: var(--accent); }
svg .plain { fill: var(--faint); }

.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 0 0 6px; padding: 0; }
.legend li { font-size: 13px; }
svg + .legend { margin-top: 10px; }
.legend i { display: inline-block; width: 9px; height: 9px; border-radius: 50%; margin-right: 7px; }
.legend b { font-weight: 400; color: var(--soft); margin-left: 7px; }
.legend .s0, .legend .bad { background: var(--accent); }
.legend .s1 { background: var(--second); }
.legend .good { background: var(--solid); }
.legend .plain { background: var(--faint); }

.tiles { display: grid; grid-template-columns: 1fr 1fr; gap: 16px; margin-top: 10px; }
.tiles.stacked { grid-template-columns: 1fr; }
.tile { border: 1px solid var(--line); border-radius: 6px; padding: 12px 16px 14px; }
.tile .name { font-size: 13px; line-height: 1.4; }
.tile .number { font-size: 26px; line-height: 1.3; font-weight: 600; letter-spacing: -.015em; }
.tile svg { max-width: 230px; margin: 4px 0 6px; }
.tile svg text { font-size: 10.5px; }

details { margin-top: 6px; font-size: 13px; }
summary { color: var(--soft); cursor: pointer; width: max-content; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; line-height: 1.4; }
th, td { text-align: left; vertical-align: top; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); }
th { font-weight: 400; color: var(--soft); white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
.end { text-align: right; white-space: nowrap; }
td.tool { white-space: nowrap; }
td.fix { min-width: 12em; color: var(--soft); }
code { display: block; min-width: 20em; font: 12px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
footer { margin-top: 56px; padding-top: 16px; border-top: 1px solid var(--line); color: var(--soft); font-size: 13px; }
footer p { max-width: 78ch; }
footer p + p { margin-top: 6px; }

@media (max-width: 680px) {
  main { padding: 32px 16px; }
  h1 { font-size: 28px; }
  .counts { grid-template-columns: 1fr 1fr; }
  .reading { padding: 16px 18px; }
  .columns { grid-template-columns: minmax(0, 1fr); gap: 40px; }
  .wide { display: none; }
  .narrow { display: block; }
}
@media print {
  body { font-size: 12px; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  figure, .tile, .reading, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  .columns { gap: 28px 32px; }
  details:not([open]) { display: none; }
}
"""
