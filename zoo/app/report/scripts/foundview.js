// @ts-check
// What the page says first and singles out: as the report found it of all models, or anew of those that are shown.
import { compare } from "./comparison.js";
import { categoryOf, exactRight } from "./data.js";
import { byId, element, table } from "./dom.js";
import { datasets, draw } from "./drawing.js";
import { showStarts } from "./ensembleview.js";
import { showExample, showExamples } from "./examplesview.js";
import { ofBest, ofLine, ofPair, ofPath, ofTransfer } from "./findings.js";
import { percent, whole } from "./format.js";
import { front } from "./front.js";
import { greedy } from "./greedy.js";
import { bestPair, gainLine, pairRows } from "./pairs.js";
import { showPair, showPopulation } from "./pairview.js";
import { percentileInterval, resampledMeans } from "./statistics.js";

/**
 * @typedef {import("./explorer.js").Explorer} Explorer
 * @typedef {import("./findings.js").Finding} Finding
 * @typedef {import("./greedy.js").Path} Path
 */

// Of the sections that are not computed here, these are of models that were chosen; calibration only where there are many.
const STANDING = ["serving", "candidates", "calibration", "unlabelled", "labels", "together"];

/** @type {Map<string, {place: HTMLElement, given: Node[], warning: boolean}>} the findings by the section they come from */
const findings = new Map();
/** @type {{steps: HTMLElement | null, title: string}} */
const given = { steps: null, title: "" };

/** Remember what came with the page. */
export function prepareFound() {
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".findings li"))) {
    findings.set(place.dataset.section ?? "", { place, given: [...place.childNodes], warning: place.classList.contains("warning") });
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
 * Everything anew, what takes longest last.
 * @param {Explorer} app
 * @param {Explorer["chosen"]} chosen
 * @param {() => Promise<boolean>} goOn
 * @returns {Promise<boolean>} whether it was wanted to the end
 */
async function find(app, chosen, goOn) {
  const { data, shown } = app;
  const { about, rows } = data;
  for (const section of ["errors", "pair", "ensemble"]) say(section, { number: "…", sentence: "is being found of the models shown." });
  say("models", ofBest(data, chosen.best, shown.length));
  sayTransfer(app);

  const path = await greedy(data, shown, goOn);
  if (!path) return false;
  [chosen.path, chosen.size] = [path.members, path.size];
  showSteps(app, path);
  showStarts(app);
  await draw("path", pathSpec(app, path));

  const looked = app.pair;
  chosen.pair = await bestPair(data, shown, chosen.best, goOn);
  const pairs = await pairRows(data, shown, chosen.best, goOn);
  if (!pairs || !(await goOn())) return false;
  if (chosen.pair) {
    const [a, b] = chosen.pair;
    say("pair", ofPair(data, chosen.pair, compare(data.answers, data.store, a, b, rows.test, about.measures, about.seed, exactRight(data, a, b))));
  } else say("pair", null);
  say("errors", ofLine(data, gainLine(pairs), pairs.length));
  showStarts(app);
  if (app.pair === looked) showPopulation(app);
  else {
    showExamples(app);
    showExample(app);
    await showPair(app);
  }

  const means = await resampledMeans([path.gained], about.search.seed, goOn);
  if (!means) return false;
  say("ensemble", ofPath(data, path, percentileInterval(means[0])));

  if (!about.chosen.front.length) return true;
  const found = await front(data, shown, goOn);
  if (!found) return false;
  chosen.front = found;
  showStarts(app);
  return true;
}

/**
 * A finding anew; one that the models shown do not have is left out.
 * @param {string} section
 * @param {Finding | null} finding
 */
function say(section, finding) {
  const place = findings.get(section)?.place;
  if (!place) return;
  place.hidden = !finding;
  place.classList.toggle("warning", finding?.warning ?? false);
  if (finding) place.replaceChildren(element("strong", {}, finding.number), ` ${finding.sentence}`);
}

/**
 * A finding as it came, marked where it is of more models than are shown.
 * @param {string} section
 * @param {number | null} models
 */
function sayAsGiven(section, models) {
  const finding = findings.get(section);
  if (!finding) return;
  finding.place.hidden = false;
  finding.place.classList.toggle("warning", finding.warning);
  finding.place.replaceChildren(...finding.given, ...(models === null ? [] : [element("span", { class: "soft" }, ` (of all ${whole(models)} models)`)]));
}

/** @param {Explorer} app */
function sayTransfer({ data, shown, given: specs }) {
  const finding = findings.get("transfer");
  if (!finding || !specs.separation) return;
  const names = new Set(shown.map((model) => data.names[model]));
  say("transfer", ofTransfer((finding.given.at(-1)?.textContent ?? "").trim(), datasets(specs.separation)[0].filter((row) => names.has(row.model))));
}

/**
 * @param {Explorer} app
 * @param {Path} path
 */
function showSteps({ data }, path) {
  const categories = path.members.map((model, i) => (i ? categoryOf(data, path.members[0], model) : null));
  const known = categories.some((category) => category !== null);
  const columns = [
    { title: "model" }, { title: "step", number: true }, ...(known ? [{ title: "category" }] : []),
    { title: "selection", number: true }, { title: "test", number: true }, { title: "in the best" },
  ];
  /** @type {(string | [string, number])[][]} */
  const rows = path.members.map((model, i) => [
    data.names[model], [String(i + 1), i + 1], ...(known ? [categories[i] ?? ""] : []),
    [percent(path.selection[i]), path.selection[i]], [percent(path.test[i]), path.test[i]], i < path.size ? "yes" : "",
  ]);
  byId("steps").replaceWith(table("steps", columns, rows));
  const { kind, top } = data.about.kept;
  if (kind !== "top") return;
  byId("steps").parentElement?.after(element("p", { class: "soft mark" },
    `Found in the page from each model's top ${top} classes and the true one: with all ${whole(data.about.classes.length)} classes some `
    + `picks may be others, and on ${percent(path.close)} of the test examples another class could win.`));
}

/**
 * The report's chart of the path, with another path in it.
 * @param {Explorer} app
 * @param {Path} path
 */
function pathSpec({ data, given: specs }, path) {
  const spec = structuredClone(specs.path);
  const points = /** @type {["test", "selection"]} */ (["test", "selection"]).flatMap((split) => path.members.map((model, i) => ({
    start: data.names[path.members[0]],
    members: i + 1,
    model: data.names[model],
    category: i ? categoryOf(data, path.members[0], model) ?? "added" : "start",
    best: i + 1 === path.size,
    split,
    score: path[split][i],
  })));
  for (const rows of datasets(spec)) rows.splice(0, rows.length, ...points);
  return spec;
}

/**
 * Tables that came with the page and have one row per model: those of hidden models are left out.
 * @param {Explorer} app
 */
function showTables({ data, shown }) {
  const gone = new Set(data.names.filter((_, model) => !shown.includes(model)));
  for (const own of /** @type {NodeListOf<HTMLTableElement>} */ (document.querySelectorAll("main table.sortable:not(#model-table, #steps)"))) {
    if (own.tHead?.rows[0].cells[0].textContent !== "model") continue;
    for (const row of own.tBodies[0].rows) row.classList.toggle("out", gone.has(row.cells[0].textContent ?? ""));
  }
}

/**
 * Sentences that speak of all models say so while some are hidden.
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
