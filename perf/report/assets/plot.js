// The roofline plot: both axes logarithmic, a mark for each row, ceilings with their ridge points.

// Drawn in this order: the rarest and gravest marks on top.
const LAYERS = ["blank", "predicted", "below", "at_ceiling", "latency_bound", "anomaly", "formula_error"];
// How near the pointer has to come to a mark, in pixels.
const REACH = 14;

// Where a row stands: intensity, rate, and the rail of rows that have no place between the axes (no FLOPs, no
// traffic, no priced time).
function placeOf(row) {
  const isPriced = row.actual_time_s !== null && row.achieved_flops_per_s !== null;
  const spent = isPriced ? row.actual_time_s : row.sol_time_s;
  if (spent === null || (row.flops === 0 && row.bytes === 0)) {
    return { x: row.arithmetic_intensity || null, y: null, rail: "bottom" };
  }
  if (row.flops === 0) return { x: null, y: row.bytes / spent, rail: "left" };
  if (row.bytes === 0) return { x: null, y: row.flops / spent, rail: "right" };
  return { x: row.flops / row.bytes, y: row.flops / spent, rail: null };
}

function marksOf(data) {
  const marks = data.cells
    ? data.cells.map((cell, i) => ({ cell, i, place: cell, verdict: cell.verdict }))
    : data.rows.map((row) => ({ row, i: row.i, place: placeOf(row), verdict: kindOf(row) }));
  return marks.sort((a, b) => LAYERS.indexOf(a.verdict) - LAYERS.indexOf(b.verdict) || a.i - b.i);
}

function line(classes, x1, y1, x2, y2) { return drawn("line", { class: classes, x1, y1, x2, y2 }); }

function label(x, y, anchor, text, classes) {
  return drawn("text", { x, y, "text-anchor": anchor, class: classes }, text);
}

// Where an axis has lines: at powers of ten, and over few of them at twice and five times those, too.
function ticks(low, high) {
  const steps = high - low < 2.2 ? [1, 2, 5] : [1];
  const found = [];
  for (let power = Math.floor(low); power <= high; power++) {
    for (const step of steps) found.push(Number(`${step}e${power}`));
  }
  return found.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
}

// From values to pixels: a part of the drawing, and the powers of ten that it spans.
class Frame {
  constructor(left, right, top, bottom, [x0, x1], [y0, y1]) {
    Object.assign(this, { left, right, top, bottom, x0, x1, y0, y1 });
  }
  x(value) { return this.left + (Math.log10(value) - this.x0) / (this.x1 - this.x0) * (this.right - this.left); }
  y(value) { return this.bottom - (Math.log10(value) - this.y0) / (this.y1 - this.y0) * (this.bottom - this.top); }
  holds(x, y) { return x > this.left && x < this.right && y > this.top && y < this.bottom; }
}

class Plot {
  constructor(box, data, onChoose) {
    Object.assign(this, { box, data, onChoose, visible: () => true, zoomed: false, chosen: null });
    this.marks = marksOf(data);
    this.rails = new Set(this.marks.map((mark) => mark.place.rail));
    const keys = new Set(data.roofKeys);
    const units = Object.entries(data.profile ? data.profile.units : {}).filter(([key]) => keys.has(key));
    this.roofs = units.map(([key, unit]) => ({ key, ...unit })).sort((a, b) => a.theoretical - b.theoretical);
    this.tip = element("div", { id: "tip", role: "status", hidden: "" });
    const words = "Roofline plot: arithmetic intensity against FLOPs per second; the table below has its numbers";
    this.svg = drawn("svg", { role: "img", "aria-label": words });
    box.append(this.svg, this.tip);
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.svg.addEventListener("click", (event) => {
      const mark = this.nearest(event);
      if (mark) this.onChoose(mark);
    });
    new ResizeObserver(() => this.draw()).observe(box);
    this.draw();
  }

  refresh(visible, zoomed, chosen) {
    Object.assign(this, { visible, zoomed, chosen });
    this.draw();
  }

  // The powers of ten that the axes span: of every mark and roof, or of the visible marks.
  domain() {
    const shown = this.zoomed ? this.marks.filter((mark) => this.visible(mark)) : this.marks;
    const placed = shown.filter((mark) => mark.place.rail === null).map((mark) => mark.place);
    const xs = placed.map((place) => place.x), ys = placed.map((place) => place.y);
    if (!this.zoomed || !placed.length) {
      for (const roof of this.roofs) {
        const { theoretical, effective } = this.data.profile.hbm;
        xs.push((roof.effective || roof.theoretical) / (effective || theoretical));
        ys.push(roof.theoretical);
      }
    }
    const span = (values, fallback) => {
      if (!values.length) return fallback;
      let low = Infinity, high = -Infinity;
      for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
      return [Math.log10(low) - 0.25, Math.log10(high) + 0.3];
    };
    return [span(xs, [-2, 3]), span(ys, [9, 15])];
  }

  draw() {
    const width = Math.max(this.box.clientWidth, 280);
    const height = Math.round(Math.min(Math.max(width * 0.5, 300), 620));
    const left = this.rails.has("left") || this.rails.has("bottom") ? 104 : 78;
    const right = width - (this.rails.has("right") ? 46 : 16);
    const bottom = height - (this.rails.has("bottom") ? 78 : 44);
    const frame = new Frame(left, right, 14 + 14 * this.roofs.length, bottom, ...this.domain());
    const inside = { x: frame.left, y: frame.top, width: right - left, height: bottom - frame.top };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(
      drawn("clipPath", { id: "inside" }, drawn("rect", inside)),
      ...this.axes(frame, width, height), ...this.sideRails(frame, width, height), ...this.ceilings(frame),
      ...this.points(frame, width, height), ...this.names(frame));
  }

  *axes(frame, width, height) {
    const across = ticks(frame.x0, frame.x1);
    const every = Math.ceil(across.length * 46 / (frame.right - frame.left));
    for (const value of across.filter((_, place) => place % every === 0)) {
      const text = value < 0.01 || value > 1e4 ? value.toExponential().replace("+", "") : String(value);
      yield line("grid", frame.x(value), frame.top, frame.x(value), frame.bottom);
      yield label(frame.x(value), frame.bottom + 17, "middle", text);
    }
    for (const value of ticks(frame.y0, frame.y1)) {
      yield line("grid", frame.left, frame.y(value), frame.right, frame.y(value));
      yield label(72, frame.y(value) + 4, "end", engineering(value, ""));
    }
    const middle = (frame.top + frame.bottom) / 2;
    yield label((frame.left + frame.right) / 2, height - 6, "middle", "arithmetic intensity: FLOPs per byte");
    const rate = this.data.isPrediction ? "FLOP/s at the bound" : "FLOP/s reached";
    const turned = { "text-anchor": "middle", transform: `translate(14 ${middle}) rotate(-90)` };
    yield drawn("text", turned, rate);
  }

  // Rails at the edges, for rows that have no place between the axes.
  *sideRails(frame, width, height) {
    const low = frame.bottom + 17;
    if (this.rails.has("left")) {
      yield line("rail", 84, frame.top, 84, frame.bottom);
      yield label(78, low, "end", "no FLOPs");
      const { theoretical, effective } = this.data.profile ? this.data.profile.hbm : {};
      const y = this.bandwidthScale(frame);
      if (theoretical) yield line("roof theory", 76, y(theoretical), 92, y(theoretical));
      if (effective) yield line("roof", 76, y(effective), 92, y(effective));
    }
    if (this.rails.has("right")) {
      yield line("rail", width - 28, frame.top, width - 28, frame.bottom);
      yield label(width - 28, low, "middle", "0 bytes");
    }
    if (this.rails.has("bottom")) {
      yield line("rail", frame.left, height - 32, frame.right, height - 32);
      yield label(76, height - 28, "end", "no rate");
    }
  }

  // Rows without FLOPs have their bytes per second on a rail of its own, the ceiling near its top.
  bandwidthScale(frame) {
    const rates = this.marks.filter((mark) => mark.place.rail === "left").map((mark) => mark.place.y);
    const ceiling = this.data.profile ? this.data.profile.hbm.theoretical : 1;
    const top = Math.log10(rates.reduce((most, rate) => Math.max(most, rate), ceiling));
    const perDecade = (frame.bottom - frame.top) / (frame.y1 - frame.y0);
    return (rate) => Math.min(frame.top + 8 + (top - Math.log10(rate)) * perDecade, frame.bottom);
  }

  // Memory's slanted ceiling as far as the highest unit, and each unit's level one from its ridge point on.
  *ceilings(frame) {
    if (!this.data.profile) return;
    const path = (classes, x0, y0, x1, y1) => drawn("path", {
      class: classes, "clip-path": "url(#inside)",
      d: `M${frame.x(x0)},${frame.y(y0)}L${frame.x(x1)},${frame.y(y1)}`,
    });
    for (const kind of ["theoretical", "effective"]) {
      const bandwidth = this.data.profile.hbm[kind];
      if (!bandwidth) continue;
      const classes = kind === "effective" ? "roof" : "roof theory";
      const peaks = this.roofs.map((roof) => roof[kind] || roof.theoretical);
      const low = 10 ** frame.x0, end = 10 ** frame.x1;
      const last = peaks.length ? Math.min(Math.max(...peaks) / bandwidth, end) : end;
      yield path(classes, low, low * bandwidth, last, last * bandwidth);
      for (const roof of this.roofs) {
        const peak = roof[kind];
        if (peak && peak / bandwidth < end) yield path(classes, peak / bandwidth, peak, end, peak);
      }
    }
    for (const roof of this.roofs) {
      const cx = frame.x(this.ridge(roof)), cy = frame.y(roof.effective || roof.theoretical);
      if (!frame.holds(cx, cy)) continue;
      const title = `ridge point of ${roof.key}: ${fixed(this.ridge(roof), 1)} FLOPs per byte`;
      yield drawn("circle", { class: "ridge", cx, cy, r: 4.5 }, drawn("title", {}, title));
    }
  }

  // The intensity at which the unit and the memory limit alike.
  ridge(roof) {
    const { theoretical, effective } = this.data.profile.hbm;
    return (roof.effective || roof.theoretical) / (effective || theoretical);
  }

  *names(frame) {
    if (!this.data.profile) return;
    const taken = [];
    for (const roof of this.roofs) {
      let y = frame.y(roof.theoretical) - 6;
      if (y < 0 || y > frame.bottom) continue;
      while (taken.some((other) => Math.abs(other - y) < 13)) y -= 13;
      taken.push(y);
      const ridge = fixed(this.ridge(roof), 1);
      const said = roof.effective ? `${engineering(roof.effective, "FLOP/s")}, ridge ${ridge}` : "not calibrated";
      const text = frame.right - frame.left < 420 ? roof.key : `${roof.key}  ${said}`;
      yield label(frame.right - 4, y, "end", text, "label");
    }
    const { theoretical, effective } = this.data.profile.hbm;
    const bandwidth = effective || theoretical;
    const lowest = 10 ** (frame.y0 + (frame.y1 - frame.y0) * 0.06) / bandwidth;
    const at = Math.max(10 ** (frame.x0 + (frame.x1 - frame.x0) * 0.04), lowest);
    const rise = frame.y(at * 10 * bandwidth) - frame.y(at * bandwidth), run = frame.x(at * 10) - frame.x(at);
    const angle = Math.atan2(rise, run) * 180 / Math.PI;
    const turned = `translate(${frame.x(at)} ${frame.y(at * theoretical) - 9}) rotate(${angle})`;
    yield drawn("text", { class: "label", transform: turned }, `HBM ${engineering(bandwidth, "B/s")}`);
  }

  *points(frame, width, height) {
    const bandwidthY = this.bandwidthScale(frame);
    for (const mark of this.marks) {
      const { x, y, rail } = mark.place;
      if (rail === "left") Object.assign(mark, { px: 84, py: bandwidthY(y) });
      else if (rail === "right") Object.assign(mark, { px: width - 28, py: frame.y(y) });
      else if (rail === "bottom") Object.assign(mark, { px: x ? frame.x(x) : 84, py: height - 32 });
      else Object.assign(mark, { px: frame.x(x), py: frame.y(y) });
      const onPaper = mark.px >= 77 && mark.px <= width - 4 && mark.py >= 2;
      mark.inside = onPaper && (rail === "bottom" || mark.py <= frame.bottom + 2);
      if (mark.inside) yield this.point(mark);
      if (mark.inside && mark.row && mark.row.i === this.chosen) {
        yield drawn("circle", { class: "chosen-point", cx: mark.px, cy: mark.py, r: 10 });
      }
    }
  }

  point(mark) {
    const [path, hollow] = this.data.shapes[mark.verdict];
    const scale = mark.cell ? Math.min(0.7 + Math.log10(mark.cell.count) * 0.35, 2.4) : 1;
    const classes = ["pt", `v-${mark.verdict}`, hollow ? "hollow" : "", this.visible(mark) ? "" : "faint"];
    return drawn("path", {
      d: path, class: classes.filter(Boolean).join(" "), "data-i": mark.i,
      transform: `translate(${mark.px.toFixed(1)} ${mark.py.toFixed(1)}) scale(${scale.toFixed(2)})`,
    });
  }

  nearest(event) {
    const box = this.svg.getBoundingClientRect();
    const scale = this.svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = null, least = REACH * REACH;
    for (const mark of this.marks) {
      if (!mark.inside || !this.visible(mark)) continue;
      const distance = (mark.px - x) ** 2 + (mark.py - y) ** 2;
      if (distance <= least) { best = mark; least = distance; }
    }
    return best;
  }

  hover(event) {
    const mark = this.nearest(event);
    this.tip.hidden = !mark;
    this.svg.style.cursor = mark ? "pointer" : "";
    if (!mark) return;
    this.tip.replaceChildren(...(mark.cell ? cellFacts(mark.cell) : rowFacts(mark.row)));
    const box = this.box.getBoundingClientRect();
    const scale = box.width / this.svg.viewBox.baseVal.width;
    const x = mark.px * scale, y = mark.py * scale;
    const left = x + 16 + this.tip.offsetWidth > box.width ? x - 16 - this.tip.offsetWidth : x + 16;
    this.tip.style.left = `${Math.max(left, 4)}px`;
    this.tip.style.top = `${Math.max(Math.min(y - 10, box.height - this.tip.offsetHeight - 4), 4)}px`;
  }
}
