// @ts-check
// The section on errors: the matrix of pairs, their gains and categories, of the models that are shown.
import { element } from "./dom.js";
import { draw } from "./drawing.js";
import { byCategory, gains, heatmap } from "./figures.js";
import { inUnit, whole } from "./format.js";
import { pairValue, valuesOf } from "./groups.js";
import { inconsistencies, regression } from "./pairs.js";

/** @typedef {import("./explorer.js").Explorer} Explorer */

/**
 * The means of the measures by category, over the pairs of models that are shown.
 * @param {Explorer} app
 */
function showCategories({ data, shown }) {
  const body = document.querySelector("#by-category tbody");
  const { categories, measures, pairs } = data.about;
  const kept = pairs.first.map((_, i) => i).filter((i) => shown.includes(pairs.first[i]) && shown.includes(pairs.second[i]));
  const averaged = measures.filter(({ name }) => name in pairs);
  const rows = categories.flatMap((category) => {
    const own = kept.filter((i) => pairs.category[i] === category);
    if (!own.length) return [];
    const means = averaged.map(({ name, unit }) => {
      const values = own.map((i) => pairs[name][i]).filter((value) => value !== null);
      const mean = values.reduce((total, value) => total + value, 0) / values.length;
      return element("td", { class: "number", "data-value": mean }, inUnit(mean, unit));
    });
    return [element("tr", {}, element("th", { scope: "row" }, category), element("td", { class: "number", "data-value": own.length }, whole(own.length)), ...means)];
  });
  body?.replaceChildren(...rows);
}

/** @param {Explorer} app */
export async function showErrors(app) {
  if (app.shown.length < app.data.names.length || app.filtered) showCategories(app);
  app.filtered = app.shown.length < app.data.names.length;
  const { data, shown, state } = app;
  const { about, names } = data;
  const order = about.tree.order.filter((model) => shown.includes(model));
  const values = inconsistencies(data.answers, order);
  const cells = Array.from(values, (value, i) => ({
    first: names[order[Math.floor(i / order.length)]],
    second: names[order[i % order.length]],
    value: Math.round(value * 1e4) / 1e4,
  }));
  const { x, y, x2, y2 } = about.tree.segments;
  const tree = order.length === names.length ? x.map((_, i) => ({ x: x[i], y: y[i], x2: x2[i], y2: y2[i] })) : null;
  const drawn = [await draw("inconsistency", heatmap(cells, order.map((model) => names[model]), tree))];

  const dots = about.pairs.first
    .map((first, i) => ({ first, second: about.pairs.second[i], i }))
    .filter(({ first, second }) => shown.includes(first) && shown.includes(second))
    .map(({ first, second, i }) => ({
      first: names[first],
      second: names[second],
      category: about.pairs.category[i] ?? "unknown",
      group: state.colour === "category" ? about.pairs.category[i] ?? "unknown" : pairValue(about.models[first], about.models[second], state.colour),
      inconsistency: about.pairs.inconsistency[i],
      gain_over_mean: about.pairs.gain_over_mean?.[i] ?? NaN,
    }));
  const groups = state.colour === "category" ? [...about.categories, "unknown"] : valuesOf(about.models, state.colour);
  const line = regression(dots.map((dot) => dot.inconsistency), dots.map((dot) => dot.gain_over_mean));
  if (about.pairs.gain_over_mean && line) drawn.push(await draw("gain", gains(dots, groups, line)));
  drawn.push(await draw("categories", byCategory(dots.filter((dot) => dot.category !== "unknown"), about.categories, groups)));
  for (const view of drawn) {
    view?.addEventListener("click", (/** @type {Event} */ _event, /** @type {any} */ item) => {
      const [a, b] = [names.indexOf(item?.datum?.first), names.indexOf(item?.datum?.second)];
      if (a >= 0 && b >= 0 && a !== b) app.go({ pair: [a, b] }, "pair");
    });
  }
}
