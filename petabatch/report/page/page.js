"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "var(--ink)"];

// Names of others reach the page as text only, never as markup.
function add(parent, tag, attributes = {}, text = "") {
  const svg = parent.namespaceURI.endsWith("svg") || tag === "svg";
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== "") node.textContent = text;
  return parent.appendChild(node);
}

const fileName = (name) => name.replace("%", "percent").replace(/[^\w]+/g, "_").replace(/^_|_$/g, "");

// Buttons that save what is shown: each a suffix of the file, and a function that returns its content, or an address.
// A suffix such as "csv (use)" tells a table from the first one.
function saves(parent, name, kinds) {
  const line = add(parent, "div", { class: "save" });
  for (const [suffix, content] of Object.entries(kinds))
    add(line, "button", { type: "button" }, `save ${suffix.replace(/^\w+/, (kind) => kind.toUpperCase())}`).addEventListener("click", async () => {
      const found = await content(), link = document.createElement("a");
      const address = String(found).startsWith("data:") ? found : URL.createObjectURL(new Blob([found]));
      Object.assign(link, { href: address, download: `${fileName(name + suffix.slice(3))}.${suffix.slice(0, 3)}` }).click();
    });
}

const drawn = (svg) => () => {  // alone, an SVG file has no variables of the page
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.querySelectorAll(".rule").forEach((each) => each.setAttribute("stroke", "#e4e4e4"));
  copy.querySelectorAll(".lost").forEach((each) => each.setAttribute("fill", "#ececec"));
  copy.querySelectorAll("text:not([style])").forEach((each) => each.setAttribute("style", "font: 11px sans-serif"));
  return new XMLSerializer().serializeToString(copy).replaceAll("var(--ink)", "#262626");
};

function table(head, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

// The numbers of an array that the page has compressed.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Float32Array(await new Response(stream).arrayBuffer());
}

const short = (value) => (Number.isFinite(value) ? +value.toPrecision(7) : null);

// Row, column and channel of a value of an array of this shape.
const indices = ([, columns, channels], at) =>
  [Math.floor(at / (columns * channels)), Math.floor(at / channels) % columns, at % channels];

function number(value) {
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(1) : String(+value.toPrecision(4));
}

function ticks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(value);
  return found;
}

function chart(parent, { title, note, lines, gaps, per, label: time }) {
  const W = 440, H = 240, left = 58, right = 24, top = 10, bottom = 34;
  const box = add(parent, "div", { class: "chart" });
  add(box, "h3", {}, title);
  const key = add(box, "div", { class: "key" });
  if (lines.length > 1) lines.forEach((line, i) => {
    add(key, "i", { style: `background:${COLOURS[i % 6]}` });
    add(key, "span", {}, line.name);
  });
  const label = add(key, "label", lines.length > 1 ? { style: "margin-left:1.2em" } : {});
  const log = add(label, "input", { type: "checkbox" });
  label.append(" logarithmic");
  if (note) add(box, "div", { class: "note" }, note);
  const svg = add(box, "svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: "img" });
  svg.setAttribute("aria-label", `${title} against ${time}: ${lines.map((line) => line.name).join(", ")}`);
  const all = [Math.min(...lines.map((l) => l.steps[0])), Math.max(...lines.map((l) => l.steps.at(-1)))];
  let range = [...all];

  function draw() {
    svg.replaceChildren();
    const usable = (value) => value !== null && (!log.checked || value > 0);
    const inside = (line) => line.steps.map((s, i) => i).filter((i) => line.steps[i] >= range[0] && line.steps[i] <= range[1]);
    const seen = lines.flatMap((line) => inside(line).flatMap((i) => [line.low[i], line.mean[i], line.high[i]])).filter(usable);
    let low = Math.min(...seen), high = Math.max(...seen);
    if (!seen.length) [low, high] = [1, 10];
    if (!log.checked && low >= 0 && low < 0.5 * high) low = 0;
    if (low === high) [low, high] = [low - 1, high + 1];
    const scale = log.checked ? Math.log10 : (value) => value;
    const whole = range[1] - range[0];  // 0 where there is a single record
    const x = (step) => left + (whole ? (step - range[0]) / whole : 0.5) * (W - left - right);
    const y = (value) => H - bottom - ((scale(value) - scale(low)) / (scale(high) - scale(low) || 1)) * (H - top - bottom);
    for (const [first, last] of gaps) {  // steps that are lost
      const [from, to] = [first - 1, last].map((step) => x(Math.min(range[1], Math.max(range[0], step))));
      add(svg, "rect", { class: "lost", x: from, width: to - from, y: top, height: H - top - bottom, "fill-opacity": 1 });
    }
    const decades = [];
    if (log.checked) for (let p = Math.ceil(Math.log10(low)); p <= Math.log10(high); p++) decades.push(10 ** p);
    for (const value of log.checked ? (decades.length > 1 ? decades : [low, high]) : ticks(low, high, 5)) {
      add(svg, "line", { x1: left, x2: W - right, y1: y(value), y2: y(value), class: "rule" });
      add(svg, "text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value));
    }
    for (const value of ticks(range[0] / per, range[1] / per, 5))
      add(svg, "text", { x: x(value * per), y: H - bottom + 16, "text-anchor": "middle" }, number(value));
    add(svg, "text", { x: (left + W - right) / 2, y: H - 3, "text-anchor": "middle" }, time);
    lines.forEach((line, i) => {
      const point = (j, value) => `${x(line.steps[j]).toFixed(1)},${y(value).toFixed(1)}`;
      const stretches = (there) => {  // no line crosses what is not there
        const found = [[]];
        for (const j of inside(line))
          if (there(j)) found.at(-1).push(j);
          else found.push([]);
        return found.filter((stretch) => stretch.length);
      };
      for (const at of stretches((j) => usable(line.low[j]) && usable(line.high[j]))) {
        const edge = [...at.map((j) => point(j, line.high[j])), ...[...at].reverse().map((j) => point(j, line.low[j]))];
        add(svg, "polygon", { points: edge.join(" "), fill: COLOURS[i % 6], opacity: 0.18 });
      }
      for (const at of stretches((j) => usable(line.mean[j]))) {
        const path = at.map((j) => point(j, line.mean[j]));
        add(svg, "polyline", { points: path.join(" "), fill: "none", stroke: COLOURS[i % 6], "stroke-width": 1.8 });
        if (at.length === 1) add(svg, "circle", { cx: x(line.steps[at[0]]), cy: y(line.mean[at[0]]), r: 3, fill: COLOURS[i % 6] });
      }
    });
  }

  const across = (event) => {  // in the units of the drawing, which is smaller on narrow screens
    const bounds = svg.getBoundingClientRect();
    return ((event.clientX - bounds.left) / bounds.width) * W;
  };
  const place = (event) => {
    const share = (across(event) - left) / (W - left - right);
    return range[0] + Math.min(1, Math.max(0, share)) * (range[1] - range[0]);
  };
  let start = null, shade = null;
  svg.addEventListener("pointerdown", (event) => {
    start = [across(event), place(event)];
    shade = add(svg, "rect", { y: top, height: H - top - bottom, width: 0, x: start[0], fill: "#0072B2", opacity: 0.15 });
  });
  svg.addEventListener("pointermove", (event) => {
    if (start === null) return;
    shade.setAttribute("x", Math.min(start[0], across(event)));
    shade.setAttribute("width", Math.abs(across(event) - start[0]));
  });
  svg.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const ends = [start[1], place(event)].sort((a, b) => a - b);
    if (Math.abs(across(event) - start[0]) > 5) range = ends;
    start = null;
    draw();
  });
  svg.addEventListener("dblclick", () => { range = [...all]; draw(); });
  log.addEventListener("change", draw);
  draw();
  const rows = () => lines.flatMap((line) =>
    line.steps.map((step, i) => [lines.length > 1 ? line.name : title, step, step / per, line.mean[i], line.low[i], line.high[i]]));
  const titled = () => {  // with what is beside it on the page
    const copy = svg.cloneNode(true), above = 46, below = note ? 16 : 0;
    copy.setAttribute("height", H + above + below);
    copy.setAttribute("viewBox", `0 ${-above} ${W} ${H + above + below}`);
    add(copy, "text", { x: 6, y: 14 - above, style: "font: bold 12px sans-serif" }, title);
    let place = left;
    if (lines.length > 1) lines.forEach((line, i) => {
      add(copy, "line", { x1: place, x2: place + 18, y1: -11, y2: -11, stroke: COLOURS[i % 6], "stroke-width": 1.8 });
      add(copy, "text", { x: place + 23, y: -7 }, line.name);
      place += 38 + 6.5 * line.name.length;
    });
    if (note) add(copy, "text", { x: 6, y: H + 11, style: "font: 9px sans-serif" }, note);
    return drawn(copy)();
  };
  saves(box, title, {
    svg: titled, csv: () => table(["line", "step", time, "mean", "percentile 10", "percentile 90"], rows()),
  });
}

// A tile of an atlas as the background of an element.
function show(element, atlas, columns, rows, index, width, height) {
  const share = (at, count) => (count > 1 ? (100 * at) / (count - 1) : 0);
  Object.assign(element.style, {
    width: `${width}px`, height: `${height}px`, backgroundImage: `url(${atlas})`,
    backgroundSize: `${100 * columns}% ${100 * rows}%`,
    backgroundPosition: `${share(index % columns, columns)}% ${share(Math.floor(index / columns), rows)}%`,
  });
}

function dictionary(parent, one) {
  const box = add(parent, "div", { class: "features" });
  add(box, "h3", {}, one.title);
  const rows = Math.ceil(one.count / one.columns), dead = one.use ? one.use.filter((u) => u === 0).length : 0;
  const line = add(box, "p", { class: "hint" });
  if (one.use) {
    const label = add(line, "label", {}, "order: ");
    const order = add(label, "select");
    for (const name of ["use", "index"]) add(order, "option", { value: name }, name);
    order.addEventListener("change", () => fill(order.value));
    add(line, "span", {}, ` · ${dead} of ${one.count} features dead${dead ? " (framed)" : ""} · click a feature`);
  }
  const grid = add(box, "div", { class: "grid" });
  const detail = add(box, "div", { class: "detail" });
  const percent = (number) => `${+(100 * one.use[number]).toPrecision(3)} % active`;

  function choose(number, tile) {
    grid.querySelectorAll(".chosen").forEach((each) => each.classList.remove("chosen"));
    tile.classList.add("chosen");
    detail.replaceChildren();
    const large = add(add(detail, "figure"), "div", { class: "large", role: "img", "aria-label": `feature ${number}` });
    show(large, one.atlas, one.columns, rows, number, 150 * one.aspect, 150);
    add(large.parentNode, "figcaption", {}, `feature ${number}${one.use ? ": " + percent(number) : ""}`);
    const mine = one.patches && one.patches[number];
    const patches = add(detail, "div", { class: "patches" });
    if (!mine) { add(patches, "p", { class: "empty" }, "no image patches"); return; }
    mine.activity.forEach((activity, i) => {
      const figure = add(patches, "figure", { title: mine.where[i] });
      const tile = add(figure, "div", { class: "tile patch", role: "img", "aria-label": mine.where[i] });
      show(tile, one.patch_atlas, one.patch_columns, one.patch_rows, mine.row * one.patch_columns + i, 72 * one.aspect, 72);
      add(figure, "figcaption", {}, number_(activity));
    });
    if (mine.pixels) saves(patches, `image patches of feature ${number}`, { csv: async () => {
      const pixels = await unpacked(mine.pixels), size = pixels.length / mine.activity.length;
      return table(["feature", "patch", "shown", "activity", "row", "column", "channel", "value"], Array.from(pixels, (value, i) => {
        const at = Math.floor(i / size);
        return [number, at + 1, mine.where[at], mine.activity[at], ...indices(one.shape, i % size), short(value)];
      }));
    } });
  }

  const number_ = (value) => (value === null ? "" : Math.abs(value) < 0.1 ? String(+value.toPrecision(2)) : value.toFixed(2));
  function fill(order) {
    const numbers = [...Array(one.count).keys()];
    if (one.use && order === "use") numbers.sort((a, b) => one.use[b] - one.use[a]);
    grid.replaceChildren();
    for (const number of numbers) {
      const title = `feature ${number}${one.use ? ": " + percent(number) : ""}`;
      const tile = add(grid, "button", { class: "tile", title, "data-feature": number });
      if (one.use && one.use[number] === 0) tile.classList.add("dead");
      show(tile, one.atlas, one.columns, rows, number, Math.min(120, 40 * one.aspect), 40);
      tile.addEventListener("click", () => choose(number, tile));
    }
    grid.firstChild.click();
  }
  fill("use");
  const patches = one.patches || {};
  saves(box, one.title.split(":")[0], {
    png: () => one.atlas,
    csv: async () => {
      const weights = await unpacked(one.weights), size = weights.length / one.count;
      return table(["feature", "row", "column", "channel", "weight"], Array.from(weights, (weight, i) =>
        [Math.floor(i / size), ...indices(one.shape, i % size), short(weight)]));
    },
    "csv (use)": () => table(["feature", "active (fraction)", "strongest activities"], [...Array(one.count).keys()].map((number) =>
      [number, one.use && one.use[number], (patches[number] ? patches[number].activity : []).join(" ")])),
  });
}

function reconstructions(parent, all) {
  const line = add(parent, "p");
  const menu = (name, values) => {
    const select = add(add(line, "label", { style: "margin-right:1.2em" }, `${name}: `), "select", { "data-menu": name });
    for (const value of new Set(values)) add(select, "option", { value }, String(value));
    return select;
  };
  const chosen = () => all.find((each) => each.when === time.value && String(each.slice) === slice.value);
  const time = menu("time", all.map((one) => one.when)), slice = menu("slice", all.map((one) => one.slice));
  time.selectedIndex = time.options.length - 1;
  const back = add(line, "button", {}, "previous"), next = add(line, "button", {}, "next");
  const shown = add(parent, "div", { class: "triple" });
  function draw() {
    const one = chosen();
    shown.replaceChildren();
    const captions = [`input${one.shown ? " (" + one.shown + ")" : ""}`, `reconstruction, ${one.psnr}`, `error, black and white: ${one.scale}`];
    one.images.forEach((image, i) => {
      const figure = add(shown, "figure");
      add(figure, "img", { src: image, alt: captions[i] });
      add(figure, "figcaption", {}, captions[i]);
    });
  }
  const move = (by) => {
    const count = slice.options.length, at = time.selectedIndex * count + slice.selectedIndex + by;
    const all = count * time.options.length, to = (at + all) % all;
    time.selectedIndex = Math.floor(to / count);
    slice.selectedIndex = to % count;
    draw();
  };
  back.addEventListener("click", () => move(-1));
  next.addEventListener("click", () => move(1));
  time.addEventListener("change", draw);
  slice.addEventListener("change", draw);
  draw();
  saves(parent, "reconstructions", {
    png: () => sideBySide([...shown.querySelectorAll("img")]),
    csv: async () => {
      const one = chosen(), values = await unpacked(one.values), size = values.length / 2;
      const head = ["time", "slice", "row", "column", "channel", "input", "reconstruction", "error"];
      return table(head, Array.from(values.subarray(0, size), (value, i) =>
        [one.when, one.slice, ...indices(one.shape, i),
         short(value), short(values[size + i]), short(value - values[size + i])]));
    },
    "csv (all)": () => table(["time", "slice", "shown", "reconstruction", "scale of the error"],
      all.map((one) => [one.when, one.slice, one.shown, one.psnr, one.scale])),
  });
}

// Images in a row, as the address of a PNG file.
function sideBySide(images) {
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  const [width, height] = [images[0].naturalWidth, images[0].naturalHeight];
  [canvas.width, canvas.height] = [images.length * (width + 2) - 2, height];
  images.forEach((image, i) => pen.drawImage(image, i * (width + 2), 0));
  return canvas.toDataURL();
}

const body = (section) => document.querySelector(`#${section} .body`);
if (data.curves.length) {
  const charts = add(body("curves"), "div", { class: "charts" });
  data.curves.forEach((one) => chart(charts, one));
}
data.dictionaries.forEach((one) => dictionary(body("dictionary"), one));
if (data.reconstructions.length) reconstructions(body("reconstructions"), data.reconstructions);
for (const figure of document.querySelectorAll(".drawing")) {
  const { name } = figure.dataset, csv = data.tables[name];
  saves(figure, name, { svg: drawn(figure.querySelector("svg")), ...(csv ? { csv: () => csv } : {}) });
}
for (const bars of document.querySelectorAll(".times")) saves(bars, "time", { csv: () => data.tables.time });
