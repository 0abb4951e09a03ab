// @ts-check
// The section on errors: the matrix of pairs, their gains and their training categories, for the models that are shown.
import { categoryTitle } from "./data.js";
import { byId, element, options } from "./dom.js";
import { draw } from "./drawing.js";
import { byCategory, categoryScale, gains, heatmap } from "./figures.js";
import { inUnit, percent, whole } from "./format.js";
import { limited, pairValue } from "./groups.js";
import { comparable, gainLine, matrixOf, pairRows } from "./pairs.js";

/**
 * @typedef {import("./explorer.js").Explorer} Explorer
 * @typedef {import("./data.js").PairRow} PairRow
 */

/** @param {Explorer} app */
export function prepareErrors(app) {
  byId("matrix-measure").addEventListener("change", (event) => app.go({ matrix: /** @type {HTMLSelectElement} */ (event.target).value }));
}

/**
 * Means of the measures by category, over the pairs of models that are shown.
 * @param {Explorer} app
 * @param {PairRow[]} pairs
 */
function showCategories({ data }, pairs) {
  const body = document.querySelector("#by-category tbody");
  const { categories, measures } = data.about;
  const averaged = measures.filter(({ name }) => name in data.about.pairs);
  const rows = categories.flatMap((category) => {
    const members = pairs.filter((pair) => pair.category === category);
    if (!members.length) return [];
    const models = new Set(members.flatMap(({ first, second }) => [first, second]));
    const counts = [members.length, models.size].map((n) => element("td", { class: "number", "data-value": n }, whole(n)));
    const means = averaged.flatMap(({ name, unit }) => {
      const mean = average(members.map((pair) => pair.values[name] ?? NaN));
      const cells = [element("td", { class: "number", "data-value": mean }, inUnit(mean, unit))];
      if (name !== "inconsistency") return cells;
      const error = jackknifeError(members, models);
      return [...cells, element("td", { class: "number", "data-value": error }, percent(error))];
    });
    return [element("tr", {}, element("th", { scope: "row" }, categoryTitle(data, category)), ...counts, ...means)];
  });
  body?.replaceChildren(...rows);
}

/** @param {number[]} values */
function average(values) {
  const known = values.filter((value) => !Number.isNaN(value));
  return known.reduce((total, value) => total + value, 0) / known.length;
}

/**
 * Standard error of the mean error inconsistency, by leaving out each model in turn, as `diversity.by_category` does.
 * @param {PairRow[]} pairs
 * @param {Set<number>} models
 */
function jackknifeError(pairs, models) {
  const means = Array.from(models, (model) =>
    average(pairs.filter(({ first, second }) => first !== model && second !== model).map((pair) => Number(pair.values.inconsistency))),
  ).filter((mean) => !Number.isNaN(mean));
  const centre = average(means);
  const squares = means.reduce((total, mean) => total + (mean - centre) ** 2, 0);
  return means.length > 1 ? Math.sqrt(((means.length - 1) / means.length) * squares) : NaN;
}

/** @param {Explorer} app */
export async function showErrors(app) {
  const { data, shown, state } = app;
  const { about, names } = data;
  const goOn = app.tasks.begin("errors");
  const drawn = [await draw("inconsistency", matrixSpec(app))];

  const pairs = await pairRows(data, shown, app.chosen.best, goOn);
  if (!pairs || !(await goOn())) return; // the selection of models has changed
  if (shown.length < names.length || app.filtered) showCategories(app, pairs);
  app.filtered = shown.length < names.length;
  const byField = state.colour !== "category";
  const used = comparable(data, pairs);
  const groups = byField
    ? limited(pairs.map(({ first, second }) => pairValue(about.models[first], about.models[second], state.colour)))
    : pairs.map(({ category }) => categoryTitle(data, category));
  const dots = pairs.map(({ first, second, category, values }, i) => ({
    first: names[first],
    second: names[second],
    category: categoryTitle(data, category),
    group: groups[i],
    inconsistency: Number(values.inconsistency),
    gain_over_mean: values.gain_over_mean ?? NaN,
    comparable: used[i],
  }));
  const colours = byField ? null : categoryScale(about, groups);
  const line = gainLine(data, pairs);
  if (present("gain", line !== null) && line) drawn.push(await draw("gain", gains(dots, colours, line)));
  const known = dots.filter((dot) => dot.category !== categoryTitle(data, null));
  const titles = about.categories.map((category) => categoryTitle(data, category));
  if (present("categories", known.length > 0)) drawn.push(await draw("categories", byCategory(known, titles, colours)));
  for (const view of drawn) {
    view?.addEventListener("click", (/** @type {Event} */ _event, /** @type {any} */ item) => {
      const [a, b] = [names.indexOf(item?.datum?.first), names.indexOf(item?.datum?.second)];
      if (a >= 0 && b >= 0 && a !== b) app.go({ pair: [a, b], examples: { ...app.known.initial.examples, outcome: "apart" } }, "pair");
    });
  }
}

/**
 * The heatmap of the chosen measure, with the tree if all models are shown.
 * @param {Explorer} app
 */
function matrixSpec({ data, shown, state }) {
  const { about, names } = data;
  const offered = about.measures.filter(({ name }) => about.matrix.includes(name));
  options("matrix-measure", offered.map(({ name, title }) => [name, title]), state.matrix);
  const measure = /** @type {import("./measures.js").Measure} */ (offered.find(({ name }) => name === state.matrix) ?? offered[0]);
  const embedded = measure.name === "cka"; // the embeddings of some models only may be stored
  const order = about.tree.order.filter((model) => shown.includes(model) && (!embedded || about.cka[model][model] !== null));
  const values = embedded
    ? order.flatMap((a) => order.map((b) => about.cka[a][b] ?? NaN))
    : matrixOf(data.answers, order, data.rows.all, measure.name);
  const cells = Array.from(values, (value, i) => ({
    first: names[order[Math.floor(i / order.length)]],
    second: names[order[i % order.length]],
    value: Number.isNaN(value) ? null : Math.round(value * 1e4) / 1e4,
  }));
  const { x, y, x2, y2 } = about.tree.segments;
  const tree = order.length === names.length ? x.map((_, i) => ({ x: x[i], y: y[i], x2: x2[i], y2: y2[i] })) : null;
  return heatmap(cells, order.map((model) => names[model]), tree, measure);
}

/**
 * Hide a figure that has nothing to show.
 * @param {string} id
 * @param {boolean} something
 */
function present(id, something) {
  const figure = document.getElementById(id);
  if (figure) figure.hidden = !something;
  return something;
}
