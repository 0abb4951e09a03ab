// @ts-check
// The static page: charts, downloads, sorting and filters. All text is in the page without this script.
import { drawAll, onChange, specs } from "./drawing.js";
import { offerDownloads } from "./downloads.js";
import { offerFilter, offerSorting } from "./tables.js";

const given = JSON.parse(/** @type {HTMLElement} */ (document.getElementById("specs")).textContent ?? "{}");
for (const [id, spec] of Object.entries(given)) specs.set(id, spec);
offerDownloads();
offerSorting();
offerFilter();
onChange(drawAll);
await drawAll();
document.body.dataset.complete = String(performance.now());
