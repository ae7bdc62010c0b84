// The report's page: filters, table, details of a row; the plot and the table show the same rows.

const data = readData();

function kindOf(row) {
  return row.blank_reason === "no_time" && row.sol_time_s !== null && data.isPrediction ? "predicted" : row.verdict;
}

function verdictText(row) {
  const kind = kindOf(row);
  if (kind === "predicted") return kind;
  const label = row.latency_bound && kind !== "latency_bound" ? ", latency bound" : "";
  return kind.replace("_", " ") + (row.blank_reason ? `: ${row.blank_reason}` : "") + label;
}

function nameOf(row) { return [row.op, row.case_id, row.implementation].filter(Boolean).join(" · "); }

function listOf(pairs) {
  const list = element("dl");
  for (const [term, value] of pairs) {
    if (value !== "" && value !== null) list.append(element("dt", {}, term), element("dd", {}, value));
  }
  return list;
}

function timed(seconds) { return seconds === null ? "" : `${microseconds(seconds)} µs`; }

function rowFacts(row) {
  const intensity = row.arithmetic_intensity;
  const reached = [engineering(row.achieved_flops_per_s, "FLOP/s"), engineering(row.achieved_bytes_per_s, "B/s")];
  return [
    element("strong", {}, row.op),
    element("div", {}, [row.case_id, row.implementation].filter(Boolean).join(" · ")),
    listOf([
      ["verdict", verdictText(row)], ["efficiency", percent(row.efficiency)], ["time", timed(row.actual_time_s)],
      ["SOL time", timed(row.sol_time_s)], ["headroom", timed(row.headroom_s)], ["bound", row.bound || ""],
      ["intensity", intensity === null ? "" : `${Number(intensity.toPrecision(4))} FLOP/B`],
      ["reached", reached.filter(Boolean).join(", ")],
      ...Object.entries(row.data_terms).map(([term, value]) => [term, String(value)]),
      ["note", row.message],
    ]),
  ];
}

function cellFacts(cell) {
  const rows = `${fixed(cell.count, 0)} ${cell.count === 1 ? "row" : "rows"}`;
  return [
    element("strong", {}, `${rows}, ${cell.verdict.replace("_", " ")}`),
    listOf([
      ["for example", [cell.op, cell.case_id, cell.implementation].filter(Boolean).join(" · ")],
      ["efficiency", cell.least === null ? "" : `${percent(cell.least)} to ${percent(cell.most)}`],
      ["headroom", cell.headroom_s === null ? "" : `${timed(cell.headroom_s)} in all`],
    ]),
  ];
}

function details(row) {
  const close = element("button", { type: "button" }, "close");
  close.addEventListener("click", () => choose(null));
  const price = listOf([
    ["FLOPs", fixed(row.flops, 0)], ["bytes", fixed(row.bytes, 0)], ["roof key", row.roof_key || "none"],
    ["memory time", timed(row.memory_time_s)], ["compute time", timed(row.compute_time_s)],
    ["label", row.label], ["family", row.family], ["library", row.library || "none"],
  ]);
  const made = [
    element("div", { class: "controls" }, element("h3", {}, nameOf(row)), close),
    element("div", { class: "columns" }, element("div", {}, ...rowFacts(row).slice(2)), element("div", {}, price)),
  ];
  for (const [roof, implied, ceiling] of row.breaches) {
    const unit = roof === "hbm" ? "B/s" : "FLOP/s";
    const rates = [engineering(implied, unit), engineering(ceiling, unit)];
    const said = `implies ${rates[0]} of ${roof}, whose theoretical ceiling is ${rates[1]}`;
    made.push(element("p", { class: "warning" }, said));
  }
  if (row.history.length > 1) {
    const nameOfRun = ({ started_at: start, file }) => `${start.slice(0, 10) || "undated"} ${file}`;
    const runs = row.history.map(([run, time]) => [nameOfRun(data.runs[run]), timed(time)]);
    made.push(element("h4", {}, "over the runs, in µs"), courseOf(row.history, 420, 90, true), listOf(runs));
  }
  return made;
}

const hasCourses = data.rows.some((row) => row.history.length > 1);

// How much longer the last of a row's times is than the first.
function drift(row) {
  return row.history.length ? row.history[row.history.length - 1][1] / row.history[0][1] : null;
}

const columns = [
  { title: "op", value: (row) => row.op },
  { title: "case", value: (row) => row.case_id },
  { title: "implementation", value: (row) => row.implementation, wide: true },
  { title: "time µs", value: (row) => row.actual_time_s, number: true, measured: true, wide: true },
  { title: "SOL time µs", value: (row) => row.sol_time_s, number: true, wide: !data.isPrediction },
  { title: "headroom µs", value: (row) => row.headroom_s, number: true, measured: true },
  { title: "efficiency", value: (row) => row.efficiency, number: true, measured: true },
  { title: "bound", value: (row) => row.bound, wide: true },
  { title: "verdict", value: (row) => verdictText(row) },
  { title: "course", value: drift, number: true, measured: true, course: true },
].filter((column) => !(column.measured && data.isPrediction) && (!column.course || hasCourses));

function cellOf(column, row) {
  if (column.title === "op") {
    const button = element("button", { type: "button", class: "plain" }, ...breakable(row.op));
    return element("td", { class: "name" }, button);
  }
  if (column.title === "case") return element("td", { class: "name" }, ...breakable(row.case_id));
  if (column.title === "verdict") {
    const note = row.message ? element("div", { class: "note" }, row.message) : null;
    const kind = kindOf(row);
    const verdict = element("span", { class: `verdict v-${kind}` }, glyph(data.shapes, kind), " ", verdictText(row));
    return element("td", {}, verdict, note);
  }
  if (column.course) {
    return element("td", { class: "n" }, row.history.length > 1 ? courseOf(row.history, 80, 18, false) : "");
  }
  if (column.title === "efficiency" && row.efficiency !== null) {
    const bar = element("span", { class: `bar v-${kindOf(row)}`, "aria-hidden": "true" }, element("i"));
    bar.firstChild.style.width = `${Math.min(row.efficiency, 1) * 100}%`;
    return element("td", { class: "n" }, percent(row.efficiency), bar);
  }
  const value = column.value(row);
  return element("td", { class: classOf(column) }, column.number ? microseconds(value) : value || "");
}

function tableRow(row) {
  const made = element("tr", { "data-i": row.i, class: row.i === state.chosen ? "chosen" : null });
  made.append(...columns.map((column) => cellOf(column, row)));
  made.addEventListener("click", () => choose(row));
  return made;
}

function noFilters() {
  return { text: "", op: null, family: "", implementation: "", verdicts: new Set(Object.keys(data.shapes)) };
}

const state = { ...noFilters(), zoomed: false, chosen: null };

function passes(row) {
  return state.verdicts.has(kindOf(row))
    && (!state.op || row.op === state.op)
    && (!state.family || row.family === state.family)
    && (!state.implementation || row.implementation === state.implementation)
    && (!state.text || state.text.split(/\s+/).every((word) => row.searched.includes(word)));
}

// A cell holds rows of several ops and families: its verdict alone is that of them all.
function cellPasses(cell) { return state.verdicts.has(cell.verdict); }

function update() {
  const rows = data.rows.filter(passes);
  table.show(rows);
  plot.refresh((mark) => mark.cell ? cellPasses(mark.cell) : passes(mark.row), state.zoomed, state.chosen);
  byId("count").textContent = `${fixed(rows.length, 0)} of ${fixed(data.total, 0)} rows`;
  byId("op-filter").hidden = !state.op;
  byId("op-filter").textContent = state.op ? `only ${state.op} ✕` : "";
}

// Shows a row's details; null shows none.
function choose(row) {
  state.chosen = row ? row.i : null;
  const box = byId("details");
  box.hidden = !row;
  box.replaceChildren(...(row ? details(row) : []));
  for (const each of byId("rows").tBodies[0].rows) {
    each.classList.toggle("chosen", row !== null && each.dataset.i === String(row.i));
  }
  plot.refresh(plot.visible, state.zoomed, state.chosen);
}

function startControls() {
  const options = (id, field) => {
    const names = [...new Set(data.rows.map((row) => row[field]))].filter(Boolean).sort();
    byId(id).append(...names.map((name) => element("option", { value: name }, name)));
    byId(id).addEventListener("change", (event) => { state[field] = event.target.value; update(); });
    byId(id).hidden = names.length < 2;
  };
  options("family", "family");
  options("implementation", "implementation");
  byId("search").addEventListener("input", (event) => {
    state.text = event.target.value.trim().toLowerCase();
    update();
  });
  byId("zoom").addEventListener("change", (event) => { state.zoomed = event.target.checked; update(); });
  byId("op-filter").addEventListener("click", () => { state.op = null; update(); });
  byId("clear").addEventListener("click", () => {
    Object.assign(state, noFilters());
    for (const id of ["search", "family", "implementation"]) byId(id).value = "";
    for (const chip of document.querySelectorAll(".chip")) chip.setAttribute("aria-pressed", "true");
    choose(null);
    update();
  });
  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => {
      const verdict = chip.dataset.verdict;
      const on = !state.verdicts.delete(verdict);
      if (on) state.verdicts.add(verdict);
      chip.setAttribute("aria-pressed", String(on));
      update();
    });
  }
  for (const button of document.querySelectorAll("button[data-op]")) {
    button.addEventListener("click", () => {
      state.op = button.dataset.op;
      update();
      byId("plot").scrollIntoView({ block: "start" });
    });
  }
}

for (const row of data.rows) {
  const texts = [row.op, row.family, row.case_id, row.implementation, row.message, row.roof_key];
  row.searched = texts.join(" ").toLowerCase();
}
const plot = new Plot(byId("plot"), data, (mark) => {
  state.op = mark.cell ? mark.cell.op : mark.row.op;
  update();
  if (mark.row) choose(mark.row);
});
const table = new SortedTable(byId("rows"), columns, tableRow, data.rows);
startControls();
startTheme();
update();
document.documentElement.dataset.ready = "yes";
