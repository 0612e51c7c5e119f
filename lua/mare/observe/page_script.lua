-- mare.observe.page_script: the script of the page of `mare top --web` (mare.observe.page).
return [==[
"use strict";
const $ = id => document.getElementById(id), list = x => Array.isArray(x) ? x : [], MOST = 600;
// Names come from the program: nothing that turns the writing direction, no control characters.
const clean = s => String(s).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, "\u00b7");

// An element; what begins with "on" is a listener, children are elements or texts.
function make(tag, fields, ...children) {
  const svg = ["svg", "path", "circle", "text", "g", "line"].includes(tag);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(fields || {})) k.startsWith("on") ? e.addEventListener(k.slice(2), v) : e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// ---- numbers and units ----
const scaled = (n, step, units) => {
  let i = 0;
  while (n >= step * 0.9995 && i < units.length - 1) { n /= step; i++ }
  return (i === 0 ? n < 10 && n % 1 ? n.toFixed(1) : Math.round(n) : n < 9.95 ? n.toFixed(1) : n.toFixed(0)) + units[i];
};
const count = n => n === undefined ? "–" : scaled(n, 1000, ["", "k", "M", "G", "T"]);
const bytes = n => n === undefined ? "–" : scaled(n, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
const percent = x => x === undefined ? "–" : (100 * x).toFixed(x < 0.0995 ? 1 : 0) + " %";
const micro = us => us < 1e3 ? Math.round(us) + " µs" : us < 1e6 ? (us / 1e3).toFixed(us < 1e5 ? 1 : 0) + " ms" : (us / 1e6).toFixed(2) + " s";
const clock = t => new Date(1000 * t).toLocaleTimeString("en-GB");
const lasts = s => s < 60 ? s.toFixed(0) + " s" : s < 3600 ? `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`
  : s < 86400 ? `${Math.floor(s / 3600)} h ${Math.floor(s / 60 % 60)} min` : `${Math.floor(s / 86400)} d ${Math.floor(s / 3600 % 24)} h`;
const exact = n => Math.round(n).toLocaleString("en");

// ---- what is told where the pointer is ----
function tip(text, x, y) {
  const t = $("tip");
  t.hidden = !text;
  if (!text) return;
  t.textContent = text;
  t.style.left = Math.max(4, Math.min(x + 12, innerWidth - t.offsetWidth - 6)) + "px";
  t.style.top = (y + t.offsetHeight + 24 > innerHeight ? y - t.offsetHeight - 8 : y + 16) + "px";
}
const hover = text => ({ onpointermove: e => tip(text(), e.clientX, e.clientY), onpointerleave: () => tip() });

// ---- charts ----
const charts = [
  { id: "cpu", title: "CPU time per second", of: ["cpu", "busy"], big: p => [percent(p.cpu), "of one CPU"], names: ["CPU", "workers busy"],
    units: [percent, percent] },
  { id: "messages", title: "Messages", of: ["messages"], big: p => [count(p.messages), "sent per second"], names: ["sent"],
    units: [n => exact(n) + "/s"] },
  { id: "memory", title: "Memory", of: ["heap", "resident"], big: p => [bytes(p.heap), "in heaps"], names: ["heaps", "resident"], units: [bytes,
    bytes] },
  { id: "live", title: "Processes", of: ["live"], big: p => [exact(p.live), "live"], names: ["live"], units: [exact] },
  { id: "births", title: "Births and ends", of: ["spawned", "ended"], big: p => [count(p.spawned), "born per second"], names: ["born", "ended"],
    units: [n => exact(n) + "/s", n => exact(n) + "/s"] },
];
let points = [], cursor = null;

function chart(c) {
  c.value = make("div", { class: "value" });
  c.more = make("div", { class: "more" });
  c.area = make("path", { class: "area" });
  c.lines = c.of.map((_, i) => make("path", { class: "line c" + i }));
  c.at = make("line", { class: "at", y1: 0, y2: 60, visibility: "hidden" });
  c.svg = make("svg", { class: "chart", viewBox: "0 0 300 60", preserveAspectRatio: "none", tabindex: 0, role: "img",
    onpointermove: e => move(Math.round((e.clientX - c.svg.getBoundingClientRect().left) / c.svg.clientWidth * (points.length - 1))),
    onpointerleave: () => move(null),
    onkeydown: e => {
      const last = points.length - 1, from = cursor ?? last;
      const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, Escape: null }[e.key];
      if (to !== undefined) { e.preventDefault(); move(to) }
    }, onblur: () => move(null) }, c.area, ...c.lines.slice().reverse(), c.at);
  $("charts").append(make("div", { class: "card", id: "card-" + c.id }, make("h2", {}, c.title), c.value, c.more, c.svg));
}

function move(i) {
  cursor = i === null ? null : Math.max(0, Math.min(points.length - 1, i));
  drawCharts();
}

function drawCharts() {
  if (!points.length) return;
  const p = points[cursor ?? points.length - 1], n = Math.max(1, points.length - 1);
  for (const c of charts) {
    const top = Math.max(1e-9, ...points.flatMap(q => c.of.map(f => q[f] || 0)));
    const path = f => points.map((q, i) => `${i ? "L" : "M"}${(300 * i / n).toFixed(1)} ${(58 - 55 * (q[f] || 0) / top).toFixed(1)}`).join("");
    c.of.forEach((f, i) => c.lines[i].setAttribute("d", path(f)));
    c.area.setAttribute("d", path(c.of[0]) + "L300 60L0 60Z");
    const [value, unit] = c.big(p);
    c.value.replaceChildren(value + " ", make("small", {}, unit));
    const said = c.of.map((f, i) => `${c.names[i]} ${c.units[i](p[f] || 0)}`);
    c.more.replaceChildren(cursor === null ? "" : clock(p.t) + " ",
      ...said.flatMap((s, i) => [make("span", { class: "key" }, make("i", { class: "c" + i }), s), " "]));
    c.svg.setAttribute("aria-label", `${c.title}, ${clock(p.t)}: ${said.join(", ")}; the most ${c.units[0](top)}. Arrow keys go back in time`);
    c.at.setAttribute("visibility", cursor === null ? "hidden" : "visible");
    c.at.setAttribute("x1", 300 * (cursor ?? 0) / n);
    c.at.setAttribute("x2", 300 * (cursor ?? 0) / n);
  }
}

function remember(p) {
  points.push(p);
  if (points.length > MOST) points = points.filter((_, i) => i % 2);
}

// ---- tables ----
// columns: [title, class, cell, sort]. Rows that are there already are kept, and so is what has the focus.
function table(box, columns, rows, key, mark) {
  if (!rows.length) return box.replaceChildren(make("p", { class: "note" }, "none"));
  let body = box.querySelector("tbody");
  if (!body) {
    const head = columns.map(([title, kind, , sort]) => make("th", { class: kind, scope: "col" }, sort
      ? make("button", { class: "flat", "data-sort": sort, onclick: () => listen(sort), title: "sort by " + sort }, title) : title));
    body = make("tbody");
    box.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head)), body));
  }
  const old = new Map([...body.children].map(r => [r.dataset.key, r]));
  rows.forEach((row, i) => {
    const k = String(key(row));
    let tr = old.get(k);
    if (tr) old.delete(k);
    else tr = make("tr", { "data-key": k }, ...columns.map(([, kind]) => make("td", { class: kind })));
    tr.className = mark ? mark(row) : "";
    columns.forEach(([, kind, cell], c) => {
      const v = cell(row), td = tr.cells[c];
      if (v instanceof Node) { if (!td.firstChild) td.append(v) }
      else if (Array.isArray(v)) { td.textContent = v[0]; td.className = kind + " " + v[1] }
      else if (td.textContent !== v) td.textContent = v;
    });
    if (body.children[i] !== tr) body.insertBefore(tr, body.children[i] || null);
  });
  for (const tr of old.values()) tr.remove();
}

const nameOf = p => p.name ? clean(p.name) : p.kind ? "the main script" : "–";
let sort = "cpu", before = new Map(), gone = new Map(), wasWhole = false;

function showProcesses(look) {
  const processes = list(look.processes), whole = look.count <= processes.length, now = Date.now();
  const ids = new Set(processes.map(p => p.id));
  for (const [id, p] of before) if (whole && wasWhole && !ids.has(id)) gone.set(id, { ...p, status: "ended", since: now });
  for (const [id, p] of gone) if (now - p.since > 4000 || gone.size > 20) gone.delete(id);
  const born = p => wasWhole && whole && before.size && !before.has(p.id);
  table($("processes"), [
    ["ID", "n", p => String(p.id), "id"],
    ["Name", "name", p => make("button", { class: "flat", onclick: () => lookInto(p.id), title: "look into it" }, nameOf(p) === "–" ? "#" + p.id
      : nameOf(p))],
    ["Status", "", p => [p.status, p.status]],
    ["CPU", "n", p => percent(p.load), "cpu"],
    ["Heap", "n", p => bytes(p.heap), "heap"],
    ["Msg/s", "n", p => count(p.rate), "messages"],
    ["In", "n wide", p => count(p.received)], ["Out", "n wide", p => count(p.sent)],
    ["Fibers", "n wide", p => count(p.fibers)], ["Restarts", "n wide", p => count(p.restarts)],
    ["Waits in", "wide", p => p.waits || ""],
  ], [...processes, ...gone.values()], p => p.id, p => gone.has(p.id) ? "gone" : born(p) ? "born" : "");
  document.querySelectorAll("[data-sort]").forEach(b => b.setAttribute("aria-pressed", b.dataset.sort === look.sort));
  const s = look.states;
  $("count").textContent = exact(look.count) + ": " + ["running", "ready", "waiting", "failed"].map(k => exact(s[k]) + " " + k).join(", ") +
    (whole ? "" : `; the first ${processes.length}`);
  before = new Map(processes.map(p => [p.id, p]));
  wasWhole = whole;
}

const groupName = g => g.name ? clean(g.name) : g.kind ? "the main script" : g.at ? "function " + clean(g.at) : g.parent ? "made by #" + g.parent
  : "all others";

function showGroups(look) {
  const rows = list(look.groups), merged = new Map();
  for (const g of look.rest ? [...rows, look.rest] : rows) {
    const name = groupName(g), m = merged.get(name);
    if (!m) merged.set(name, { ...g, label: name });
    else for (const f of ["count", "running", "ready", "waiting", "failed", "heap", "load", "rate"]) m[f] += g[f];
  }
  const all = [...merged.values()].sort((a, b) => (a.label === "all others") - (b.label === "all others") || b.count - a.count);
  table($("groups"), [
    ["Group", "name", g => g.label], ["Count", "n", g => exact(g.count)], ["Active", "n wide", g => exact(g.running + g.ready)], ["Failed",
      "n wide", g => exact(g.failed)],
    ["CPU", "n", g => percent(g.load)], ["Heap", "n", g => bytes(g.heap)], ["Msg/s", "n", g => count(g.rate)],
  ], all.slice(0, 25), g => g.label);
}

function showWorkers(workers) {
  $("workers").replaceChildren(...workers.map(w => {
    const fill = make("i", { class: w.busy > 0.9 ? "hot" : "" });
    fill.style.width = 100 * w.busy + "%";
    return make("div", hover(() => `worker ${w.id + 1}: busy ${percent(w.busy)} of the time, ${w.queued} processes queued`),
      make("span", {}, make("b", {}, "worker " + (w.id + 1)), `${percent(w.busy)}${w.queued ? ", " + w.queued + " queued" : ""}`), make("div", {
        class: "bar" }, fill));
  }));
}

function showFailures(failures) {
  const known = new Map([...$("failures").children].map(d => [d.dataset.key, d]));
  const all = failures.map(f => {
    const key = f.when + f.text;
    return known.get(key) || make("details", { "data-key": key }, make("summary", {}, make("time", {}, clock(f.when) + "  "),
      clean(f.text.split("\n")[0])),
      make("pre", { tabindex: 0 }, f.text.split("\n").map(clean).join("\n").replace(/^\u00b7/gm, "    ")));
  });
  if (!all.length) return $("failures").replaceChildren(make("p", { class: "note" }, "none"));
  if (all.length !== $("failures").children.length || all.some((d, i) => $("failures").children[i] !== d)) $("failures").replaceChildren(...all);
}

// ---- who talks to whom ----
const edges = new Map(), places = new Map();
const endName = e => e.name ? clean(e.name).replace(/\d+/g, "#") : e.kind ? "the main script" : functionsOf.get(e.parent) || "#" + e.id;
const functionsOf = new Map();

// Each look sees a short while, so what is shown is a mean that forgets.
function takeTalk(look) {
  for (const g of list(look.groups)) if (!g.name && g.at) functionsOf.set(g.parent, "function " + clean(g.at));
  for (const e of edges.values()) { e.rate *= 0.6; e.ends.clear() }
  for (const t of list(look.talk)) {
    const from = endName(t.from), to = endName(t.to), on = t.on && t.on.startsWith("channel '") ? clean(t.on) : t.on ? t.on.replace(/ .*/, "")
      : t.waits || "";
    const key = [from, to, on].join("\n");
    const e = edges.get(key) || { key, from, to, on, rate: 0, ends: new Set() };
    e.rate += 0.4 * t.n / look.window;
    e.ends.add(t.from.id + ">" + t.to.id);
    edges.set(key, e);
  }
  for (const [k, e] of edges) if (e.rate < 0.05) edges.delete(k);
}

function showTalk(look) {
  takeTalk(look);
  const all = [...edges.values()].sort((a, b) => b.rate - a.rate), weight = new Map();
  for (const e of all) for (const n of [e.from, e.to]) weight.set(n, (weight.get(n) || 0) + e.rate);
  const nodes = [...weight.keys()].sort((a, b) => weight.get(b) - weight.get(a)).slice(0, 12).sort();
  draw(nodes, all.filter(e => nodes.includes(e.from) && nodes.includes(e.to)), weight);
  const parts = [`Messages that woke somebody, by a sample of ${Math.round(1000 * (look.window || 0.1))} ms in each look.`,
    "One that found nobody waiting is not seen."];
  if (look.unseen) parts.push(`${exact(look.unseen / look.window)}/s more are between other pairs.`);
  $("window").textContent = parts.join(" ");
  table($("talk"), [["From", "name", e => e.from], ["To", "name", e => e.to], ["Wake-ups/s", "n", e => count(e.rate)], ["By", "name", e => e.on],
    ["Pairs", "n wide", e => exact(e.ends.size)]], all.slice(0, 15), e => e.key);
}

const beside = (p, turn) => (p.x + 46 * Math.cos(p.a + turn)) + " " + (p.y + 46 * Math.sin(p.a + turn));

function draw(nodes, shown, weight) {
  const R = nodes.length < 5 ? 80 : 135, cx = 260, cy = R + 40, g = $("graph"), most = Math.max(1, ...shown.map(e => e.rate));
  g.style.display = nodes.length ? "" : "none";
  g.setAttribute("viewBox", `0 0 520 ${2 * cy}`);
  nodes.forEach((n, i) => {
    const a = 2 * Math.PI * (i + 0.25) / nodes.length;
    places.set(n, { x: cx + R * Math.cos(a), y: cy + R * Math.sin(a), a });
  });
  const drawn = shown.slice(0, 60).reverse().map(e => {
    const p = places.get(e.from), q = places.get(e.to), w = 1 + 7 * Math.sqrt(e.rate / most);
    const k = 0.25, x = (p.x + q.x) / 2 + k * (q.y - p.y) * 0.6 + (cx - (p.x + q.x) / 2) * 0.35,
      y = (p.y + q.y) / 2 - k * (q.x - p.x) * 0.6 + (cy - (p.y + q.y) / 2) * 0.35;
    const d = e.from === e.to
      ? `M${p.x} ${p.y}C${beside(p, -0.6)} ${beside(p, 0.6)} ${p.x} ${p.y}`
      : `M${p.x} ${p.y}Q${x} ${y} ${q.x} ${q.y}`;
    const path = make("path", { d,
      ...hover(() => `${e.from} → ${e.to}${e.on ? ", " + e.on : ""}\n${exact(e.rate)} wake-ups per second, ${e.ends.size} pairs of processes`) });
    path.setAttribute("stroke-width", w.toFixed(1));
    // Where it goes to: a dot that is nearer to the receiver.
    const t = 0.78, mx = (1 - t) ** 2 * p.x + 2 * t * (1 - t) * x + t * t * q.x, my = (1 - t) ** 2 * p.y + 2 * t * (1 - t) * y + t * t * q.y;
    return e.from === e.to ? [path] : [path, make("circle", { cx: mx, cy: my, r: Math.min(5, 1.5 + w / 2), opacity: 0.9 })];
  }).flat();
  const dots = nodes.map(n => {
    const p = places.get(n), right = Math.cos(p.a) >= 0, room = Math.floor((right ? 520 - p.x : p.x) / (innerWidth < 640 ? 9.6 : 6.6)) - 1;
    return make("g", hover(() => `${n}\n${exact(weight.get(n))} wake-ups per second, both ways`), make("circle", { cx: p.x, cy: p.y, r: 6 }),
      make("text", { x: p.x + (right ? 11 : -11), y: p.y + 4 + 8 * Math.sin(p.a), "text-anchor": right ? "start" : "end" }, n.length > room
        ? n.slice(0, room - 1) + "…" : n));
  });
  g.replaceChildren(...drawn, ...dots);
}

// ---- one process ----
async function lookInto(id) {
  $("oneTitle").textContent = "Process #" + id;
  $("oneFields").replaceChildren();
  $("oneTrace").textContent = "…";
  if (!$("one").open) $("one").showModal();
  try {
    const r = await fetch("process?id=" + id), d = r.ok && await r.json();
    if (!d) { $("oneTrace").textContent = clean(await r.text()); return }
    const p = d.process, all = { Name: p.name, Status: p.status + (p.waits ? " in " + p.waits : "") + (p.on ? ", " + p.on : ""), At: p.where,
      Priority: p.priority,
      "CPU time": p.cpu.toFixed(3) + " s, now " + percent(p.load), Heap: bytes(p.heap), "Lua uses": p.memory && bytes(p.memory),
        Messages: `${exact(p.received)} in, ${exact(p.sent)} out`,
      Fibers: p.fibers, Restarts: p.restarts, "Made by": p.parent && "#" + p.parent, Owner: p.owner && "#" + p.owner };
    $("oneFields").replaceChildren(...Object.entries(all).filter(([, v]) => v !== undefined && v !== "").flatMap(([k, v]) => [make("dt", {}, k),
      make("dd", {}, clean(v))]));
    $("oneTrace").textContent = (d.traceback || d.why || "").split("\n").map(s => clean(s.replace(/\t/g, "    "))).join("\n");
  } catch { $("oneTrace").textContent = "mare top does not answer" }
}
$("close").onclick = () => $("one").close();

// ---- the profile ----
// Calls of one function from one caller are one frame, whichever line they came from.
let root = null;
function treeOf(nodes) {
  const top = { name: "all", own: 0, all: 0, kids: new Map() }, at = [top];
  nodes.forEach(([parent, name, line, own, all], i) => {
    const under = at[parent] || top;
    let n = under.kids.get(name);
    if (!n) under.kids.set(name, n = { name: clean(name), own: 0, all: 0, kids: new Map(), up: under });
    n.own += own;
    n.all += all;
    if (!parent) top.all += all;
    at[i + 1] = n;
  });
  return top;
}

const hue = name => { let h = 0; for (const c of name.replace(/^process '.*/, "process")) h = (h * 31 + c.charCodeAt(0)) % 997; return 18 + h % 46 };

function flame(from) {
  const box = $("flame"), H = 20, shown = [];
  const place = (n, x, width, depth) => {
    if (width < 0.0012 || shown.length > 1500) return;
    shown.push({ n, x, width, depth });
    let at = x;
    for (const k of [...n.kids.values()].sort((a, b) => b.all - a.all)) { const w = width * k.all / n.all; place(k, at, w, depth + 1); at += w }
  };
  place(from, 0, 1, 0);
  const depth = Math.max(...shown.map(s => s.depth)) + 1;
  box.hidden = false;
  box.style.height = depth * H + "px";
  $("unzoom").hidden = from === root;
  box.replaceChildren(...shown.map(s => {
    const text = () => `${s.n.name}\n${micro(s.n.all)}, ${percent(s.n.all / root.all)} of all; in itself ${micro(s.n.own)}`;
    const b = make("button", { tabindex: s.depth ? -1 : 0, "aria-label": text().replace("\n", ": "), ...hover(text), onclick: () => { tip();
      flame(s.n).focus() },
      onfocus: e => { const r = e.target.getBoundingClientRect(); if (e.target.matches(":focus-visible")) tip(text(), r.left, r.bottom) },
        onblur: () => tip(),
      onkeydown: e => step(e, s, shown) }, s.width > 0.02 ? s.n.name : "");
    Object.assign(b.style, { left: 100 * s.x + "%", width: 100 * s.width + "%", top: s.depth * H + "px", background: s.depth
      ? `hsl(${hue(s.n.name)} 78% 68%)` : "hsl(195 25% 75%)" });
    s.button = b;
    return b;
  }));
  return shown[0].button;
}

// Arrows: to the caller, the first callee, neighbours of the same depth; Enter zooms, Escape shows all.
function step(e, s, shown) {
  const row = shown.filter(o => o.depth === s.depth), i = row.indexOf(s);
  const to = { ArrowUp: () => shown.find(o => o.n === s.n.up), ArrowDown: () => shown.find(o => o.n.up === s.n), ArrowLeft: () => row[i - 1],
    ArrowRight: () => row[i + 1] }[e.key];
  if (e.key === "Escape") { e.preventDefault(); flame(root).focus() }
  if (!to) return;
  e.preventDefault();
  const o = to();
  if (o) { s.button.tabIndex = -1; o.button.tabIndex = 0; o.button.focus() }
}
$("unzoom").onclick = () => flame(root);

function showProfile(p) {
  const nodes = list(p.nodes), own = new Map();
  root = treeOf(nodes);
  if (!nodes.length) { $("flame").hidden = true; $("functions").replaceChildren();
    $("profiled").textContent = `No CPU time was used in ${p.seconds.toFixed(1)} s.`; return }
  for (const [, name, , self] of nodes) own.set(name, (own.get(name) || 0) + self);
  $("profiled").textContent = `${micro(p.total)} of CPU time in ${p.seconds.toFixed(1)} s. ` +
    "A click on a function shows it alone; arrow keys go from one to the next.";
  flame(root);
  const rows = [...own].filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]).slice(0, 12);
  $("functions").replaceChildren();
  table($("functions"), [["Function", "name", r => clean(r[0])], ["In itself", "n", r => micro(r[1])], ["Part", "n",
    r => percent(r[1] / p.total)]], rows, r => r[0]);
}

$("profile").onclick = async () => {
  const seconds = $("seconds").value;
  $("profile").disabled = true;
  $("profiled").textContent = `Profiling for ${seconds} s …`;
  try {
    const r = await fetch("profile?seconds=" + seconds, { method: "POST" });
    if (r.ok) showProfile(await r.json()); else $("profiled").textContent = "No profile: " + clean((await r.text()).trim());
  } catch { $("profiled").textContent = "No profile: mare top does not answer." }
  $("profile").disabled = false;
};

// ---- what is told ----
let source, program;
function state(text, kind) { $("state").textContent = text; $("state").className = kind }

function takePast(d) {
  program = d.program;
  points = list(d.points);
  $("command").textContent = clean(program.command);
  document.title = `mare top ${program.pid}: ${clean(program.command)}`;
  drawCharts();
}

function takeLook(look) {
  state("live", "live");
  remember(look.point);
  $("about").textContent = `process ${program.pid}, mare ${clean(program.mare)}, up ${lasts(look.up)}; ` +
    `${exact(look.spawned)} processes born, ${exact(look.ended)} ended; ${look.threads} threads, ${look.blocked} blocked`;
  drawCharts();
  showWorkers(list(look.workers));
  showTalk(look);
  showGroups(look);
  table($("channels"), [["Channel", "name", c => clean(c.name)], ["Queued", "n", c => exact(c.length)], ["Room for", "n",
    c => c.capacity === undefined ? "any" : exact(c.capacity)],
    ["Sending", "n", c => exact(c.senders)], ["Receiving", "n", c => exact(c.receivers)]], list(look.channels), c => c.name);
  showProcesses(look);
  showFailures(list(look.failures));
}

function takeOver(d) {
  source.close();
  state("ended", "over");
  $("over").hidden = false;
  $("over").textContent = `The program has ended, or can't be looked at any more, at ${clock(d.at)} (${clean(d.why)}). ` +
    "What you see is the last that it said.";
  $("profile").disabled = true;
}

function listen(by) {
  sort = by;
  if (source) source.close();
  source = new EventSource("events?sort=" + sort);
  source.addEventListener("past", e => takePast(JSON.parse(e.data)));
  source.addEventListener("look", e => takeLook(JSON.parse(e.data)));
  source.addEventListener("over", e => takeOver(JSON.parse(e.data)));
  source.onerror = () => state(source.readyState === 2 ? "mare top has ended" : "no answer; trying again", "");
}
charts.forEach(chart);
listen("cpu");
]==]
