-- mare.observe.page: the page of `mare top --web` in one piece: this is its markup and its style, its script is mare.observe.page_script. It loads
-- nothing from anywhere, and nothing of what a program says of itself becomes markup: all of that is text.
local script = require "mare.observe.page_script"

local before = [==[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>mare top</title>
<link rel="icon"
  href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 2 2'%3E%3Ccircle cx='1' cy='1' r='.9' fill='%23078'/%3E%3C/svg%3E">
<style nonce="@NONCE@">
:root { color-scheme: light dark; --ground: #f3f6f7; --card: #fff; --ink: #14262d; --soft: #556a73; --line: #d8e2e5; --sea: #0b7a8f; --warm:
  #b95a12; --good: #1d7f4c;
  --hot: #b3261e; --wash: #e6f1f3 }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0d171b; --card: #15232a; --ink: #e5eef1; --soft: #93a9b2; --line: #283b43; --sea: #3cb6cc; --warm: #e8954f; --good: #4cc488;
    --hot: #ff8a80;
    --wash: #1b323a }
}
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
main { max-width: 84rem; margin: 0 auto; padding: 1.2rem 1.2rem 4rem }
header { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; align-items: baseline; justify-content: space-between }
h1 { font: 600 1.15rem/1.3 ui-monospace, "DejaVu Sans Mono", monospace; margin: 0; overflow-wrap: anywhere }
h2 { font-size: 1.02rem; margin: 0 }
header p, .note { color: var(--soft); margin: 0; font-size: .88rem }
.note { margin: .2rem 0 .6rem }
#state { font-size: .88rem; white-space: nowrap }
#state::before { content: ""; display: inline-block; width: .65em; height: .65em; border-radius: 50%; background: var(--warm); margin-right: .5em }
#state.live::before { background: var(--good) } #state.over::before { background: var(--hot) }
#over { border-left: 4px solid var(--hot); padding: .6rem 1rem; background: var(--card); margin: .8rem 0 0 }
section, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .8rem 1rem; min-width: 0 }
.card { display: flex; flex-direction: column } .card svg.chart { margin-top: auto }
section { margin-top: .9rem }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .9rem; margin-top: .9rem }
.two { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 0 .9rem; align-items: start }
@media (max-width: 60rem) { .two { grid-template-columns: minmax(0, 1fr) } }
.card h2 { font-size: .84rem; font-weight: 600; color: var(--soft) }
.value { font-size: 1.65rem; line-height: 1.25; font-weight: 640; font-variant-numeric: tabular-nums; white-space: nowrap }
.value small { font-size: .82rem; font-weight: 400; color: var(--soft) }
.more { font-size: .82rem; color: var(--soft); min-height: 1.25em; font-variant-numeric: tabular-nums }
.key { white-space: nowrap } .more i { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin: 0 .3em 0 .1em }
svg.chart { display: block; width: 100%; height: 64px; margin-top: .4rem; overflow: visible; touch-action: pan-y }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; vector-effect: non-scaling-stroke }
.at { stroke: var(--soft); stroke-width: 1; vector-effect: non-scaling-stroke }
.c0 { stroke: var(--sea) } .c1 { stroke: var(--warm) } .area { fill: var(--sea); opacity: .12 }
i.c0 { background: var(--sea) } i.c1 { background: var(--warm) }
#workers { display: grid; grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); gap: .5rem 1.2rem; margin-top: .5rem; font-size: .86rem;
  font-variant-numeric: tabular-nums }
#workers span { display: flex; justify-content: space-between; gap: .5rem }
.bar { height: 7px; border-radius: 4px; background: var(--line); overflow: hidden } .bar i { display: block; height: 100%; background: var(--sea) }
.bar i.hot { background: var(--warm) }
.scroll { overflow-x: auto; margin-top: .5rem }
table { border-collapse: collapse; width: 100%; font-size: .87rem; font-variant-numeric: tabular-nums }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); white-space: nowrap }
td, th { padding: .18rem .55rem .18rem 0 } td { border-bottom: 1px solid color-mix(in srgb, var(--line) 55%, transparent) }
.n { text-align: right; white-space: nowrap }
td.name { max-width: 22rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
tr.gone td { text-decoration: line-through; color: var(--soft) } tr.born td { background: var(--wash) }
.running { color: var(--good) } .ready { color: var(--warm) } .failed { color: var(--hot) }
button, select { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 7px; padding: .25rem
  .7rem; cursor: pointer }
button:disabled { opacity: .55; cursor: default }
button.main { background: var(--sea); border-color: var(--sea); color: #fff; font-weight: 600 }
@media (prefers-color-scheme: dark) { button.main { color: #06252c } }
button.flat { border: 0; background: none; padding: .1rem 0; font: inherit; color: inherit; text-align: inherit }
td button.flat { color: var(--sea); text-decoration: underline; text-underline-offset: 2px }
th button.flat[aria-pressed=true] { color: var(--ink) } th button.flat[aria-pressed=true]::after { content: " ▾" }
:focus-visible { outline: 2px solid var(--sea); outline-offset: 2px }
.bar2 { display: flex; flex-wrap: wrap; gap: .5rem .8rem; align-items: center; justify-content: space-between }
#graph { display: block; width: 100%; max-width: 34rem; margin: .3rem auto 0 }
#graph text { font-size: 12px; fill: var(--ink) } #graph circle { fill: var(--sea) } #graph path { fill: none; stroke: var(--sea); opacity: .55 }
#graph path:hover { opacity: 1; stroke: var(--warm) } #graph .rim { fill: none; stroke: none }
pre { font: .82rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; overflow: auto; max-height: 26rem; margin: .4rem 0; white-space: pre-wrap;
  overflow-wrap: anywhere }
summary { cursor: pointer; overflow-wrap: anywhere } details { border-bottom: 1px solid var(--line); padding: .25rem 0; font-size: .9rem } details
  time { color: var(--soft) }
dialog { color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 12px; max-width: min(56rem, 94vw); width: 56rem;
  padding: 1rem 1.2rem }
dialog::backdrop { background: #0008 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .6rem 0; font-size: .9rem } dt { color: var(--soft) } dd {
  margin: 0; overflow-wrap: anywhere }
#flame { position: relative; margin-top: .6rem; overflow: hidden; border-radius: 4px } #flame[hidden] { display: none }
#flame button { position: absolute; height: 19px; padding: 0 4px; border: 0; border-radius: 2px; font: 11.5px/19px ui-monospace,
  "DejaVu Sans Mono", monospace; color: #14262d;
  text-align: left; overflow: hidden; white-space: nowrap; box-shadow: inset 0 0 0 .5px #0003 }
#flame button:hover, #flame button:focus { filter: brightness(1.12); outline: 2px solid var(--ink); outline-offset: -2px }
#tip { position: fixed; z-index: 9; pointer-events: none; background: var(--ink); color: var(--ground); border-radius: 6px; padding: .3rem .6rem;
  font-size: .83rem; max-width: 30rem;
  white-space: pre-line; overflow-wrap: anywhere } #tip[hidden] { display: none }
@media (max-width: 40rem) {
  main { padding: .8rem .6rem 3rem } section, .card { padding: .7rem .75rem } .wide { display: none } td.name { max-width: 9.5rem }
  table { font-size: .8rem } td, th { padding-right: .4rem } #graph text { font-size: 17px }
  .cards { grid-template-columns: 1fr 1fr; gap: .6rem } .cards > :last-child:nth-child(odd) { grid-column: span 2 } .value { font-size: 1.25rem }
    .value small { display: block } svg.chart { height: 44px }
}
</style>
</head>
<body>
<main>
<header><div><h1 id="command">mare top</h1><p id="about"></p></div><span id="state" role="status">connecting</span></header>
<p id="over" role="alert" hidden></p>
<div class="cards" id="charts"></div>
<section><h2>Workers</h2><div id="workers"></div></section>
<section><div class="bar2"><h2>CPU profile</h2><span><label>for <select id="seconds"><option value="2">2 s</option><option value="5" selected>5
  s</option>
<option value="10">10 s</option><option value="30">30 s</option></select></label> <button class="main" id="profile">Profile</button> <button
  id="unzoom" hidden>Whole profile</button></span></div>
<p class="note" id="profiled" role="status">Which functions the processor's time goes to. The program goes on meanwhile.</p>
<div id="flame" hidden></div><div class="scroll" id="functions"></div></section>
<div class="two">
<section><h2>Who talks to whom</h2><p class="note" id="window"></p><svg id="graph" viewBox="0 0 520 360" role="img"
  aria-label="who talks to whom; the table says the same"></svg>
<div class="scroll" id="talk"></div></section>
<div><section><h2>Groups</h2><p class="note">Processes whose names differ in digits alone, or that were made to run the same function.</p><div
  class="scroll" id="groups"></div></section>
<section><h2>Channels with names</h2><div class="scroll" id="channels"></div></section></div>
</div>
<section><div class="bar2"><h2>Processes</h2><span class="note" id="count"></span></div><div class="scroll" id="processes"></div></section>
<section><h2>Failures that nobody waited for</h2><div id="failures"></div></section>
</main>
<dialog id="one" aria-labelledby="oneTitle"><div class="bar2"><h2 id="oneTitle"></h2><button id="close">Close</button></div><dl
  id="oneFields"></dl><pre id="oneTrace" tabindex="0"></pre></dialog>
<div id="tip" role="tooltip" hidden></div>
<script nonce="@NONCE@">
]==]

--- The page, whose script and style run by this nonce alone.
return function(nonce) return (before:gsub("@NONCE@", nonce)) .. script .. "</script>\n</body>\n</html>\n" end
