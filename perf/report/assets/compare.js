// The comparison's page: a table that sorts and filters; chips hide and show verdicts.

const data = readData();

function change(ratio) {
  if (ratio === null) return "";
  return (ratio >= 1 ? "+" : "") + fixed((ratio - 1) * 100, 1) + "%";
}

const columns = [
  { title: "op", value: (row) => row.op },
  { title: "case", value: (row) => row.case_id },
  { title: "implementation", value: (row) => row.implementation, wide: true },
  { title: "base µs", value: (row) => row.base_time_s, number: true, wide: true },
  { title: "new µs", value: (row) => row.new_time_s, number: true },
  { title: "change", value: (row) => row.ratio, number: true },
  { title: "verdict", value: (row) => row.verdict },
];

function cellOf(column, row) {
  const value = column.value(row);
  if (column.title === "change") return element("td", { class: "n" }, change(value));
  if (column.number) return element("td", { class: classOf(column) }, microseconds(value));
  if (column.title !== "verdict") return element("td", { class: column.wide ? "wide" : "name" }, ...breakable(value));
  const said = value.replace("_", " ");
  const verdict = element("span", { class: `verdict r-${value}` }, glyph(data.shapes, value), " ", said);
  const notes = [row.price && `price: ${row.price}`, row.reason].filter(Boolean);
  return element("td", {}, verdict, ...notes.map((note) => element("div", { class: "note" }, note)));
}

function tableRow(row) {
  return element("tr", { "data-i": row.i }, ...columns.map((column) => cellOf(column, row)));
}

const state = { text: "" };

// A row shows where its verdict is pressed, or its changed price is.
function passes(row) {
  const chip = (name) => document.querySelector(`.chip[data-verdict="${name}"]`);
  const pressed = (name) => chip(name).getAttribute("aria-pressed") === "true";
  return (pressed(row.verdict) || (row.price !== "" && pressed("price_changed")))
    && (!state.text || state.text.split(/\s+/).every((word) => row.searched.includes(word)));
}

function update() {
  const rows = data.rows.filter(passes);
  table.show(rows);
  byId("count").textContent = `${fixed(rows.length, 0)} of ${fixed(data.total, 0)} rows`;
}

for (const row of data.rows) {
  row.searched = [row.op, row.family, row.case_id, row.implementation, row.reason, row.price].join(" ").toLowerCase();
}
const table = new SortedTable(byId("rows"), columns, tableRow, []);
byId("search").addEventListener("input", (event) => {
  state.text = event.target.value.trim().toLowerCase();
  update();
});
for (const chip of document.querySelectorAll(".chip")) {
  chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
    update();
  });
}
startTheme();
update();
document.documentElement.dataset.ready = "yes";
