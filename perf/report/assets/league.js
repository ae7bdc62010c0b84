// The page of libraries: a table of rows that sorts and filters.

const data = readData();

const columns = [
  { title: "op", value: (row) => row.op },
  { title: "case", value: (row) => row.case_id },
  { title: "our default", value: (row) => row.default_name, wide: true },
  { title: "default µs", value: (row) => row.default_time_s, number: true },
  ...data.libraries.map((library, place) => ({
    title: library, value: (row) => row.entrants[place][1], words: (row) => row.entrants[place][0], number: true,
  })),
  { title: "fastest", value: (row) => row.fastest },
];

function cellOf(column, row) {
  if (column.words) return element("td", { class: "n" }, column.words(row));
  if (column.number) return element("td", { class: "n" }, microseconds(column.value(row)));
  const notes = column.title === "fastest" && row.note ? [element("div", { class: "note" }, row.note)] : [];
  return element("td", { class: column.wide ? "wide" : "name" }, ...breakable(column.value(row)), ...notes);
}

function update() {
  const wanted = byId("search").value.trim().toLowerCase().split(/\s+/);
  const rows = data.rows.filter((row) => wanted.every((word) => row.searched.includes(word)));
  table.show(rows);
  byId("count").textContent = `${fixed(rows.length, 0)} of ${fixed(data.rows.length, 0)} rows`;
}

for (const row of data.rows) {
  row.searched = [row.op, row.case_id, row.default_name, row.fastest, row.note].join(" ").toLowerCase();
}
const table = new SortedTable(
  byId("rows"), columns, (row) => element("tr", { "data-i": row.i }, ...columns.map((column) => cellOf(column, row))), []);
byId("search").addEventListener("input", update);
startTheme();
update();
document.documentElement.dataset.ready = "yes";
