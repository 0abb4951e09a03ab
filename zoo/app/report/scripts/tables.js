// @ts-check
// Tables: a header's button sorts by its column, numbers by the number in data-value; empty cells go last.

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
      if (x === "" || y === "") return Number(x === "") - Number(y === "");
      const order = header.classList.contains("number") ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
      return ascending ? order : -order;
    };
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  });
}

export function offerFilter() {
  document.getElementById("filter")?.addEventListener("input", filterModels);
}

/** The rows of the table of models that have all words of the filter; those of hidden models are not counted. */
export function filterModels() {
  const input = /** @type {HTMLInputElement} */ (document.getElementById("filter"));
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#model-table tbody tr"))) {
    const text = (row.textContent ?? "").toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += Number(!row.hidden && !row.classList.contains("out"));
  }
  /** @type {HTMLElement} */ (document.getElementById("shown")).textContent = `${shown} shown`;
}
