// @ts-check
// A figure as a file: SVG and PNG as it is drawn, CSV of its data.
import { datasets, specs, views } from "./drawing.js";

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
 * A text that a spreadsheet would run as a formula gets an apostrophe before it; numbers may begin with a minus.
 * @param {unknown} value
 */
export const quote = (value) => {
  const formula = typeof value === "string" && /^[=+\-@\t\r]/.test(value);
  const text = value === null || value === undefined ? "" : (formula ? "'" : "") + String(value);
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};

/**
 * A chart's data are the largest of its datasets; smaller ones hold rules and labels.
 * @param {any} spec
 */
export const csv = (spec) => {
  const rows = datasets(spec).sort((a, b) => b.length - a.length)[0] ?? [];
  const columns = [...new Set(rows.flatMap(Object.keys))];
  return [columns, ...rows.map((row) => columns.map((column) => row[column]))].map((line) => line.map(quote).join(",")).join("\n") + "\n";
};

export function offerDownloads() {
  document.addEventListener("click", async (event) => {
    const button = /** @type {HTMLElement} */ (event.target).closest("button[data-save]");
    const figure = button?.closest("figure");
    if (!(button instanceof HTMLElement) || !figure) return;
    const kind = button.dataset.save;
    if (kind === "csv") {
      save(figure.id + ".csv", URL.createObjectURL(new Blob([csv(specs.get(figure.id))], { type: "text/csv" })));
    } else {
      save(figure.id + "." + kind, await views.get(figure.id).toImageURL(kind, 2));
    }
  });
}
