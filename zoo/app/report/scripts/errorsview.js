// @ts-check
// The section on errors: the matrix of pairs, their gains and categories, of the models that are shown.
import { element } from "./dom.js";
import { draw } from "./drawing.js";
import { byCategory, gains, heatmap } from "./figures.js";
import { inUnit, whole } from "./format.js";
import { pairValue, valuesOf } from "./groups.js";
import { gainLine, inconsistencies, pairRows } from "./pairs.js";

/**
 * @typedef {import("./explorer.js").Explorer} Explorer
 * @typedef {import("./data.js").PairRow} PairRow
 */

/**
 * The means of the measures by category, over the pairs of models that are shown.
 * @param {Explorer} app
 * @param {PairRow[]} pairs
 */
function showCategories({ data }, pairs) {
  const body = document.querySelector("#by-category tbody");
  const { categories, measures } = data.about;
  const averaged = measures.filter(({ name }) => name in data.about.pairs);
  const rows = categories.flatMap((category) => {
    const own = pairs.filter((pair) => pair.category === category);
    if (!own.length) return [];
    const means = averaged.map(({ name, unit }) => {
      const values = own.map((pair) => pair.values[name] ?? NaN).filter((value) => !Number.isNaN(value));
      const mean = values.reduce((total, value) => total + value, 0) / values.length;
      return element("td", { class: "number", "data-value": mean }, inUnit(mean, unit));
    });
    return [element("tr", {}, element("th", { scope: "row" }, category), element("td", { class: "number", "data-value": own.length }, whole(own.length)), ...means)];
  });
  body?.replaceChildren(...rows);
}

/** @param {Explorer} app */
export async function showErrors(app) {
  const { data, shown, state } = app;
  const { about, names } = data;
  const { best } = app.chosen;
  const goOn = app.tasks.begin("errors");
  const order = about.tree.order.filter((model) => shown.includes(model));
  const values = inconsistencies(data.answers, order, data.rows.all);
  const cells = Array.from(values, (value, i) => ({
    first: names[order[Math.floor(i / order.length)]],
    second: names[order[i % order.length]],
    value: Math.round(value * 1e4) / 1e4,
  }));
  const { x, y, x2, y2 } = about.tree.segments;
  const tree = order.length === names.length ? x.map((_, i) => ({ x: x[i], y: y[i], x2: x2[i], y2: y2[i] })) : null;
  const drawn = [await draw("inconsistency", heatmap(cells, order.map((model) => names[model]), tree))];

  const pairs = await pairRows(data, shown, best, goOn);
  if (!pairs || !(await goOn())) return; // other models are shown by now
  if (shown.length < names.length || app.filtered) showCategories(app, pairs);
  app.filtered = shown.length < names.length;
  const dots = pairs.map(({ first, second, category, values }) => ({
    first: names[first],
    second: names[second],
    category: category ?? "unknown",
    group: state.colour === "category" ? category ?? "unknown" : pairValue(about.models[first], about.models[second], state.colour),
    inconsistency: Number(values.inconsistency),
    gain_over_mean: values.gain_over_mean ?? NaN,
  }));
  const groups = state.colour === "category" ? [...about.categories, "unknown"] : valuesOf(about.models, state.colour);
  const line = gainLine(pairs);
  if (present("gain", line !== null) && line) drawn.push(await draw("gain", gains(dots, groups, line)));
  const known = dots.filter((dot) => dot.category !== "unknown");
  if (present("categories", known.length > 0)) drawn.push(await draw("categories", byCategory(known, about.categories, groups)));
  for (const view of drawn) {
    view?.addEventListener("click", (/** @type {Event} */ _event, /** @type {any} */ item) => {
      const [a, b] = [names.indexOf(item?.datum?.first), names.indexOf(item?.datum?.second)];
      if (a >= 0 && b >= 0 && a !== b) app.go({ pair: [a, b] }, "pair");
    });
  }
}

/**
 * Whether a figure has something to show; else it is hidden, where there is one.
 * @param {string} id
 * @param {boolean} something
 */
function present(id, something) {
  const figure = document.getElementById(id);
  if (figure) figure.hidden = !something;
  return something;
}
