// @ts-check
// The comparison of any two models.
import { angleByClass, angles } from "./figures.js";
import { byClass, classHistogram, compare, flips, histogram, meanIntervals } from "./comparison.js";
import { exactRight } from "./data.js";
import { byId, element, fill, options, table } from "./dom.js";
import { draw } from "./drawing.js";
import { WRONG } from "./examples.js";
import { digits, inUnit, interval, percent, points, whole } from "./format.js";
import { captioned } from "./images.js";

const OWNED = 10; // classes at each end of a long ranking
const FLIPS = 10; // rows of the table of disagreements
const IMAGES = 6; // per model

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
  const { about, short } = data;
  const [a, b] = app.pair;
  const [first, second] = [short[a], short[b]];
  const offered = (/** @type {number} */ chosen) =>
    /** @type {[number, string][]} */ (about.table.filter((model) => shown.includes(model) || model === chosen).map((model) => [model, short[model]]));
  options("pair-first", offered(a), a);
  options("pair-second", offered(b), b);
  options("pair-on", Object.entries(data.rows).map(([on, rows]) => [on, `${on} (${whole(rows.length)})`]), state.on);
  const rows = data.rows[state.on];
  const exact = state.on === "test" ? exactRight(data, a, b) : null;
  const pair = compare(data.answers, data.store, a, b, rows, about.measures, about.seed, exact);
  pair.values.cka = state.on === "test" ? about.cka[a]?.[b] ?? null : null;
  fill("pair-title", `Side by side: ${first} and ${second}`);
  showPopulation(app);
  fill("pair-outcomes", outcomes(app, pair, first, second));
  showMeasures(app, pair, first, second);
  fill("pair-owned", owned(app, pair, first, second));
  const changed = flips(pair, data.answers, a, b);
  fill("pair-flips", disagreements(app, changed, first, second));
  fill("pair-images", ...extremes(app, pair));
  const figures = [drawConfusion(app, changed, first, second)];
  if (pair.theta) {
    figures.push(draw("theta", angles(histogram(pair), first, second, pair.band ?? [])));
    figures.push(draw("classes", angleByClass(classHistogram(pair, data.answers), about.classes, first)));
  }
  const [flipsView, , classView] = await Promise.all(figures);
  const onCell = (/** @type {any} */ view, /** @type {(cell: any) => void} */ show) =>
    view?.addEventListener("click", (/** @type {Event} */ _event, /** @type {any} */ item) => item?.datum && show(item.datum));
  onCell(flipsView, ({ first: k, second: l }) => open(app, { said: [[a, k], [b, l]] }));
  onCell(classView, (cell) => {
    if (about.classes[cell.first] === cell.class) open(app, { label: cell.first, outcome: "apart" });
  });
  finish(app, pair, [a, b], `${a},${b},${state.on}`); // not awaited: the page is ready before
}

/**
 * Draw the stored chart of different predictions with the numbers of this pair.
 * @param {Explorer} app
 * @param {ReturnType<typeof flips>} changed
 * @param {string} first
 * @param {string} second
 */
async function drawConfusion({ data, given }, changed, first, second) {
  if (!given["flips-chart"]) return null; // there are too many classes
  const spec = structuredClone(given["flips-chart"]);
  const { classes } = data.about;
  const counts = new Map(changed.map((one) => [`${one.first},${one.second}`, one.count]));
  spec.data.values = classes.flatMap((a, first) =>
    classes.map((b, second) => ({ first, second, a, b, count: counts.get(`${first},${second}`) ?? 0 })).filter((cell) => cell.first !== cell.second));
  spec.encoding.x.title = `${second} predicts`;
  spec.encoding.y.title = `${first} predicts`;
  return draw("flips-chart", spec);
}

/**
 * Add the intervals that take longest.
 * @param {Explorer} app
 * @param {Comparison} pair
 * @param {[number, number]} models
 * @param {string} name
 */
async function finish(app, pair, models, name) {
  const { data } = app;
  const [first, second] = models.map((model) => data.short[model]);
  const ends = await meanIntervals(pair, data.answers.classes, data.about.seed, app.tasks.begin("pair"));
  if (!ends) return; // another pair is shown by now
  pair.ends = { ...pair.ends, ...ends };
  showMeasures(app, pair, first, second);
  byId("pair").dataset.complete = name;
}

/**
 * Say which examples the two are compared on, and whether the pair was chosen on them.
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
    test: chosen ? "; the pair was chosen on the other examples" : "",
    selection: chosen ? ". The pair was chosen on them, so its ensemble looks better here than it is" : "",
    all: "",
  }[state.on];
  return `On ${whole(examples)} ${state.on === "all" ? "examples" : `${state.on} examples`}${how}.`;
}

/**
 * Show some of the examples on which the two are compared.
 * @param {Explorer} app
 * @param {Partial<import("./examples.js").Choice>} choice
 */
const open = (app, choice) => app.openExamples({ half: app.state.on, ...choice });

/**
 * A number that opens the examples it counts.
 * @param {Explorer} app
 * @param {string} text
 * @param {Partial<import("./examples.js").Choice>} choice
 */
const link = (app, text, choice) => element("button", { type: "button", class: "link", title: "Show these examples", onclick: () => open(app, choice) }, text);

/**
 * @param {Explorer} app
 * @param {Comparison} pair
 * @param {string} first
 * @param {string} second
 */
function outcomes(app, { cells, values }, first, second) {
  const n = Number(values.examples);
  const cell = (/** @type {number} */ count, /** @type {string} */ outcome, /** @type {string} */ note = "") =>
    element("td", { class: "number" }, link(app, `${whole(count)} (${percent(count / n)})`, { outcome }), note && element("div", { class: "soft" }, note));
  const wrong = cells[3] + cells[4];
  return element("table", { id: "outcomes" },
    element("thead", {}, element("tr", {}, element("td"), element("th", { scope: "col", class: "number" }, `${second} correct`), element("th", { scope: "col", class: "number" }, `${second} wrong`))),
    element("tbody", {},
      element("tr", {}, element("th", { scope: "row" }, `${first} correct`), cell(cells[0], "both"), cell(cells[1], "only-a")),
      element("tr", {}, element("th", { scope: "row" }, `${first} wrong`), cell(cells[2], "only-b"), cell(wrong, "neither", `${whole(cells[3])} predict the same class`))));
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
  for (const { name, title, section: part, unit, interval: has } of data.about.measures) {
    const value = pair.values[name];
    if (value === null || value === undefined) continue;
    if (part !== section) rows.push(element("tr", { class: "part" }, element("th", { colspan: 3, scope: "colgroup" }, (section = part))));
    const ends = pair.ends[name];
    const waiting = has && !ends;
    const named = title.replace(/\b(the )?first\b/, first).replace(/\b(the )?second\b/, second);
    rows.push(element("tr", { "data-measure": name },
      element("th", { scope: "row" }, unit === "points" ? `${named}, points` : named),
      element("td", { class: "number" }, inUnit(value, unit)),
      element("td", { class: "number soft" }, waiting ? "…" : ends ? interval(ends, unit) : "")));
  }
  const head = element("thead", {}, element("tr", {}, ...["measure", "value", "95% CI"].map((title, i) =>
    element("th", { scope: "col", class: i ? "number" : null }, title))));
  fill("pair-measures", element("table", { id: "measures" }, head, element("tbody", {}, ...rows)));
  const { kind, top } = data.about.kept;
  const about = kind === "top" ? `CAPA is computed from each model's top ${top} classes and the true one. ` : "";
  const left = pair.close ? `For ${whole(pair.close)} examples the ensemble could predict another class with exact probabilities; the page holds those of the top ${top} classes.` : "";
  fill("pair-close", about + left);
}

/**
 * @param {Explorer} app
 * @param {Comparison} pair
 * @param {string} first
 * @param {string} second
 */
function owned(app, pair, first, second) {
  const { data } = app;
  const ranked = byClass(pair, data.answers);
  const kept = ranked.length <= 2 * OWNED ? ranked : [...ranked.slice(0, OWNED), ...ranked.slice(-OWNED)];
  const owner = { first, second, either: "" };
  return table("owned",
    [
      { title: "class" }, { title: "examples", number: true }, { title: `accuracy of ${first}`, number: true },
      { title: `accuracy of ${second}`, number: true }, { title: "advantage, points", number: true }, { title: "p (McNemar, Holm)", number: true }, { title: "better model" },
    ],
    kept.map((row) => [
      data.about.classes[row.class], [whole(row.count), row.count], [link(app, percent(row.first), { label: row.class, said: [[app.pair[0], WRONG]] }), row.first],
      [link(app, percent(row.second), { label: row.class, said: [[app.pair[1], WRONG]] }), row.second],
      [points(row.advantage), row.advantage], [digits(row.p), row.p], owner[/** @type {keyof typeof owner} */ (row.owner)],
    ]));
}

/**
 * The most frequent pairs of different predictions.
 * @param {Explorer} app
 * @param {ReturnType<typeof flips>} changed
 * @param {string} first
 * @param {string} second
 */
function disagreements(app, changed, first, second) {
  const { data, pair: [a, b] } = app;
  const name = (/** @type {number} */ k) => data.about.classes[k] ?? "no prediction";
  const rows = changed.slice(0, FLIPS);
  return table("flips",
    [
      { title: `${first} predicts` }, { title: `${second} predicts` }, { title: "examples", number: true },
      { title: `${first} correct`, number: true }, { title: `${second} correct`, number: true },
    ],
    rows.map(({ first: k, second: l, count, right }) => [name(k), name(l), [link(app, whole(count), { said: [[a, k], [b, l]] }), count], ...right.map((one) => /** @type {[string, number]} */ ([whole(one), one]))]));
}

/**
 * The examples that exactly one of the two classifies correctly, with the largest differences in confidence.
 * @param {Explorer} app
 * @param {Comparison} pair
 */
function extremes(app, { rows, outcome, theta }) {
  if (!theta) return [];
  const apart = Array.from(rows, (_, i) => i).filter((i) => outcome[i] === 1 || outcome[i] === 2).sort((i, j) => theta[j] - theta[i]);
  const found = new Set([...apart.slice(0, IMAGES), ...apart.slice(-IMAGES).reverse()]);
  return [...found].map((i) => captioned(app, rows[i], app.pair));
}
