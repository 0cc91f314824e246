# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Styles and script of the pages. Nothing is loaded from anywhere; without the script all is still there to read."""

from __future__ import annotations

# of what a page may do; it is said in the page itself
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"

# of every page: colours, text, head, navigation, tables
BASE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --paper: #fff; --ink: #16191d; --soft: #565e69; --line: #d5dae1; --faint: #eceff3;
  --accent: #0b57b8; --warn-ink: #7a3d00; --warn-paper: #fff4e2; --warn-line: #e2a04a;
  --chip-s: 62%; --chip-l: 86%; --chip-ink-l: 20%; --chip-line-l: 48%; --bar-l: 42%;
  --node: rgb(126 87 194 / .17); --kernel: rgb(96 108 122 / .15); --pool: #8b95a3;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #0f1216; --paper: #171b21; --ink: #e7eaee; --soft: #a3acb8; --line: #333a44; --faint: #20262e;
    --accent: #8ab8ff; --warn-ink: #ffd28f; --warn-paper: #2b2113; --warn-line: #9a6a23;
    --chip-s: 42%; --chip-l: 25%; --chip-ink-l: 91%; --chip-line-l: 52%; --bar-l: 62%;
    --node: rgb(160 130 240 / .2); --kernel: rgb(150 165 185 / .15); --pool: #77828f;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 3.5rem; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", sans-serif; }
header, main, footer { max-width: 1500px; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 1.8rem; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.01em; overflow-wrap: anywhere; }
h1 small { display: block; font-size: .8rem; font-weight: 600; letter-spacing: .1em; color: var(--soft);
  text-transform: uppercase; }
h2 { margin: 2.4rem 0 .8rem; font-size: 1.2rem; }
h3 { margin: 0; font-size: 1rem; overflow-wrap: anywhere; }
p { margin: .3rem 0; }
a { color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
code, .mono, .ports, td.num {
  font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .86em; }
.soft { color: var(--soft); }
.skip { position: absolute; left: -999px; }
.skip:focus { left: 1rem; top: .5rem; background: var(--paper); padding: .4rem .8rem; z-index: 9; }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0 0; padding: 0; list-style: none; }
.tiles li { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: .45rem .9rem; }
.tiles b { display: block; font-size: 1.35rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); font-size: .82rem; }
.tiles .warned { background: var(--warn-paper); border-color: var(--warn-line); }
.tiles .warned b, .tiles .warned span { color: var(--warn-ink); }
nav { position: sticky; top: 0; z-index: 5; background: var(--page); border-bottom: 1px solid var(--line);
  margin-top: 1.2rem; }
nav div { max-width: 1500px; margin: 0 auto; padding: .5rem 1.5rem; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem;
  align-items: center; }
nav label { margin-left: auto; color: var(--soft); font-size: .88rem; }
nav input { font: inherit; width: 15rem; max-width: 60vw; padding: .2rem .6rem; margin-left: .4rem; color: var(--ink);
  background: var(--paper); border: 1px solid var(--soft); border-radius: 6px; }
.panel { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-size: .8rem; font-weight: 600; color: var(--soft); }
th, td { padding: .25rem .8rem .25rem 0; vertical-align: top; }
tbody tr + tr > * { border-top: 1px solid var(--faint); }
tbody th { color: var(--ink); font-size: inherit; }
details > summary { cursor: pointer; padding: .35rem 0; font-weight: 600; }
details > summary .soft { font-weight: 400; }
"""

STYLE = (
    BASE
    + """\
svg.path { display: block; width: 100%; height: auto; margin: 0 auto; }
svg.path text { fill: var(--ink); font-size: 13px; }
svg.path .name { font-weight: 700; font-size: 14px; }
svg.path .soft { fill: var(--soft); }
svg.path .fine { font-size: 12px; font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
svg.path rect { fill: var(--faint); stroke: var(--soft); stroke-width: 1.2; }
svg.path .side { fill: hsl(var(--h) var(--chip-s) var(--chip-l)); stroke: hsl(var(--h) 60% var(--chip-line-l)); }
svg.path .flow { fill: none; stroke: var(--soft); stroke-width: 1.6; }
svg.path .kv { fill: none; stroke: var(--accent); stroke-width: 6; }
svg.path .call { fill: none; stroke: var(--ink); stroke-width: 1.6; stroke-dasharray: 5 4; }
svg.path .tip { fill: var(--soft); } svg.path .kvtip { fill: var(--accent); } svg.path .calltip { fill: var(--ink); }
.legend { display: flex; flex-wrap: wrap; gap: .35rem 1rem; margin: 0 0 .9rem; padding: 0; list-style: none;
  font-size: .9rem; }
.mark { display: inline-block; width: .85em; height: .85em; border-radius: 3px; margin-right: .35em;
  vertical-align: -.08em; background: hsl(var(--h) var(--chip-s) var(--chip-l));
  border: 2px solid hsl(var(--h) 60% var(--chip-line-l)); }
.mark.decode { border-radius: 50%; }
.mark.service { background: var(--faint); border: 2px solid var(--soft); }
.hosts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); gap: .9rem;
  align-items: start; }
.host { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: .8rem 1rem;
  break-inside: avoid; content-visibility: auto; contain-intrinsic-size: auto 240px; }
.host header { display: flex; justify-content: space-between; gap: 1rem; padding: 0; margin: 0 0 .5rem; }
.chips { display: grid; grid-template-columns: repeat(8, 1fr); gap: 4px; margin: 0 0 .6rem; padding: 0;
  list-style: none; }
.chip { position: relative; min-height: 3.1rem; padding: .95rem .1rem .1rem; border: 1px solid var(--line);
  border-radius: 5px; text-align: center; line-height: 1.15; overflow: hidden; }
.chip i { position: absolute; left: .25rem; top: .05rem; font-size: .66rem; font-style: normal; opacity: .8; }
.chip b { display: block; font-size: .82rem; white-space: nowrap; }
.chip span { display: block; font-size: .68rem; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.chip.used { background: hsl(var(--h) var(--chip-s) var(--chip-l)); border-color: hsl(var(--h) 60% var(--chip-line-l));
  color: hsl(var(--h) 70% var(--chip-ink-l)); }
.chip.used.decode { border-bottom-width: 4px; }
.chip.free { color: var(--soft); border-style: dashed; }
.ports { display: inline-flex; flex-wrap: wrap; gap: 0 .9rem; }
.ports span { white-space: nowrap; } .ports em { font-style: normal; color: var(--soft); }
.processes { margin: 0; padding: 0; list-style: none; font-size: .9rem; }
.processes li { display: flex; flex-wrap: wrap; gap: 0 .9rem; align-items: baseline; padding: .25rem 0; }
.processes li + li { border-top: 1px solid var(--faint); }
.processes .ports { margin-left: auto; justify-content: flex-end; }
.pools { margin-top: .45rem; padding-top: .35rem; border-top: 1px dashed var(--line); color: var(--soft);
  font-size: .82rem; }
.map thead th { vertical-align: bottom; }
.map .class th { padding-top: 1rem; white-space: normal; }
.map td, .map th { padding-top: .16rem; padding-bottom: .16rem; white-space: nowrap; }
.map .scale { width: 62%; min-width: 420px; padding-right: 0; }
.rail { position: relative; height: 1.25rem; border-radius: 3px; background:
  linear-gradient(90deg, #0000 var(--n0), var(--node) var(--n0), var(--node) var(--n1), #0000 var(--n1)),
  linear-gradient(90deg, #0000 var(--e0), var(--kernel) var(--e0), var(--kernel) var(--e1), #0000 var(--e1)),
  var(--faint); }
.rail i { position: absolute; top: 3px; bottom: 3px; min-width: 4px; border-radius: 1px;
  background: hsl(var(--h) 65% var(--bar-l)); }
.rail i.service { background: var(--soft); }
.rail i.pool { top: 4px; bottom: 4px; border: 1px solid var(--pool); background: repeating-linear-gradient(135deg,
  var(--pool) 0 2px, transparent 2px 6px); }
.ticks { position: relative; height: 2.3rem; font-size: .74rem; font-weight: 400; color: var(--soft); }
.ticks span { position: absolute; bottom: 0; transform: translateX(-50%); }
.ticks span:first-of-type { transform: none; } .ticks span.end { transform: translateX(-100%); }
.ticks b { position: absolute; top: 0; height: 1.1rem; text-align: center; font-weight: 600; border-radius: 3px; }
.ticks b.before { text-align: right; padding-right: .4em; }
.ticks .nodeport { background: var(--node); } .ticks .kernel { background: var(--kernel); }
.flag { font-size: .74rem; padding: 0 .4em; border: 1px solid var(--warn-line); border-radius: 4px;
  color: var(--warn-ink); background: var(--warn-paper); margin-left: .5em; }
.waves { display: flex; flex-wrap: wrap; gap: .6rem 2.2rem; margin: 0; padding: 0; list-style: none; }
.waves li { position: relative; flex: 1 1 12rem; background: var(--paper); border: 1px solid var(--line);
  border-radius: 10px; padding: .7rem 1rem; overflow-wrap: anywhere; }
.waves li + li::before { content: "\\2192"; position: absolute; left: -1.65rem; top: .5rem; color: var(--soft);
  font-size: 1.3rem; }
.finding { border-left: 4px solid var(--line); padding: .1rem 0 .1rem .9rem; margin: 0 0 1rem;
  overflow-wrap: anywhere; }
.finding.warned { border-color: var(--warn-line); }
footer { margin-top: 2.5rem; padding-bottom: 2rem; color: var(--soft); font-size: .82rem; overflow-wrap: anywhere; }
[hidden] { display: none !important; }
@media print {
  @page { margin: 12mm; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  body { font-size: 11px; background: #fff; } nav, .skip { display: none; }
  h2 { break-after: avoid; margin-top: 1.2rem; } .panel, .waves li, .finding, tr { break-inside: avoid; }
  .hosts { grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); }
  .host { content-visibility: visible; } svg.path { min-width: 0 !important; } .map .scale { min-width: 0; }
}
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
"""
)

SCRIPT = """
(() => {
  const box = document.getElementById("filter"), told = document.getElementById("found");
  const hosts = [...document.querySelectorAll("[data-find]")];
  const groups = [...document.querySelectorAll("details.group")].map((node) => ({ node, open: node.open }));
  box.closest("label").hidden = false;
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let count = 0;
    for (const host of hosts) {
      host.hidden = !words.every((word) => host.dataset.find.includes(word));
      count += !host.hidden;
    }
    for (const { node, open } of groups) {
      const some = node.querySelector("[data-find]:not([hidden])") !== null;
      node.hidden = !some;
      node.open = words.length ? some : open;
    }
    told.textContent = words.length ? count + " of " + hosts.length + " hosts" : "";
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) { event.preventDefault(); box.focus(); }
    if (event.key === "Escape" && document.activeElement === box) {
      box.value = "";
      box.dispatchEvent(new Event("input"));
    }
  });
})();
"""
