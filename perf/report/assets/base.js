// Shared by the pages: elements, numbers, sorting. Text from run files only ever becomes text nodes.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function byId(id) { return document.getElementById(id); }

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  return fill(made, attributes, children);
}

function drawn(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function readData() {
  const data = JSON.parse(byId("data").textContent);
  data.rows = data.rows.map((values, i) => {
    const row = { i };
    data.fields.forEach((field, place) => { row[field] = values[place]; });
    return row;
  });
  return data;
}

function glyph(shapes, kind) {
  const [path, hollow] = shapes[kind];
  const mark = drawn("path", { d: path, class: hollow ? "hollow" : null });
  return drawn("svg", { class: "glyph", viewBox: "-7 -7 14 14", "aria-hidden": "true" }, mark);
}

// A name that may be broken between its words.
function breakable(name) {
  const words = name.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[-_])/);
  return words.flatMap((word, place) => place ? [element("wbr"), word] : [word]);
}

const numberFormats = [0, 1, 2, 3, 4, 5, 6].map((digits) => new Intl.NumberFormat("en", {
  minimumFractionDigits: digits, maximumFractionDigits: digits,
}));

function fixed(value, digits) { return numberFormats[digits].format(value); }

function microseconds(seconds) {
  if (seconds === null) return "";
  if (seconds > 0 && seconds < 5e-9) return "<0.01";
  return fixed(seconds * 1e6, 2);
}

// With more places beside the lines between verdicts: what is below one does not read as on it.
function percent(ratio) {
  if (ratio === null) return "";
  const sides = (value) => `${value >= 0.8} ${value > 1.05}`;
  let digits = 1;
  while (digits < 6 && sides(Number((ratio * 100).toFixed(digits)) / 100) !== sides(ratio)) digits++;
  return fixed(ratio * 100, digits) + "%";
}

function engineering(value, unit) {
  if (value === null) return "";
  const prefixes = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, prefix] of prefixes) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(4))} ${prefix}${unit}`;
  }
  return `${Number(value.toPrecision(4))} ${unit}`;
}

// Compares two cells: absent values last, whichever way the column is sorted.
function compare(a, b, descending) {
  const absentA = a === null || a === undefined || a === "";
  const absentB = b === null || b === undefined || b === "";
  if (absentA || absentB) return absentA - absentB;
  const order = typeof a === "string" ? (a < b ? -1 : a > b ? 1 : 0) : a - b;
  return descending ? -order : order;
}

// A row's course over several runs: a line through its times.
function courseOf(points, width, height, labelled) {
  const times = points.map((point) => point[1]);
  const low = Math.min(...times), high = Math.max(...times);
  const x = (place) => 3 + place * (width - 6) / Math.max(points.length - 1, 1);
  const y = (time) => high > low ? height - 3 - (time - low) / (high - low) * (height - 6) : height / 2;
  const line = points.map((point, place) => `${x(place).toFixed(1)},${y(point[1]).toFixed(1)}`).join(" ");
  const last = points[points.length - 1];
  const words = `${points.length} runs, from ${microseconds(times[0])} to ${microseconds(last[1])} microseconds`;
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  const svg = drawn("svg", { class: "course", role: "img", "aria-label": words, ...size },
    drawn("polyline", { points: line }), drawn("circle", { cx: x(points.length - 1), cy: y(last[1]), r: 2.5 }));
  if (labelled) {
    points.forEach((point, place) => svg.append(drawn("circle", { cx: x(place), cy: y(point[1]), r: 2 })));
    svg.append(drawn("text", { x: width + 6, y: y(high) + 4 }, microseconds(high)));
    if (high > low) svg.append(drawn("text", { x: width + 6, y: y(low) + 4 }, microseconds(low)));
  }
  return svg;
}

function classOf(column) {
  return [column.number ? "n" : "", column.wide ? "wide" : ""].filter(Boolean).join(" ") || null;
}

// A table whose heads sort it; it shows the first rows, and all of them when asked.
class SortedTable {
  constructor(table, columns, makeRow, rows) {
    Object.assign(this, { table, columns, makeRow, rows, shown: 200, step: 200, column: null, descending: false });
    this.body = table.tBodies[0] || table.appendChild(element("tbody"));
    const heads = columns.map((column, place) => {
      const button = element("button", { type: "button" }, column.title);
      button.addEventListener("click", () => this.sortBy(place));
      return element("th", { scope: "col", class: classOf(column) }, button);
    });
    table.prepend(element("thead", {}, element("tr", {}, ...heads)));
    this.heads = heads;
    this.more = element("button", { type: "button", class: "more" });
    this.more.addEventListener("click", () => { this.shown = Infinity; this.draw(); });
    table.after(this.more);
    this.draw();
  }

  sortBy(place) {
    const column = this.columns[place];
    this.descending = this.column === place ? !this.descending : Boolean(column.number);
    this.column = place;
    this.heads.forEach((head, each) => {
      if (each === place) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.draw();
  }

  show(rows) { this.rows = rows; this.shown = this.step; this.draw(); }

  draw() {
    let rows = this.rows;
    if (this.column !== null) {
      const value = this.columns[this.column].value;
      rows = rows.slice().sort((a, b) => compare(value(a), value(b), this.descending) || a.i - b.i);
    }
    this.body.replaceChildren(...rows.slice(0, this.shown).map(this.makeRow));
    const left = rows.length - this.shown;
    this.more.hidden = left <= 0;
    this.more.textContent = `show the other ${fixed(Math.max(left, 0), 0)} rows`;
  }
}

function startTheme() {
  const button = byId("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "light colours" : "dark colours"; };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  button.hidden = false;
  name();
}
