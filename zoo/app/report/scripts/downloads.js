// @ts-check
// Save figures as SVG, PNG or CSV, and tables as CSV, Markdown or LaTeX.
import { datasets, imageOf, specs } from "./drawing.js";

const TYPES = /** @type {Record<string, string>} */ ({ csv: "text/csv", md: "text/markdown", tex: "text/x-tex" });

/**
 * @param {string} name
 * @param {string} href
 */
const save = (name, href) => {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
  if (href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(href), 1000);
};

/**
 * @param {string} name
 * @param {string} kind
 * @param {string} text
 */
const saveText = (name, kind, text) => save(`${name}.${kind}`, URL.createObjectURL(new Blob([text], { type: TYPES[kind] })));

/**
 * Quote a value for CSV. A text that a spreadsheet would run as a formula gets an apostrophe; numbers may be negative.
 * @param {unknown} value
 */
export const quote = (value) => {
  const formula = typeof value === "string" && /^[=+\-@\t\r]/.test(value);
  const text = value === null || value === undefined ? "" : (formula ? "'" : "") + String(value);
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};

/** @param {unknown[][]} lines */
const toCsv = (lines) => lines.map((line) => line.map(quote).join(",")).join("\n") + "\n";

/**
 * The data of a chart: the largest of its datasets, because smaller ones hold rules and labels.
 * @param {any} spec
 */
export const csv = (spec) => {
  const rows = datasets(spec).sort((a, b) => b.length - a.length)[0] ?? [];
  const columns = [...new Set(rows.flatMap(Object.keys))];
  return toCsv([columns, ...rows.map((row) => columns.map((column) => row[column]))]);
};

/** @param {string} text */
export const forLatex = (text) => text.replace(/\\/g, "\\textbackslash ").replace(/[&%$#_{}]/g, "\\$&").replace(/~/g, "\\textasciitilde ").replace(/\^/g, "\\textasciicircum ");

/**
 * A table as a file.
 * @param {string[]} head
 * @param {string[][]} rows texts
 * @param {boolean[]} numeric which columns are numbers
 * @param {string} kind
 */
export function tableText(head, rows, numeric, kind) {
  if (kind === "csv") return toCsv([head, ...rows]);
  if (kind === "md") {
    const line = (/** @type {string[]} */ cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
    return [line(head), line(numeric.map((one) => (one ? "---:" : "---"))), ...rows.map(line)].join("\n") + "\n";
  }
  const line = (/** @type {string[]} */ cells) => `${cells.map(forLatex).join(" & ")} \\\\`;
  const columns = numeric.map((one) => (one ? "r" : "l")).join("");
  return [`\\begin{tabular}{${columns}}`, "\\toprule", line(head), "\\midrule", ...rows.map(line), "\\bottomrule", "\\end{tabular}"].join("\n") + "\n";
}

/**
 * The columns and rows of a table that are shown, with full model names.
 * @param {HTMLTableElement} table
 * @param {string} kind
 */
function fromPage(table, kind) {
  const header = /** @type {HTMLTableSectionElement} */ (table.tHead).rows[0];
  const columns = [...header.cells].map((_, i) => i).filter((i) => !header.cells[i].hidden && !header.cells[i].classList.contains("tick"));
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden && !row.classList.contains("out") && !row.classList.contains("part"));
  const text = (/** @type {HTMLTableCellElement | undefined} */ cell) => !cell ? "" : cell.dataset.name ?? (kind === "csv" && cell.dataset.value ? cell.dataset.value : (cell.textContent ?? "").trim());
  return tableText(
    columns.map((i) => text(header.cells[i])),
    rows.map((row) => columns.map((i) => text(row.cells[i]))),
    columns.map((i) => header.cells[i].classList.contains("number")),
    kind,
  );
}

export function offerDownloads() {
  document.addEventListener("click", async (event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest("button[data-save]");
    if (!(button instanceof HTMLElement)) return;
    const kind = button.dataset.save ?? "csv";
    const table = document.getElementById(button.dataset.table ?? "");
    const figure = button.closest("figure");
    if (table instanceof HTMLTableElement) saveText(table.id, kind, fromPage(table, kind));
    else if (figure && kind === "csv") saveText(figure.id, kind, csv(specs.get(figure.id)));
    else if (figure) save(`${figure.id}.${kind}`, await imageOf(figure.id, kind));
  });
}
