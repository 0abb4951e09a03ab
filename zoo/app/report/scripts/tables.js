// @ts-check
// Tables: sort by a column, filter the rows of the model table, choose its columns, show its first rows only.

const FIRST_ROWS = 15; // of the model table

export function offerSorting() {
  document.addEventListener("click", (event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest("table.sortable thead button");
    const header = button?.closest("th");
    const table = header?.closest("table");
    if (!header || !table?.tHead) return;
    const column = header.cellIndex;
    const ascending = header.getAttribute("aria-sort") !== "ascending";
    const key = (/** @type {HTMLTableRowElement} */ row) => row.cells[column].dataset.value ?? row.cells[column].textContent ?? "";
    const compare = (/** @type {HTMLTableRowElement} */ a, /** @type {HTMLTableRowElement} */ b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return Number(x === "") - Number(y === ""); // empty cells are last
      const order = header.classList.contains("number") ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
      return ascending ? order : -order;
    };
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
    if (table.id === "model-table") filterModels();
  });
}

let allRows = false;

/** The filter, the choice of columns and the button for all rows of the model table. */
export function offerFilter() {
  document.getElementById("filter")?.addEventListener("input", filterModels);
  document.getElementById("columns")?.addEventListener("change", (event) => {
    const { value, checked } = /** @type {HTMLInputElement} */ (event.target);
    const table = /** @type {HTMLTableElement} */ (document.getElementById("model-table"));
    const head = /** @type {HTMLTableSectionElement} */ (table.tHead).rows[0];
    const column = [...head.cells].findIndex((cell) => cell.dataset.column === value);
    for (const row of table.rows) row.cells[column].hidden = !checked;
  });
  document.getElementById("all-rows")?.addEventListener("click", () => {
    allRows = true;
    filterModels();
  });
  addEventListener("beforeprint", () => {
    const button = document.getElementById("all-rows");
    if (!button || button.hidden) return;
    allRows = true;
    filterModels();
  });
  filterModels();
}

/** Show the rows of the model table that contain all words of the filter, at first only some. Hidden models do not count. */
export function filterModels() {
  const input = /** @type {HTMLInputElement | null} */ (document.getElementById("filter"));
  if (!input) return;
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let matches = 0;
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#model-table tbody tr"))) {
    const text = (row.textContent ?? "").toLowerCase();
    const match = !row.classList.contains("out") && words.every((word) => text.includes(word));
    matches += Number(match);
    row.hidden = !match || (!allRows && matches > FIRST_ROWS);
  }
  /** @type {HTMLElement} */ (document.getElementById("all-rows")).hidden = allRows || matches <= FIRST_ROWS;
  const limited = !allRows && matches > FIRST_ROWS ? `first ${FIRST_ROWS} of ` : "";
  /** @type {HTMLElement} */ (document.getElementById("shown")).textContent = `${limited}${matches} shown`;
}
