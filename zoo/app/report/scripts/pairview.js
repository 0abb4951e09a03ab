// @ts-check
// Two models side by side, whichever they are.
import { angleByClass, angles } from "./figures.js";
import { byClass, classHistogram, compare, histogram, meanIntervals } from "./comparison.js";
import { exactRight } from "./data.js";
import { byId, element, fill, options, table } from "./dom.js";
import { draw } from "./drawing.js";
import { digits, inUnit, percent, whole } from "./format.js";
import { captioned } from "./images.js";

const OWNED = 10; // classes at each end of the ranking, where there are many
const IMAGES = 6; // of each model's

/**
 * @typedef {import("./explorer.js").Explorer} Explorer
 * @typedef {import("./comparison.js").Comparison} Comparison
 */

/** @param {Explorer} app */
export function preparePair(app) {
  const model = (/** @type {string} */ id) => Number(/** @type {HTMLSelectElement} */ (byId(id)).value);
  const choose = (/** @type {Event} */ event) => {
    let [a, b] = [model("pair-first"), model("pair-second")];
    const [first, second] = app.pair;
    if (a === b) [a, b] = /** @type {HTMLElement} */ (event.target).id === "pair-first" ? [a, first] : [second, b];
    app.go({ pair: [a, b] });
  };
  byId("pair-first").addEventListener("change", choose);
  byId("pair-second").addEventListener("change", choose);
  byId("pair-swap").addEventListener("click", () => app.go({ pair: [app.pair[1], app.pair[0]] }));
  byId("pair-on").addEventListener("change", (event) => app.go({ on: /** @type {HTMLSelectElement} */ (event.target).value }));
}

/** @param {Explorer} app */
export async function showPair(app) {
  const { data, state, shown } = app;
  const { about, names } = data;
  const [a, b] = app.pair;
  const [first, second] = [names[a], names[b]];
  const offered = (/** @type {number} */ own) =>
    /** @type {[number, string][]} */ (about.table.filter((model) => shown.includes(model) || model === own).map((model) => [model, names[model]]));
  options("pair-first", offered(a), a);
  options("pair-second", offered(b), b);
  options("pair-on", Object.entries(data.rows).map(([on, rows]) => [on, `${on} (${whole(rows.length)})`]), state.on);
  const rows = data.rows[state.on];
  const exact = state.on === "test" ? exactRight(data, a, b) : null;
  const pair = compare(data.answers, data.store, a, b, rows, about.measures, about.seed, exact);
  pair.values.cka = state.on === "test" ? about.cka[a]?.[b] ?? null : null;
  fill("pair-title", `Side by side: ${first} and ${second}`);
  showPopulation(app);
  fill("pair-outcomes", outcomes(pair, first, second));
  showMeasures(app, pair, first, second);
  fill("pair-owned", owned(app, pair, first, second));
  fill("pair-images", ...extremes(app, pair));
  const figures = pair.theta
    ? Promise.all([
        draw("theta", angles(histogram(pair), first, second, pair.band ?? [])),
        draw("classes", angleByClass(classHistogram(pair, data.answers), about.classes, first)),
      ])
    : null;
  await figures;
  finish(app, pair, [a, b], `${a},${b},${state.on}`); // the page is ready before
}

/**
 * The intervals that take longest.
 * @param {Explorer} app
 * @param {Comparison} pair
 * @param {[number, number]} models
 * @param {string} name
 */
async function finish(app, pair, models, name) {
  const { data } = app;
  const [first, second] = models.map((model) => data.names[model]);
  const ends = await meanIntervals(pair, data.answers.classes, data.about.seed, app.tasks.begin("pair"));
  if (!ends) return; // another pair is looked at by now
  pair.ends = { ...pair.ends, ...ends };
  showMeasures(app, pair, first, second);
  byId("pair").dataset.complete = name;
}

/**
 * Which examples the two are compared on, and what these have chosen.
 * @param {Explorer} app
 */
export function showPopulation(app) {
  fill("pair-population", population(app, app.data.rows[app.state.on].length));
}

/**
 * @param {Explorer} app
 * @param {number} examples
 */
function population({ chosen: found, pair, state }, examples) {
  const chosen = found.pair?.every((model) => pair.includes(model));
  const how = {
    test: chosen ? "; the others chose the pair" : ", which chose nothing",
    selection: chosen ? ", which chose this pair: its ensemble looks better here than it is" : "",
    all: "",
  }[state.on];
  return `On ${whole(examples)} ${state.on === "all" ? "examples" : `${state.on} examples`}${how}.`;
}

/**
 * @param {Comparison} pair
 * @param {string} first
 * @param {string} second
 */
function outcomes({ cells, values }, first, second) {
  const n = Number(values.examples);
  const cell = (/** @type {number} */ count, /** @type {string} */ note = "") =>
    element("td", { class: "number" }, `${whole(count)} (${percent(count / n)})`, note && element("div", { class: "soft" }, note));
  const wrong = cells[3] + cells[4];
  return element("table", { id: "outcomes" },
    element("thead", {}, element("tr", {}, element("td"), element("th", { scope: "col", class: "number" }, `${second} right`), element("th", { scope: "col", class: "number" }, `${second} wrong`))),
    element("tbody", {},
      element("tr", {}, element("th", { scope: "row" }, `${first} right`), cell(cells[0]), cell(cells[1])),
      element("tr", {}, element("th", { scope: "row" }, `${first} wrong`), cell(cells[2]), cell(wrong, `${whole(cells[3])} with the same class`))));
}

/**
 * @param {Explorer} app
 * @param {Comparison} pair
 * @param {string} first
 * @param {string} second
 */
function showMeasures({ data }, pair, first, second) {
  const rows = [];
  let section = "";
  for (const { name, title, section: own, unit, interval } of data.about.measures) {
    const value = pair.values[name];
    if (value === null || value === undefined) continue;
    if (own !== section) rows.push(element("tr", { class: "part" }, element("th", { colspan: 3, scope: "colgroup" }, (section = own))));
    const ends = pair.ends[name];
    const waiting = interval && !ends;
    const said = title.replace(/\bfirst\b/, first).replace(/\bsecond\b/, second);
    rows.push(element("tr", { "data-measure": name },
      element("th", { scope: "row" }, said),
      element("td", { class: "number" }, inUnit(value, unit)),
      element("td", { class: "number soft" }, waiting ? "…" : ends ? ends.map((end) => inUnit(end, unit)).join(" to ") : "")));
  }
  const head = element("thead", {}, element("tr", {}, ...["measure", "value", "95% interval"].map((title, i) =>
    element("th", { scope: "col", class: i ? "number" : null }, title))));
  fill("pair-measures", element("table", { id: "measures" }, head, element("tbody", {}, ...rows)));
  const { kind, top } = data.about.kept;
  const about = kind === "top" ? `CAPA is found from each model's top ${top} classes and the true one. ` : "";
  const left = pair.close ? `Of ${whole(pair.close)} examples the ensemble's class could be another one with exact probabilities, of which the page holds the top ${top}.` : "";
  fill("pair-close", about + left);
}

/**
 * @param {Explorer} app
 * @param {Comparison} pair
 * @param {string} first
 * @param {string} second
 */
function owned({ data }, pair, first, second) {
  const ranked = byClass(pair, data.answers);
  const kept = ranked.length <= 2 * OWNED ? ranked : [...ranked.slice(0, OWNED), ...ranked.slice(-OWNED)];
  const owner = { first, second, either: "" };
  return table("owned",
    [
      { title: "class" }, { title: "examples", number: true }, { title: `accuracy of ${first}`, number: true },
      { title: `accuracy of ${second}`, number: true }, { title: "advantage", number: true }, { title: "p (McNemar, Holm)", number: true }, { title: "owner" },
    ],
    kept.map((row) => [
      data.about.classes[row.class], [whole(row.count), row.count], [percent(row.first), row.first], [percent(row.second), row.second],
      [percent(row.advantage), row.advantage], [digits(row.p), row.p], owner[/** @type {keyof typeof owner} */ (row.owner)],
    ]));
}

/**
 * The examples that exactly one of the two gets right, and is surest of.
 * @param {Explorer} app
 * @param {Comparison} pair
 */
function extremes(app, { rows, outcome, theta }) {
  if (!theta) return [];
  const apart = Array.from(rows, (_, i) => i).filter((i) => outcome[i] === 1 || outcome[i] === 2).sort((i, j) => theta[j] - theta[i]);
  const found = new Set([...apart.slice(0, IMAGES), ...apart.slice(-IMAGES).reverse()]);
  return [...found].map((i) => captioned(app, rows[i], app.pair));
}
