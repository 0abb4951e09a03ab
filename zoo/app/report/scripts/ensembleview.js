// @ts-check
// Any ensemble: its members, its scores, and the commands that build it.
import { byId, element, fill, options } from "./dom.js";
import { contributions, corrected, pythonLine, score, shellLine } from "./ensemble.js";
import { amount, digits, interval, percent, points, whole } from "./format.js";

const MAX_CONTRIBUTIONS = 40; // members up to which each one's contribution is computed

/**
 * @typedef {import("./explorer.js").Explorer} Explorer
 * @typedef {import("./ensemble.js").Score} Score
 */

const sorted = (/** @type {number[]} */ members) => [...new Set(members)].sort((a, b) => a - b);

/**
 * The ensembles to start from: those found among the models shown, and the pair that is compared.
 * @param {Explorer} app
 * @returns {[string, number[]][]}
 */
function starts({ chosen, pair: compared, shown }) {
  const { best, pair, path, size, sufficient, front } = chosen;
  /** @type {[string, number[]][]} */
  const found = [
    ["best model", [best]],
    ["best pair", pair ?? []],
    ["this pair", compared],
    ["smallest sufficient ensemble", path.slice(0, sufficient)],
    ["greedy search", path.slice(0, size)],
    ["whole greedy path", path],
    ...front.map((members, i) => /** @type {[string, number[]]} */ ([`Pareto front ${i + 1} of ${front.length}`, members])),
    ["all shown", shown],
  ];
  return found.filter(([, members]) => members.length);
}

/**
 * Offer them again, after a search.
 * @param {Explorer} app
 */
export function showStarts(app) {
  options("ensemble-start", [["", "choose …"], ...starts(app).map(([title]) => /** @type {[string, string]} */ ([title, title]))], "");
}

/** @param {Explorer} app */
export function prepareEnsemble(app) {
  const select = /** @type {HTMLSelectElement} */ (byId("ensemble-start"));
  select.addEventListener("change", () => {
    const start = starts(app).find(([title]) => title === select.value);
    if (start) app.go({ members: sorted(start[1]) });
    select.value = "";
  });
  byId("ensemble-add").addEventListener("change", (event) => {
    const { value } = /** @type {HTMLSelectElement} */ (event.target);
    if (value !== "") app.go({ members: sorted([...app.state.members, Number(value)]) });
  });
  for (const id of ["shell", "python"]) {
    byId(`copy-${id}`).addEventListener("click", () => copy(byId(`ensemble-${id}`)));
  }
}

/**
 * Select a code, and copy it to the clipboard if the browser allows that.
 * @param {HTMLElement} code
 */
function copy(code) {
  getSelection()?.selectAllChildren(code);
  navigator.clipboard?.writeText(code.textContent ?? "").catch(() => {});
}

/** @param {Explorer} app */
export async function showEnsemble(app) {
  const { data, members, shown } = app;
  const { about, names, short, answers, store, rows } = data;
  const began = performance.now();
  options("ensemble-add", [["", "add a model …"], .../** @type {[number, string][]} */ (
    about.table.filter((model) => shown.includes(model) && !members.includes(model)).map((model) => [model, short[model]]))], "");
  byId("ensemble-numbers").hidden = !members.length;
  showMembers(app, null);
  if (!members.length) {
    fill("ensemble-close", "Tick models in the table above, or start from one of these.");
    fill("ensemble-summary", "ensemble: no members");
    return;
  }
  const combined = store.combine(members);
  const { exact, path } = about.chosen;
  const size = about.kept.kind === "top" && sorted(path.slice(0, members.length)).join() === members.join() ? members.length : 0;
  const [selection, test] = /** @type {["selection", "test"]} */ (["selection", "test"]).map((split) => {
    const found = score(answers, combined, members, rows[split], about.seed);
    return size && exact?.[split].length ? corrected(found, exact[split][size - 1], rows[split].length) : found;
  });
  fill("ensemble-scores", numbers(app, selection, test));
  fill("ensemble-close", bound(app, test));
  fill("ensemble-summary", `ensemble: ${members.length} model${members.length === 1 ? "" : "s"}, ${percent(test.accuracy)}`);
  const recipe = { data: about.data, imported: about.imported, votes: about.kept.kind === "votes" };
  fill("ensemble-shell", shellLine(members.map((model) => names[model]), recipe));
  fill("ensemble-python", pythonLine(members.map((model) => names[model]), recipe));
  const section = byId("any-ensemble");
  section.dataset.took = String(performance.now() - began);
  section.dataset.complete = members.join(",");
  if (members.length < 2 || members.length > MAX_CONTRIBUTIONS) return;
  const parts = await contributions(answers, store, members, rows.test, test.accuracy, app.tasks.begin("ensemble"));
  if (parts) showMembers(app, parts);
}

/**
 * @param {Explorer} app
 * @param {number[] | null} parts
 */
function showMembers(app, parts) {
  const { members } = app;
  const { short, names } = app.data;
  const items = members.map((model, i) =>
    element("li", { "data-model": model },
      element("span", { title: names[model] }, short[model]),
      element("span", { class: "soft number" }, parts ? `${points(parts[i])} points` : ""),
      element("button", {
        type: "button", "aria-label": `Remove ${names[model]}`, onclick: () => app.go({ members: app.state.members.filter((other) => other !== model) }),
      }, "×")));
  fill("ensemble-members", ...items);
}

/**
 * @param {Explorer} app
 * @param {Score} selection
 * @param {Score} test
 */
function numbers({ data, members }, selection, test) {
  const { rows, about } = data;
  /** @type {[string, string, (score: Score) => string][]} */
  const lines = [
    ["accuracy", "accuracy", (one) => percent(one.accuracy)],
    ["interval", "95% CI", (one) => interval(one.interval)],
    ["best", "best member alone", (one) => percent(one.best)],
    ["gain", "gain over the best member, points", (one) => points(one.gain)],
    ["gain-interval", "95% CI of the gain", (one) => interval(one.gainInterval)],
    ["gain-over-mean", "gain over the mean member, points", (one) => points(one.gainOverMean)],
    ["conversion", "correct where members disagree (conversion rate)", (one) => percent(one.conversion)],
  ];
  if (test.nll !== null) lines.push(["nll", "NLL", (one) => digits(Number(one.nll))], ["ece", "ECE", (one) => percent(Number(one.ece))]);
  const cost = (/** @type {"parameters" | "flops"} */ unit) =>
    members.reduce((/** @type {number | null} */ total, model) => (total === null || about.models[model][unit] === null ? null : total + Number(about.models[model][unit])), 0);
  const head = ["", `selection (${whole(rows.selection.length)})`, `test (${whole(rows.test.length)})`];
  const body = lines.map(([id, title, shown]) =>
    element("tr", { "data-score": id }, element("th", { scope: "row" }, title),
      ...[selection, test].map((one) => element("td", { class: "number" }, shown(one)))));
  for (const [unit, title] of /** @type {["parameters" | "flops", string][]} */ ([["parameters", "parameters"], ["flops", "FLOPs per image"]])) {
    const total = cost(unit);
    if (total) body.push(element("tr", { "data-score": unit }, element("th", { scope: "row" }, title), element("td", { class: "number", colspan: 2 }, amount(total))));
  }
  return element("table", { id: "scores" },
    element("thead", {}, element("tr", {}, ...head.map((title, i) => element("th", { scope: "col", class: i ? "number" : null }, title)))),
    element("tbody", {}, ...body));
}

/**
 * How far the numbers may be from those of exact probabilities.
 * @param {Explorer} app
 * @param {Score} test
 */
function bound({ data }, test) {
  const { kind, top } = data.about.kept;
  if (kind === "votes") return "Only predicted classes of these models are known: they vote.";
  if (kind === "all") return test.close ? `For ${percent(test.close, 2)} of the test examples two classes have nearly equal probabilities.` : "";
  if (!test.close) return "";
  return `Computed from each model's top ${top} classes and the true one, with the rest spread evenly. With all ${whole(data.about.classes.length)} classes `
    + `the prediction could differ for ${percent(test.close)} of the test examples, so the accuracy is correct within ${points(test.close)} points.`;
}
