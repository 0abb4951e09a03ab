// @ts-check
// The findings and choices of the report: as stored for all models, or computed again for those that are shown.
import { compare } from "./comparison.js";
import { categoryOf, categoryTitle, exactRight } from "./data.js";
import { byId, element, table } from "./dom.js";
import { datasets, draw } from "./drawing.js";
import { showStarts } from "./ensembleview.js";
import { showExample, showExamples } from "./examplesview.js";
import { ofBest, ofLine, ofPair, ofPath, ofTransfer, smallestSufficient } from "./findings.js";
import { interval, percent, points, whole } from "./format.js";
import { categoryScale } from "./figures.js";
import { greedy } from "./greedy.js";
import { bestPair, gainLine, pairRows } from "./pairs.js";
import { showPair, showPopulation } from "./pairview.js";
import { percentileInterval, resampledMeans } from "./statistics.js";

/**
 * @typedef {import("./explorer.js").Explorer} Explorer
 * @typedef {import("./findings.js").Finding} Finding
 * @typedef {import("./greedy.js").Path} Path
 */

// Sections about chosen models that are not computed again; calibration only if not all models are drawn.
const STANDING = ["serving", "candidates", "calibration", "unlabelled", "labels", "together"];

/** @type {Map<string, {place: HTMLElement, number: string, sentence: string, warning: boolean}>} the stored findings by section */
const findings = new Map();
/** @type {{steps: HTMLElement | null, title: string}} */
const given = { steps: null, title: "" };

/** Remember what is stored in the page. */
export function prepareFound() {
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".findings li"))) {
    const text = (/** @type {string} */ part) => place.querySelector(part)?.textContent ?? "";
    findings.set(place.dataset.section ?? "", { place, number: text("strong"), sentence: text(".sentence"), warning: place.classList.contains("warning") });
  }
  given.steps = byId("steps");
  given.title = document.querySelector("h1")?.textContent ?? "";
}

/** @param {Explorer} app */
export async function showFound(app) {
  const { data, shown, chosen } = app;
  const goOn = app.tasks.begin("found");
  const all = shown.length === data.names.length;
  delete document.body.dataset.found;
  showTables(app);
  showMarks(data.names.length, all ? null : shown.length);
  for (const section of findings.keys()) sayAsGiven(section, all ? null : data.names.length);
  showStarts(app);
  showPopulation(app);
  if (all) byId("steps").replaceWith(/** @type {HTMLElement} */ (given.steps));
  else if (!(await find(app, chosen, goOn))) return;
  document.body.dataset.found = shown.join(",");
}

/**
 * Compute everything again; what takes longest comes last.
 * @param {Explorer} app
 * @param {Explorer["chosen"]} chosen
 * @param {() => Promise<boolean>} goOn
 * @returns {Promise<boolean>} whether the result is still needed
 */
async function find(app, chosen, goOn) {
  const { data, shown } = app;
  const { about, rows } = data;
  for (const section of ["errors", "pair", "ensemble"]) say(section, { number: "…", sentence: "Computing for the models shown." });
  say("overview", ofBest(data, chosen.best, shown.length));
  sayTransfer(app);

  const path = await greedy(data, shown, goOn);
  if (!path) return false;
  [chosen.path, chosen.size, chosen.sufficient] = [path.members, path.size, smallestSufficient(path).size];
  showSteps(app, path, null);
  showStarts(app);
  await draw("path", pathSpec(app, path));

  const comparedBefore = app.pair;
  chosen.pair = await bestPair(data, shown, chosen.best, goOn);
  const pairs = await pairRows(data, shown, chosen.best, goOn);
  if (!pairs || !(await goOn())) return false;
  if (chosen.pair) {
    const [a, b] = chosen.pair;
    say("pair", ofPair(data, chosen.pair, compare(data.answers, data.store, a, b, rows.test, about.measures, about.seed, exactRight(data, a, b))));
  } else say("pair", null);
  const base = shown.length > about.allPairs ? chosen.best : null;
  say("errors", ofLine(data, base, gainLine(data, pairs), gainLine(data, pairs, "gain_over_best")));
  showStarts(app);
  if (app.pair === comparedBefore) showPopulation(app);
  else {
    showExamples(app);
    showExample(app);
    await showPair(app);
  }

  const gained = path.correct.map((correct) => Int8Array.from(correct, (value, i) => value - path.correct[0][i]));
  const means = await resampledMeans(gained, about.search.seed, goOn);
  if (!means) return false;
  const intervals = means.map((one) => percentileInterval(one));
  showSteps(app, path, intervals);
  say("ensemble", ofPath(data, path, intervals[path.size - 1]));
  return true;
}

/**
 * Show a finding on the models shown; one that they do not have is hidden.
 * @param {string} section
 * @param {Finding | null} finding
 */
function say(section, finding) {
  const place = findings.get(section)?.place;
  if (!place) return;
  place.hidden = !finding;
  place.classList.toggle("warning", finding?.warning ?? false);
  if (!finding) return;
  /** @type {HTMLElement} */ (place.querySelector("strong")).textContent = finding.number;
  /** @type {HTMLElement} */ (place.querySelector(".sentence")).replaceChildren(...unbroken(finding.sentence));
}

/**
 * A sentence whose intervals, and numbers with what they count, stay on one line.
 * @param {string} text
 */
const unbroken = (text) => text.split(new RegExp(byId("unbroken").textContent ?? "")).map((part, i) => (i % 2 ? element("span", { class: "whole" }, part) : part));

/**
 * Show a finding as stored, with a note if it is about more models than are shown.
 * @param {string} section
 * @param {number | null} models
 */
function sayAsGiven(section, models) {
  const finding = findings.get(section);
  if (!finding) return;
  const note = models === null ? "" : ` (of all ${whole(models)} models)`;
  say(section, { ...finding, sentence: finding.sentence + note });
}

/** @param {Explorer} app */
function sayTransfer({ data, shown, given: specs }) {
  const finding = findings.get("transfer");
  if (!finding || !specs.separation) return;
  const names = new Set(shown.map((model) => data.names[model]));
  say("transfer", ofTransfer(finding.sentence, datasets(specs.separation)[0].filter((row) => names.has(row.model))));
}

/**
 * @param {Explorer} app
 * @param {Path} path
 * @param {[number, number][] | null} intervals of the gains, once they are computed
 */
function showSteps({ data }, path, intervals) {
  const categories = path.members.map((model, i) => (i ? categoryOf(data, path.members[0], model) : null));
  const known = categories.some((category) => category !== null);
  const columns = [
    { title: "model" }, { title: "step", number: true }, ...(known ? [{ title: "differs in" }] : []), { title: "selection", number: true },
    { title: "test", number: true }, { title: "gain, points", number: true }, { title: "95% CI", number: true }, { title: "in the best ensemble" },
  ];
  /** @type {(string | [string, number])[][]} */
  const rows = path.members.map((model, i) => [
    data.short[model], [String(i + 1), i + 1], ...(known ? [categories[i] ? categoryTitle(data, categories[i]) : ""] : []),
    [percent(path.selection[i]), path.selection[i]], [percent(path.test[i]), path.test[i]], i ? [points(path.test[i] - path.test[0]), path.test[i] - path.test[0]] : "",
    !i ? "" : intervals ? [interval(intervals[i]), intervals[i][0]] : "…", i < path.size ? "yes" : "",
  ]);
  byId("steps").replaceWith(table("steps", columns, rows));
  for (const note of document.querySelectorAll("#ensemble .mark")) note.remove();
  const { kind, top } = data.about.kept;
  if (kind !== "top") return;
  byId("steps").parentElement?.after(element("p", { class: "soft mark" },
    `Computed from each model's top ${top} classes and the true one. With all ${whole(data.about.classes.length)} classes some picks could `
    + `differ, and the prediction could differ for ${percent(path.close)} of the test examples.`));
}

/**
 * The stored chart of the path, with the data of another path.
 * @param {Explorer} app
 * @param {Path} path
 */
function pathSpec({ data, given: specs }, path) {
  const spec = structuredClone(specs.path);
  const points = /** @type {["test", "selection"]} */ (["test", "selection"]).flatMap((split) => path.members.map((model, i) => ({
    start: data.names[path.members[0]],
    members: i + 1,
    model: data.names[model],
    category: i ? categoryTitle(data, categoryOf(data, path.members[0], model)) : "start",
    best: i + 1 === path.size,
    split,
    score: path[split][i],
  })));
  for (const rows of datasets(spec)) rows.splice(0, rows.length, ...points);
  const scale = categoryScale(data.about, points.map(({ category }) => category));
  for (const { encoding } of spec.layer) if (encoding.color) encoding.color.scale = scale;
  return spec;
}

/**
 * In stored tables with one row per model, hide the rows of hidden models.
 * @param {Explorer} app
 */
function showTables({ data, shown }) {
  const gone = new Set(data.names.filter((_, model) => !shown.includes(model)));
  for (const stored of /** @type {NodeListOf<HTMLTableElement>} */ (document.querySelectorAll("main table.sortable:not(#model-table, #steps)"))) {
    if (stored.tHead?.rows[0].cells[0].textContent !== "model") continue;
    for (const row of stored.tBodies[0].rows) row.classList.toggle("out", gone.has(row.cells[0].dataset.name ?? ""));
  }
}

/**
 * While models are hidden, mark sentences that are about all models.
 * @param {number} models
 * @param {number | null} shown
 */
function showMarks(models, shown) {
  for (const mark of document.querySelectorAll("main .mark")) mark.remove();
  const title = document.querySelector("h1");
  if (title) title.textContent = shown === null ? given.title : given.title.replace(/^\d+/, `${shown} of ${models}`);
  if (shown === null) return;
  for (const lead of document.querySelectorAll(STANDING.map((section) => `#${section} > p:not(.population)`).join(", "))) {
    if (!lead.closest("#calibration") || / are drawn\.$/.test(lead.textContent ?? "")) {
      lead.append(element("span", { class: "soft mark" }, ` (of all ${whole(models)} models)`));
    }
  }
}
