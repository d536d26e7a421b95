// SPDX-License-Identifier: Apache-2.0
// The style of a report's page: for screens of any width, light or dark, and for paper. The palette
// is that of Okabe and Ito, which colour-blind readers can tell apart.
#include "cli/report_sections.h"

namespace arenite::tool {

const char* const kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1d2126; --soft: #5b6470; --rule: #dfe3e8; --shade: #f5f6f8;
  --c1: #0072b2; --c2: #d55e00; --c3: #009e73; --c4: #56b4e9;
  --c5: #cc79a7; --c6: #e69f00; --c7: #8a7d00; --c8: #8b929c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16191d; --ink: #e4e7eb; --soft: #9aa3ae; --rule: #343a42; --shade: #1e2227;
    --c1: #4ba3dc; --c2: #f0803c; --c3: #2fc39a; --c4: #8fd0f5;
    --c5: #e09cc3; --c6: #f2b84b; --c7: #d8cb4a; --c8: #7f8893;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
main, body > footer { max-width: 1080px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 32px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0; font-weight: 650; }
h2 { font-size: 19px; margin: 0 0 8px; padding-top: 10px; border-top: 1px solid var(--rule); }
p { margin: 0 0 12px; max-width: 75ch; }
section { margin-top: 36px; }
.kicker { color: var(--soft); font-size: 13px; margin: 0 0 2px; }
.summary { color: var(--soft); margin: 4px 0 16px; }
.key, figcaption, .note, body > footer { color: var(--soft); font-size: 13px; }
.key span { white-space: nowrap; margin-right: 10px; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(max(140px, 22%), 1fr));
  gap: 10px 24px; margin: 0; }
dl div { min-width: 0; }
dt { color: var(--soft); font-size: 13px; }
dd { margin: 0; }
.scroll { overflow-x: auto; max-width: 100%; margin: 0 0 16px; }
.scroll:focus-visible { outline: 2px solid var(--c1); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 14px; min-width: min(100%, 480px); }
caption { text-align: left; font-weight: 600; padding: 6px 0; }
th, td { text-align: left; vertical-align: baseline; padding: 3px 16px 3px 0; font-weight: 400;
  border-bottom: 1px solid var(--rule); overflow-wrap: normal; }
tbody th { overflow-wrap: anywhere; min-width: 7em; }
thead th { color: var(--soft); font-size: 13px; vertical-align: bottom; white-space: nowrap; }
td { min-width: 5em; }
.n { text-align: right; white-space: nowrap; min-width: 0; }
.one { white-space: nowrap; }
.text { min-width: min(22em, 60vw); }
figure { margin: 0 0 20px; min-width: 0; }
figcaption { margin-bottom: 6px; }
.multiples { display: grid; gap: 20px 24px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 205px), 1fr)); }
.multiples figure { margin: 0; }
.multiples figcaption { margin: 4px 0 0; line-height: 1.4; }
.multiples b { color: var(--ink); font-weight: 600; }
details { margin-bottom: 16px; }
summary { cursor: pointer; color: var(--soft); }
.met::before { content: "\2713\00a0"; color: var(--c3); }
.broken { font-weight: 600; }
.broken::before { content: "\2717\00a0"; color: var(--c2); }
.swatch { display: inline-block; border: 5px solid var(--c); border-radius: 2px; }
.c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); } .c4 { --c: var(--c4); }
.c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); } .c8 { --c: var(--c8); }
svg { display: block; max-width: 100%; }
svg text { fill: var(--ink); font-size: 11px; }
svg path, svg rect { fill: var(--c); }
svg .grid, svg .axis, svg .edge { fill: none; stroke: var(--rule); }
svg .axis, svg .edge { stroke: var(--soft); }
svg .line { fill: none; stroke: var(--c); stroke-width: 2; }
svg .dashed { stroke-dasharray: 5 4; }
svg .slot { fill-opacity: .3; stroke: var(--c); }
svg .seen { fill: var(--c1); }
svg .partly { fill: var(--c1); fill-opacity: .35; }
.plot { max-width: none; height: auto; }
.mask { width: 128px; }
.wide-bar { width: 100%; height: 26px; margin-bottom: 12px; }
.row-bar { width: 180px; height: 11px; background: var(--shade); }
body > footer { margin-top: 40px; padding-bottom: 32px; }
@media (max-width: 560px) {
  main, body > footer { padding: 0 14px; }
  h1 { font-size: 24px; }
  th, td { padding-right: 12px; }
  .row-bar { width: 110px; }
}
@media print {
  :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --rule: #ccc;
    --shade: #fff; }
  body { font-size: 10.5px; }
  main, body > footer { max-width: none; padding: 0; }
  h1 { font-size: 20px; } h2 { font-size: 14px; }
  p, .key, figcaption, .note, caption, dt, body > footer { font-size: 10px; }
  table, thead th { font-size: 8.5px; }
  th, td { padding: 1px 6px 1px 0; }
  .scroll { overflow: visible; }
  .plot { max-width: 100%; }
  .row-bar { width: 80px; height: 8px; }
  .multiples { grid-template-columns: repeat(4, 1fr); }
  section { margin-top: 18px; }
  h2, caption { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  thead { display: table-header-group; }
}
)css";

}  // namespace arenite::tool
