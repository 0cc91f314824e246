# Copyright: (c) 2026, mooncake.pd contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Style and script of the page of preflight, on top of those that all pages share."""

from __future__ import annotations

from ansible_collections.mooncake.pd.plugins.plugin_utils.report import assets

STYLE = (
    assets.BASE
    + """\
:root {
  --error-paper: #b3261e; --error-ink: #fff; --error-line: #b3261e;
  --warning-paper: #ffd48a; --warning-ink: #4a2800; --warning-line: #b06a00;
  --notice-paper: #d9e7fc; --notice-ink: #0b3f86; --notice-line: #4a7fc4;
  --good-paper: #e4f3e8; --good-ink: #1a6331; --good-line: #a9d3b5;
  --hatch: #8b95a3;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --error-paper: #f08a80; --error-ink: #2a0502; --error-line: #f08a80;
    --warning-paper: #6a4710; --warning-ink: #ffdf9f; --warning-line: #d09a3c;
    --notice-paper: #1c3a63; --notice-ink: #c4dcff; --notice-line: #5f92d6;
    --good-paper: #162a1d; --good-ink: #86cf9c; --good-line: #2c5a3b;
    --hatch: #77828f;
  }
}
.error { --own-paper: var(--error-paper); --own-ink: var(--error-ink); --own-line: var(--error-line); }
.warning { --own-paper: var(--warning-paper); --own-ink: var(--warning-ink); --own-line: var(--warning-line); }
.notice { --own-paper: var(--notice-paper); --own-ink: var(--notice-ink); --own-line: var(--notice-line); }
.good { --own-paper: var(--good-paper); --own-ink: var(--good-ink); --own-line: var(--good-line); }
.tiles li.error, .tiles li.warning, .tiles li.notice, .tiles li.good, .pill, .said {
  background: var(--own-paper); border-color: var(--own-line); }
.tiles [class] b, .tiles [class] span { color: var(--own-ink); }
.said { border: 1px solid var(--own-line); border-radius: 8px; padding: .5rem .9rem; margin: 1rem 0 0;
  color: var(--own-ink); font-weight: 600; }
.pill { display: inline-block; border: 1px solid var(--own-line, var(--soft)); color: var(--own-ink, var(--soft));
  border-radius: 4px; padding: 0 .45em; font-size: .8rem; font-weight: 600; white-space: nowrap; }
.key { display: flex; flex-wrap: wrap; gap: .35rem 1.2rem; margin: 0 0 .8rem; padding: 0; list-style: none;
  font-size: .88rem; align-items: center; }
.key i { margin-right: .45em; }
.key i, .fleet td > * { display: inline-block; width: 1.7rem; height: 1.4rem; line-height: 1.3rem; border-radius: 4px;
  border: 1px solid #0000; text-align: center; font-style: normal; font-weight: 700; text-decoration: none;
  vertical-align: middle; }
.key .cell, .fleet .cell { background: var(--own-paper); border-color: var(--own-line); color: var(--own-ink); }
.key .blank { border: 1px dashed var(--soft); }
.key .absent, .fleet .absent { border-color: var(--hatch);
  background: repeating-linear-gradient(135deg, var(--hatch) 0 2px, #0000 2px 6px); }
.fleet .absent { width: 100%; }
.fleet { width: auto; }
.fleet th, .fleet td { padding: .16rem .55rem; text-align: center; border: 0; }
.fleet tbody tr > * { border: 0; }
.fleet th:first-child { text-align: left; padding-left: 0; padding-right: 1.4rem; font-weight: 500; }
.grids { display: flex; flex-wrap: wrap; gap: 1.2rem 3.5rem; }
.dense .grids { display: block; }
.grid { max-width: 100%; }
.dense .grid + .grid { border-top: 1px solid var(--faint); padding-top: .8rem; margin-top: .8rem; }
.grid h3 { margin-bottom: .3rem; }
.dense .fleet, .dense tbody { display: block; width: 100%; }
.dense thead { display: none; }
.dense tbody { columns: calc(var(--longest) * .5rem + var(--families) * (1rem + 2px) + 1rem); column-gap: 1.1rem; }
.dense tr { display: flex; align-items: center; break-inside: avoid; height: 1.18rem; }
.dense th:first-child { flex: 1 1 0; min-width: 0; text-align: right; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap;  padding: 0 .4rem 0 0; font-size: .74rem; }
.dense td { padding: 0 0 0 2px; }
.dense .fleet td > *, .dense .fleet td:empty::before { display: block; width: 1rem; height: 1rem; line-height: .9rem;
  font-size: .68rem; border-radius: 3px; }
.dense .fleet td:empty::before { content: ""; }
.dense .fleet .gone { width: calc(var(--families) * (1rem + 2px)); }
.dense .fleet td > .absent { width: 100%; }
.group, .one { background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
  border-left: 5px solid var(--own-line, var(--line)); padding: .35rem 1rem; margin: 0 0 .6rem;
  overflow-wrap: anywhere; }
.group > summary > code { font-size: .95em; } .group .pill + .pill { margin-left: .3em; }
.group > summary .soft { margin-left: .4em; }
.group dl { display: grid; grid-template-columns: minmax(5.5rem, max-content) minmax(0, 1fr);
  gap: .3rem 1rem; margin: .3rem 0 .6rem; }
.group dt { color: var(--soft); font-size: .85rem; padding-top: .1rem; } .group dd { margin: 0; }
.group ul, .one ul { margin: 0; padding: 0; list-style: none; }
.group li + li { margin-top: .15rem; }
.fix { display: flex; gap: .6rem; align-items: flex-start; }
pre { margin: 0; white-space: pre-wrap; font: inherit; }
.fix pre { flex: 1; background: var(--faint); border-radius: 6px; padding: .4rem .7rem; font-weight: 500; }
.raw { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .82em;
  color: var(--soft); max-height: 14rem; overflow: auto; }
button { font: inherit; font-size: .82rem; color: var(--ink); background: var(--paper); border: 1px solid var(--soft);
  border-radius: 6px; padding: .3rem .7rem; cursor: pointer; }
.one { content-visibility: auto; contain-intrinsic-size: auto 2.6rem; padding: .1rem 1rem; margin: 0 0 .35rem; }
.one .pill { margin-left: .5em; }
.one ul { scroll-margin-top: 6rem; padding-bottom: .5rem; } .group dl { scroll-margin-top: 7rem; }
.one li { padding: .25rem 0; border-top: 1px solid var(--faint); }
.one li .pill { margin: 0 .5em 0 0; }
:target { outline: 2px solid var(--accent); outline-offset: 4px; border-radius: 4px; }
footer { margin-top: 2.5rem; padding-bottom: 2rem; color: var(--soft); font-size: .82rem; overflow-wrap: anywhere; }
[hidden] { display: none !important; }
@media print {
  @page { margin: 12mm; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  html { font-size: 11px; } body { font-size: 1rem; background: #fff; } nav, .skip, button { display: none; }
  h2 { break-after: avoid; margin-top: 1.2rem; } .fix, .one li, .tiles li, .fleet tr { break-inside: avoid; }
  .grids { display: block; } .grid { margin-top: .8rem; } summary { break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  .one { content-visibility: visible; } .raw { max-height: none; }
}
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
"""
)

SCRIPT = """
(() => {
  const box = document.getElementById("filter"), told = document.getElementById("found");
  const items = [...document.querySelectorAll("[data-find], .fleet tbody tr, .one")].map((node) => ({
    node, host: node.tagName === "TR",
    text: [node.dataset.find, node.querySelector("th")?.title, node.textContent].join(" ").toLowerCase(),
  }));
  const grids = [...document.querySelectorAll(".grid")];
  const hosts = items.filter((item) => item.host).length;
  box.closest("label").hidden = false;
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let count = 0;
    for (const { node, text, host } of items) {
      node.hidden = !words.every((word) => text.includes(word));
      count += host && !node.hidden;
    }
    for (const grid of grids) grid.hidden = grid.querySelector("tbody tr:not([hidden])") === null;
    told.textContent = words.length ? count + " of " + hosts + " hosts" : "";
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) { event.preventDefault(); box.focus(); }
    if (event.key === "Escape" && document.activeElement === box) {
      box.value = "";
      box.dispatchEvent(new Event("input"));
    }
  });
  const opened = () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
  addEventListener("hashchange", opened);
  opened();
  if (navigator.clipboard) {
    for (const button of document.querySelectorAll(".fix button")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.parentNode.querySelector("pre").textContent);
        button.textContent = "Copied";
      });
    }
  }
})();
"""
