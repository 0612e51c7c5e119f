"use strict";
/* The figures of this page that can be hovered over and zoomed: lines, a map, a flame graph. All they show is in the page itself (#data); nothing is fetched. */
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const GAP = "\u00a0";

/* ---- numbers, as marelab/units.py writes them ---- */

const count = n => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, GAP);

function digits(x) {
  for (const d of [2, 1, 0]) {
    const text = x.toFixed(d);
    if (Math.abs(Number(text)) < 10 ** (3 - d)) return d ? text.replace(/\.?0+$/, "") : text;
  }
  return count(x);
}

function size(bytes) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (Math.round(bytes) >= 1024 && i + 1 < names.length) { bytes /= 1024; i++; }
  return (i ? digits(bytes) : count(bytes)) + GAP + names[i];
}

function seconds(s) {
  if (s === 0) return "0" + GAP + "s";
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3]]) if (s >= 0.9995 * scale) return digits(s / scale) + GAP + unit;
  return digits(s / 1e-6) + GAP + "µs";
}

function share(x) {
  if (x === 0 || x === 1) return x * 100 + GAP + "%";
  if (x < 0.0005) return "less than 0.1" + GAP + "%";
  if (x > 0.9995) return "more than 99.9" + GAP + "%";
  return (x * 100).toFixed(x < 0.1 || x > 0.995 ? 1 : 0) + GAP + "%";
}

const write = { count, size, seconds, share };

/* ---- what all figures need ---- */

function make(name, attributes, parent, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}

function html(name, properties, parent) {
  const e = Object.assign(document.createElement(name), properties);
  if (parent) parent.append(e);
  return e;
}

const tip = html("div", { id: "tip", hidden: true }, document.body);

function tell(event, lines) {
  tip.replaceChildren(...lines.map((line, i) => html(i ? "div" : "b", { textContent: line })));
  tip.hidden = false;
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6), below = event.clientY + 18;
  tip.style.left = Math.max(4, x) + "px";
  tip.style.top = (below + tip.offsetHeight > innerHeight ? Math.max(4, event.clientY - tip.offsetHeight - 10) : below) + "px";
}

const hush = () => { tip.hidden = true; };
addEventListener("scroll", hush, { passive: true });

/* A row of buttons of which one is pressed. */
function choice(bar, label, options, chosen, then) {
  const group = html("span", { className: "choice" }, bar);
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", label);
  html("span", { className: "sub", textContent: label }, group);
  const buttons = options.map(([value, text]) => {
    const b = html("button", { type: "button", textContent: text, onclick: () => { press(value); then(value); } }, group);
    b.value = value;
    return b;
  });
  const press = value => buttons.forEach(b => b.setAttribute("aria-pressed", String(b.value === String(value))));
  press(chosen);
}

function drawnAgain(box, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth && box.clientWidth !== width) { width = box.clientWidth; draw(); }
  }).observe(box);
}

function ticks(low, high, most, base) {
  const unit = base === 1024 ? 1024 ** Math.max(0, Math.floor(Math.log(Math.max(high, 1)) / Math.log(1024) + 1e-9)) : 1;
  const raw = (high - low) / unit / most || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find(m => m * power >= raw * 0.999) * power * unit, found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

/* ---- lines ---- */

function lines(box, spec) {
  const bar = html("div", { className: "bar" }, box), place = html("div", {}, box), hidden = new Set();
  const whole = [Math.min(...spec.lines.map(l => l.points[0][0])), Math.max(...spec.lines.map(l => l.points[l.points.length - 1][0]))];
  let range = whole;
  for (const line of spec.lines.length > 1 ? spec.lines : []) {
    const b = html("button", { type: "button", className: "key", onclick: () => {
      if (!hidden.delete(line.name)) hidden.add(line.name);
      b.setAttribute("aria-pressed", String(!hidden.has(line.name)));
      draw();
    } }, bar);
    b.setAttribute("aria-pressed", "true");
    const swatch = html("i", { className: line.dashed ? "dashed" : "" }, b);
    swatch.style.borderColor = `var(--c${line.colour})`;
    b.append(line.name);
  }
  const back = html("button", { type: "button", textContent: "Whole range", hidden: true, onclick: () => zoom(whole) }, bar);
  const zoom = to => { range = to; back.hidden = to === whole; draw(); };

  function draw() {
    const width = place.clientWidth, height = Math.max(220, Math.min(320, width * 0.45)), left = 68, right = 24, top = 10, bottom = 44;
    const shown = spec.lines.filter(l => !hidden.has(l.name));
    const seen = l => l.points.filter((p, i, all) => (i + 1 < all.length ? all[i + 1][0] : p[0]) >= range[0] && (i ? all[i - 1][0] : p[0]) <= range[1]);
    const most = Math.max(1e-12, ...shown.flatMap(l => seen(l).map(p => p[1]))) * 1.05;
    const x = v => left + (v - range[0]) / (range[1] - range[0] || 1) * (width - left - right), y = v => height - bottom - v / most * (height - bottom - top);
    const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${spec.y.name} by ${spec.x.name}` });
    const cut = make("clipPath", { id: `cut-${box.id}` }, svg);
    make("rect", { x: left, y: 0, width: width - left - right, height: height - bottom + 1 }, cut);
    for (const t of ticks(0, most, 4, spec.y.unit === "size" ? 1024 : 10)) {
      make("line", { x1: left, x2: width - right, y1: y(t), y2: y(t), class: "grid" }, svg);
      make("text", { x: left - 8, y: y(t) + 4, "text-anchor": "end" }, svg, write[spec.y.unit](t));
    }
    for (const t of ticks(range[0], range[1], width / 90)) {
      make("text", { x: x(t), y: height - bottom + 18, "text-anchor": "middle" }, svg, write[spec.x.unit](t));
    }
    make("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", class: "soft" }, svg, spec.x.name);
    const inside = make("g", { "clip-path": `url(#cut-${box.id})` }, svg);
    for (const l of shown) {
      const path = seen(l).map((p, i) => (i ? (l.step ? `H${x(p[0]).toFixed(1)}V` : `L${x(p[0]).toFixed(1)} `) : `M${x(p[0]).toFixed(1)} `) + y(p[1]).toFixed(1)).join("");
      make("path", { d: path, class: l.dashed ? "line dashed" : "line", style: `stroke:var(--c${l.colour})` }, inside);
      if (spec.dots) for (const p of seen(l)) make("circle", { cx: x(p[0]), cy: y(p[1]), r: 2.5, style: `fill:var(--c${l.colour})` }, inside);
    }
    const cross = make("line", { y1: top, y2: height - bottom, class: "cross", visibility: "hidden" }, svg);
    const area = make("rect", { y: top, height: height - bottom - top, class: "chosen", visibility: "hidden" }, svg);
    const at = event => {
      const px = Math.min(Math.max(event.clientX - svg.getBoundingClientRect().left, left), width - right);
      return range[0] + (px - left) / (width - left - right) * (range[1] - range[0]);
    };
    let from = null;
    svg.onpointerdown = event => { from = at(event); if (svg.setPointerCapture && event.isTrusted) svg.setPointerCapture(event.pointerId); hover(event); };
    const hover = event => {
      const v = at(event);
      cross.setAttribute("x1", x(v));
      cross.setAttribute("x2", x(v));
      cross.setAttribute("visibility", "visible");
      if (from !== null) {
        area.setAttribute("x", Math.min(x(from), x(v)));
        area.setAttribute("width", Math.abs(x(v) - x(from)));
        area.setAttribute("visibility", "visible");
      }
      tell(event, [`${spec.x.name}: ${write[spec.x.unit](v)}`, ...shown.map(l => [l, nearest(l, v)]).sort((a, b) => b[1][1] - a[1][1])
        .map(([l, p]) => `${l.name}: ${write[spec.y.unit](p[1])}` + (p[2] !== undefined ? `, after ${seconds(p[2])}` : ""))]);
    };
    svg.onpointermove = hover;
    svg.onpointerup = event => {
      const to = at(event), apart = from !== null && Math.abs(x(to) - x(from)) > 8;
      if (apart) zoom([Math.min(from, to), Math.max(from, to)]);
      from = null;
      area.setAttribute("visibility", "hidden");
    };
    svg.onpointerleave = svg.onpointercancel = () => { hush(); from = null; cross.setAttribute("visibility", "hidden"); area.setAttribute("visibility", "hidden"); };
    svg.ondblclick = () => zoom(whole);
    place.replaceChildren(svg);
  }
  const nearest = (l, v) => {
    let low = 0, high = l.points.length - 1;
    while (low < high) { const mid = (low + high + 1) >> 1; if (l.points[mid][0] <= v) low = mid; else high = mid - 1; }
    const next = l.points[low + 1];
    return !l.step && next && next[0] - v < v - l.points[low][0] ? next : l.points[low];
  };
  drawnAgain(place, draw);
}

/* ---- blocks by size and lifetime ---- */

function grid(box, spec) {
  const bar = html("div", { className: "bar" }, box), place = html("div", {}, box);
  let clock = spec.clock, measure = 2;
  choice(bar, "Lifetime in", [["operations", "calls"], ["milliseconds", "time"]], clock, v => { clock = v; draw(); });
  choice(bar, "Shade by", [[2, "blocks"], [3, "bytes"]], measure, v => { measure = v; draw(); });
  const life = k => clock === "operations" ? count(2 ** k) : seconds(2 ** k / 1000);
  const words = k => k === spec.never ? "Never freed" : `Freed after ${k ? `more than ${life(k - 1)}, up to ${life(k)}` : `up to ${life(0)}`}` +
    (clock === "operations" ? " calls" : "");

  function draw() {
    const cells = spec[clock], rows = cells.map(c => c[0]), ends = cells.map(c => c[1]).filter(k => k !== spec.never);
    const top = Math.max(...rows), low = Math.min(...rows), last = Math.max(0, ...ends), first = Math.min(last, ...ends);
    const width = place.clientWidth, left = 62, gap = 8, columns = last - first + 2, w = Math.min(34, (width - left - gap - 40) / columns), h = 22, bottom = 46;
    const height = (top - low + 1) * h + bottom + 4, x = k => left + (k === spec.never ? (columns - 1) * w + gap : (k - first) * w), y = k => 4 + (top - k) * h;
    const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "blocks by size and lifetime" });
    const most = Math.max(...cells.map(c => c[measure])), sums = [2, 3].map(i => cells.reduce((a, c) => a + c[i], 0));
    for (let k = low; k <= top; k++) make("text", { x: left - 6, y: y(k) + 15, "text-anchor": "end" }, svg, size(2 ** k));
    const every = Math.max(1, Math.ceil((clock === "operations" ? 58 : 52) / w));
    const never = cells.some(c => c[1] === spec.never);
    for (let k = first; k <= last; k += every) if (!never || x(spec.never) - x(k) > 56)
      make("text", { x: x(k) + w / 2, y: height - 26, "text-anchor": "middle" }, svg, life(k));
    if (never) make("text", { x: x(spec.never) + w / 2, y: height - 26, "text-anchor": "middle" }, svg, "never");
    make("text", { x: left, y: height - 6, class: "soft" }, svg, clock === "operations" ? "calls of malloc or free until it was freed" : "time until it was freed");
    for (const c of cells) {
      const r = make("rect", { x: x(c[1]) + 0.5, y: y(c[0]) + 0.5, width: w - 1, height: h - 1, class: "cell", "fill-opacity": c[measure] ? (0.12 + 0.88 * (c[measure] / most) ** 0.4).toFixed(3) : 0 }, svg);
      r.onpointermove = r.onpointerdown = event => tell(event, [`${count(c[2])} block${c[2] === 1 ? "" : "s"} of ${c[0] ? `more than ${size(2 ** (c[0] - 1))}, up to ${size(2 ** c[0])}` : `up to ${size(1)}`}`,
        words(c[1]), `${share(c[2] / (sums[0] || 1))} of all blocks`, `${size(c[3])}, ${share(c[3] / (sums[1] || 1))} of all bytes asked for`]);
      r.onpointerleave = hush;
    }
    place.replaceChildren(svg);
  }
  drawnAgain(place, draw);
}

/* ---- flame graph ---- */

function flame(box, spec) {
  const bar = html("div", { className: "bar" }, box), place = html("div", { className: "flame" }, box), says = html("p", { className: "note" }, box);
  let direction = "down", measure = 1, at = -1, wanted = "";
  const kinds = [["allocations", count], ["bytes", size], ["in use at the peak", size], ["blocks not freed at the end", count], ["not freed at the end", size]].slice(0, spec.total.length);
  choice(bar, "Width", [0, 1, 2, 4].filter(k => k < 3 || spec.total[k] > 0).map(k => [k, kinds[k][0]]), measure, v => { measure = Number(v); draw(); });
  choice(bar, "Top row", [["down", "where the program begins"], ["up", "who calls the allocator"]], direction, v => { direction = v; at = -1; draw(); });
  const search = html("input", { type: "search", placeholder: "Find a function", oninput: () => { wanted = search.value.toLowerCase(); draw(); } }, bar);
  search.setAttribute("aria-label", "Find a function");
  const back = html("button", { type: "button", textContent: "Show all", hidden: true, onclick: () => zoom(-1) }, bar);
  const zoom = i => { at = i; hush(); draw(); place.scrollTop = 0; };
  for (const d of ["down", "up"]) {
    const below = spec[d].below = new Map();
    spec[d].nodes.forEach((n, i) => { if (!below.has(n[1])) below.set(n[1], []); below.get(n[1]).push(i); });
  }
  const name = n => n[0] < 0 ? "smaller ones, folded" : spec.names[n[0]];
  const short = text => text.replace(/^lib(.*)\.so[.\d]*(?=\+0x)/, "lib$1").replace(/ \([^()]*\)$/, "").replace(/\(.*\)$/, "()");
  const hue = text => { let h = 0; const file = text.match(/ \(([^()]*)\)$/); for (const c of file ? file[1] : text.split("+")[0]) h = (h * 31 + c.charCodeAt(0)) % 6007; return h % 6; };

  function draw() {
    const { nodes, below } = spec[direction], width = place.clientWidth, h = 20, rows = [], svg = make("svg", { width, role: "img", "aria-label": "where the program allocates" });
    const total = spec.total[measure] || 1;
    let hits = 0, deepest = 0;
    const value = i => i < 0 ? spec.total[measure] : nodes[i][2 + measure];
    const put = (i, x, w, depth, above) => {
      deepest = Math.max(deepest, depth);
      const text = i < 0 ? `all ${measure < 2 ? "" : "bytes "}${kinds[measure][0]}` : name(nodes[i]), hit = wanted && i >= 0 && text.toLowerCase().includes(wanted);
      const g = make("g", { class: i < 0 || nodes[i][0] < 0 ? "box fold" : hit ? "box hit" : `box f${hue(text)}`, "data-node": i }, svg);
      make("rect", { x: x.toFixed(2), y: depth * h + 0.5, width: Math.max(w - 0.6, 0.4).toFixed(2), height: h - 1, rx: 2, "fill-opacity": above ? 0.55 : 1 }, g);
      const room = Math.floor((w - 8) / 6.7), label = short(text);
      if (room > 2) make("text", { x: (x + 4).toFixed(2), y: depth * h + 14 }, g, label.length > room ? label.slice(0, room - 1) + "…" : label);
      g.onpointermove = event => tell(event, [text, ...kinds.map(([what, f], k) => {
        const v = i < 0 ? spec.total[k] : nodes[i][2 + k];
        return `${what}: ${f(v)}, ${share(v / (spec.total[k] || 1))}`;
      })]);
      g.onpointerleave = hush;
      g.onclick = () => zoom(i);
    };
    const descend = (i, x, w, depth) => {
      const several = (below.get(i) || []).slice().sort((a, b) => (nodes[a][0] < 0) - (nodes[b][0] < 0) || value(b) - value(a));
      for (const k of several) {
        const part = value(k) / (value(i) || 1) * w;
        if (part >= 0.6) { put(k, x, part, depth, false); descend(k, x, part, depth + 1); }
        x += part;
      }
    };
    for (let i = at; i >= 0; i = nodes[i][1]) rows.unshift(i);
    rows.unshift(-1);
    rows.forEach((i, depth) => put(i, 0, width, depth, depth + 1 < rows.length));
    descend(at, 0, width, rows.length);
    if (wanted) {
      const inside = new Set();
      nodes.forEach((n, i) => { if (n[0] >= 0 && name(n).toLowerCase().includes(wanted)) { if (!inside.has(n[1])) hits += value(i); inside.add(i); } else if (inside.has(n[1])) inside.add(i); });
    }
    svg.setAttribute("height", (deepest + 1) * h + 1);
    svg.setAttribute("viewBox", `0 0 ${width} ${(deepest + 1) * h + 1}`);
    back.hidden = at < 0;
    says.textContent = wanted ? `${share(Math.min(1, hits / total))} is in or below functions with “${search.value}” in their name.` : "Click or tap a box to see it whole; the pale rows above it lead back.";
    place.replaceChildren(svg);
  }
  drawnAgain(place, draw);
}

const kinds = { lines, grid, flame };
document.querySelectorAll(".chart").forEach((box, i) => {
  box.id = `chart-${i}`;
  kinds[box.dataset.kind](box, data[box.dataset.key]);
});
addEventListener("keydown", event => { if (event.key === "Escape") hush(); });
window.mareUnits = write;
})();
