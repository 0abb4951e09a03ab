// @ts-check
// The table of models: which are shown, their colour, and which are members of the ensemble.
import { byId, element, fill, options } from "./dom.js";
import { coloured, valueOf, valuesOf } from "./groups.js";
import { filterModels } from "./tables.js";

/** @typedef {import("./explorer.js").Explorer} Explorer */

/** @param {Explorer} app */
export function prepareModels(app) {
  const { data, fields } = app;
  const rows = /** @type {NodeListOf<HTMLTableRowElement>} */ (document.querySelectorAll("#model-table tbody tr"));
  const head = /** @type {HTMLTableRowElement} */ (document.querySelector("#model-table thead tr"));
  head.append(element("th", { scope: "col", class: "tick" }, "in the ensemble"));
  rows.forEach((row, i) => {
    const model = data.about.table[i];
    row.dataset.model = String(model);
    row.cells[0].prepend(element("span", { class: "swatch", "aria-hidden": "true" }));
    const tick = element("input", { type: "checkbox", "aria-label": `${data.names[model]} in the ensemble` });
    tick.addEventListener("change", () => {
      const { members } = app.state;
      app.go({ members: members.includes(model) ? members.filter((other) => other !== model) : [...members, model].sort((a, b) => a - b) });
    });
    row.append(element("td", { class: "tick" }, tick));
  });
  options("colour", app.colours.map((field) => [field, field === "category" ? "difference in training" : field]), app.state.colour);
  if (!fields.length) /** @type {HTMLElement} */ (byId("colour").parentElement).hidden = true; // the cards do not differ
  byId("colour").addEventListener("change", (event) => app.go({ colour: /** @type {HTMLSelectElement} */ (event.target).value }));
  options("field", [...fields, "model"].map((field) => [field, field]), fields[0] ?? "model");
  byId("field").addEventListener("change", () => showValues(app));
  byId("show-all").addEventListener("click", () => app.go({ hidden: {} }));
}

/** @param {Explorer} app */
export function showModels(app) {
  const { data, shown, state } = app;
  const { models } = data.about;
  const field = state.colour === "category" ? null : state.colour;
  const found = field ? coloured(models, field) : null;
  for (const row of /** @type {NodeListOf<HTMLTableRowElement>} */ (document.querySelectorAll("#model-table tbody tr"))) {
    const model = Number(row.dataset.model);
    row.classList.toggle("out", !shown.includes(model));
    const tick = /** @type {HTMLInputElement} */ (row.querySelector(".tick input"));
    tick.checked = state.members.includes(model);
    const swatch = /** @type {HTMLElement} */ (row.querySelector(".swatch"));
    swatch.hidden = !found;
    if (found) swatch.style.background = found.scale.range[found.scale.domain.indexOf(found.groups[model])];
  }
  /** @type {HTMLSelectElement} */ (byId("colour")).value = state.colour;
  fill("visible", shown.length === models.length ? `all ${models.length} models shown` : `${shown.length} of ${models.length} models shown`);
  byId("show-all").hidden = shown.length === models.length;
  filterModels();
  showValues(app);
}

/**
 * A checkbox for each value of the field that models are filtered by. Existing ones are updated, so that they keep the focus.
 * @param {Explorer} app
 */
function showValues(app) {
  const { models } = app.data.about;
  const group = byId("values");
  const field = /** @type {HTMLSelectElement} */ (byId("field")).value;
  const hidden = () => app.state.hidden[field] ?? [];
  if (group.dataset.field !== field) {
    group.dataset.field = field;
    fill("values", ...valuesOf(models, field).map((value) => {
      const box = element("input", { type: "checkbox", value });
      box.addEventListener("change", () => {
        const values = /** @type {HTMLInputElement} */ (box).checked ? hidden().filter((other) => other !== value) : [...hidden(), value];
        app.go({ hidden: { ...app.state.hidden, [field]: values } });
      });
      const count = models.filter((model) => valueOf(model, field) === value).length;
      return element("label", {}, box, field === "model" ? value : `${value} (${count})`);
    }));
  }
  for (const box of group.querySelectorAll("input")) box.checked = !hidden().includes(box.value);
}
