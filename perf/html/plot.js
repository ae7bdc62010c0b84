// The roofline plot: both axes logarithmic, a mark for each row, ceilings with their ridge points.

// Where a row stands that has no place between the axes: no FLOPs, no traffic, no priced time.
function placeOf(row) {
  const time = row.actual_time_s !== null && row.achieved_flops_per_s !== null ? row.actual_time_s : null;
  const spent = time !== null ? time : row.sol_time_s;
  if (spent === null || (row.flops === 0 && row.bytes === 0)) return { x: row.arithmetic_intensity || null, y: null, rail: "bottom" };
  if (row.flops === 0) return { x: null, y: row.bytes / spent, rail: "left" };
  if (row.bytes === 0) return { x: null, y: row.flops / spent, rail: "right" };
  return { x: row.flops / row.bytes, y: row.flops / spent, rail: null };
}

class Plot {
  constructor(box, data, onChoose) {
    Object.assign(this, { box, data, onChoose, visible: () => true, zoomed: false, chosen: null });
    this.marks = data.cells
      ? data.cells.map((cell, i) => ({ cell, i, place: { x: cell.x, y: cell.y, rail: cell.rail }, verdict: cell.verdict }))
      : data.rows.map((row) => ({ row, i: row.i, place: placeOf(row), verdict: kindOf(row) }));
    // The rarest and gravest on top.
    const order = ["blank", "predicted", "below", "at_ceiling", "latency_bound", "anomaly", "formula_error"];
    this.marks.sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict) || a.i - b.i);
    this.tip = element("div", { id: "tip", role: "status", hidden: "" });
    this.svg = drawn("svg", { role: "img", "aria-label": "Roofline plot: arithmetic intensity against FLOPs per second; the table below has its numbers" });
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

  refresh(visible, zoomed, chosen) { Object.assign(this, { visible, zoomed, chosen }); this.draw(); }

  roofs() {
    const profile = this.data.profile;
    if (!profile) return [];
    const keys = new Set(this.data.roofKeys);
    return Object.entries(profile.units).filter(([key]) => keys.has(key)).map(([key, unit]) => ({ key, ...unit }));
  }

  domain() {
    const shown = this.zoomed ? this.marks.filter((mark) => this.visible(mark)) : this.marks;
    const placed = shown.filter((mark) => mark.place.rail === null).map((mark) => mark.place);
    const xs = placed.map((place) => place.x), ys = placed.map((place) => place.y);
    const profile = this.data.profile;
    if (profile && (!this.zoomed || !placed.length)) {
      for (const roof of this.roofs()) {
        const peak = roof.effective || roof.theoretical;
        xs.push(peak / (profile.hbm.effective || profile.hbm.theoretical));
        ys.push(roof.theoretical);
      }
    }
    const span = (values, fallback) => {
      if (!values.length) return fallback;
      let low = Infinity, high = -Infinity;
      for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
      return [Math.log10(low) - 0.25, Math.log10(high) + 0.3];
    };
    return { x: span(xs, [-2, 3]), y: span(ys, [9, 15]) };
  }

  draw() {
    const width = Math.max(this.box.clientWidth, 280);
    const height = Math.round(Math.min(Math.max(width * 0.5, 300), 620));
    const onRail = (rail) => this.marks.some((mark) => mark.place.rail === rail);
    const edge = { left: 78, right: onRail("right") ? 46 : 16, top: 14 + 14 * this.roofs().length, bottom: onRail("bottom") ? 78 : 44 };
    const { x: [x0, x1], y: [y0, y1] } = this.domain();
    const inner = { left: edge.left + (onRail("left") || onRail("bottom") ? 26 : 0), right: width - edge.right, top: edge.top, bottom: height - edge.bottom };
    const px = (value) => inner.left + (Math.log10(value) - x0) / (x1 - x0) * (inner.right - inner.left);
    const py = (value) => inner.bottom - (Math.log10(value) - y0) / (y1 - y0) * (inner.bottom - inner.top);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const layers = [...this.axes(width, height, inner, px, py, [x0, x1], [y0, y1], onRail)];
    layers.push(drawn("clipPath", { id: "inside" }, drawn("rect", { x: inner.left, y: inner.top, width: inner.right - inner.left, height: inner.bottom - inner.top })));
    layers.push(...this.ceilings(inner, px, py, [x0, x1], [y0, y1]));
    const points = drawn("g", {}), bandwidthY = this.bandwidthScale(inner, y1 - y0);
    for (const mark of this.marks) {
      const { x, y, rail } = mark.place;
      if (rail === "left") { mark.px = edge.left + 6; mark.py = bandwidthY(y); }
      else if (rail === "right") { mark.px = width - edge.right + 18; mark.py = py(y); }
      else if (rail === "bottom") { mark.px = x ? px(x) : edge.left + 6; mark.py = height - edge.bottom + 46; }
      else { mark.px = px(x); mark.py = py(y); }
      mark.inside = rail === "bottom" || (mark.px >= edge.left - 1 && mark.px <= width - 4 && mark.py >= 2 && mark.py <= inner.bottom + 2);
      if (!mark.inside) continue;
      const [path, hollow] = this.data.shapes[mark.verdict];
      const scale = mark.cell ? Math.min(0.7 + Math.log10(mark.cell.count) * 0.35, 2.4) : 1;
      const classes = ["pt", `v-${mark.verdict}`, hollow ? "hollow" : "", this.visible(mark) ? "" : "faint"];
      points.append(drawn("path", {
        d: path, class: classes.filter(Boolean).join(" "), "data-i": mark.i,
        transform: `translate(${mark.px.toFixed(1)} ${mark.py.toFixed(1)}) scale(${scale.toFixed(2)})`,
      }));
      if (mark.row && mark.row.i === this.chosen) {
        layers.push(drawn("circle", { class: "chosen-point", cx: mark.px, cy: mark.py, r: 10 }));
      }
    }
    this.svg.replaceChildren(...layers, points, ...this.roofLabels);
  }

  *axes(width, height, inner, px, py, [x0, x1], [y0, y1], onRail) {
    const every = Math.ceil((x1 - x0) * 46 / (inner.right - inner.left));
    for (let power = Math.ceil(x0); power <= x1; power++) {
      const x = px(10 ** power);
      if (power % every) continue;
      yield drawn("line", { class: "grid", x1: x, x2: x, y1: inner.top, y2: inner.bottom });
      yield drawn("text", { x, y: inner.bottom + 17, "text-anchor": "middle" }, power < -2 || power > 4 ? `1e${power}` : String(Number((10 ** power).toPrecision(1))));
    }
    for (let power = Math.ceil(y0); power <= y1; power++) {
      const y = py(10 ** power);
      yield drawn("line", { class: "grid", x1: inner.left, x2: inner.right, y1: y, y2: y });
      yield drawn("text", { x: 72, y: y + 4, "text-anchor": "end" }, engineering(10 ** power, ""));
    }
    const middle = (inner.top + inner.bottom) / 2;
    yield drawn("text", { x: (inner.left + inner.right) / 2, y: height - 6, "text-anchor": "middle" }, "arithmetic intensity: FLOPs per byte");
    yield drawn("text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, this.data.isPrediction ? "FLOP/s at the bound" : "FLOP/s reached");
    if (onRail("left")) {
      yield* this.rail(84, inner.top, 84, inner.bottom, 78, inner.bottom + 17, "no FLOPs", "end");
      const hbm = this.data.profile ? this.data.profile.hbm : {};
      const bandwidthY = this.bandwidthScale(inner, y1 - y0);
      for (const [ceiling, classes] of [[hbm.theoretical, "roof theory"], [hbm.effective, "roof"]]) {
        if (ceiling) yield drawn("path", { class: classes, d: `M76,${bandwidthY(ceiling)}h16` });
      }
    }
    if (onRail("right")) yield* this.rail(width - 28, inner.top, width - 28, inner.bottom, width - 28, inner.bottom + 17, "0 bytes");
    if (onRail("bottom")) yield* this.rail(inner.left, height - 32, inner.right, height - 32, 76, height - 28, "no rate", "end");
  }

  // Rows without FLOPs have their bytes per second on a rail of its own, the ceiling near its top.
  bandwidthScale(inner, decades) {
    const rates = this.marks.filter((mark) => mark.place.rail === "left").map((mark) => mark.place.y);
    const top = Math.log10(rates.reduce((most, rate) => Math.max(most, rate), this.data.profile ? this.data.profile.hbm.theoretical : 1));
    return (rate) => Math.min(inner.top + 8 + (top - Math.log10(rate)) / decades * (inner.bottom - inner.top), inner.bottom);
  }

  *rail(x1, y1, x2, y2, x, y, text, anchor) {
    yield drawn("line", { class: "rail", x1, y1, x2, y2 });
    yield drawn("text", { x, y, "text-anchor": anchor || "middle" }, text);
  }

  *ceilings(inner, px, py, [x0, x1], [y0, y1]) {
    this.roofLabels = [];
    const profile = this.data.profile;
    if (!profile) return;
    const slope = (bandwidth, peak, classes) => {
      const ridge = peak === null ? 10 ** x1 : Math.min(peak / bandwidth, 10 ** x1);
      return drawn("path", { class: classes, "clip-path": "url(#inside)", d: `M${px(10 ** x0)},${py(10 ** x0 * bandwidth)}L${px(ridge)},${py(ridge * bandwidth)}` });
    };
    const roofs = this.roofs();
    const highest = (kind) => roofs.length ? Math.max(...roofs.map((roof) => roof[kind] || roof.theoretical)) : null;
    const { theoretical, effective } = profile.hbm;
    yield slope(theoretical, highest("theoretical"), "roof theory");
    if (effective) yield slope(effective, highest("effective"), "roof");
    const heights = [];
    for (const roof of roofs.sort((a, b) => a.theoretical - b.theoretical)) {
      for (const [peak, bandwidth, classes] of [[roof.theoretical, theoretical, "roof theory"], [roof.effective, effective, "roof"]]) {
        if (!peak || !bandwidth) continue;
        yield drawn("path", { class: classes, "clip-path": "url(#inside)", d: `M${px(peak / bandwidth)},${py(peak)}L${inner.right},${py(peak)}` });
      }
      const peak = roof.effective || roof.theoretical, ridge = peak / (effective || theoretical);
      const y = py(peak), x = px(ridge);
      if (x > inner.left && x < inner.right && y > inner.top && y < inner.bottom) {
        const title = drawn("title", {}, `ridge point of ${roof.key}: ${fixed(ridge, 1)} FLOPs per byte`);
        yield drawn("circle", { class: "ridge", cx: x, cy: y, r: 4.5 }, title);
      }
      let above = py(roof.theoretical) - 6;
      while (heights.some((other) => Math.abs(other - above) < 13)) above -= 13;
      heights.push(above);
      const measured = roof.effective ? `${engineering(roof.effective, "FLOP/s")}, ridge ${fixed(ridge, 1)}` : "not calibrated";
      this.roofLabels.push(drawn("text", { class: "label", x: inner.right - 4, y: above, "text-anchor": "end" }, inner.right - inner.left < 420 ? roof.key : `${roof.key}  ${measured}`));
    }
    const bandwidth = effective || theoretical;
    const at = Math.max(10 ** (x0 + (x1 - x0) * 0.04), 10 ** (y0 + (y1 - y0) * 0.06) / bandwidth);
    const angle = Math.atan2(py(at * 10 * bandwidth) - py(at * bandwidth), px(at * 10) - px(at)) * 180 / Math.PI;
    this.roofLabels.push(drawn("text", { class: "label", transform: `translate(${px(at)} ${py(at * theoretical) - 9}) rotate(${angle})` }, `HBM ${engineering(bandwidth, "B/s")}`));
  }

  nearest(event) {
    const box = this.svg.getBoundingClientRect();
    const scale = this.svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = null, least = 14 * 14;
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
