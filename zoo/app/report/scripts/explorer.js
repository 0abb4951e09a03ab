// @ts-check
// The explorer: one state, stored in the page's address. Whatever changes in it decides which parts are shown again.
import { byId, Tasks } from "./dom.js";
import { read } from "./data.js";
import { offerDownloads } from "./downloads.js";
import { datasets, draw, drawAll, onChange, specs } from "./drawing.js";
import { prepareEnsemble, showEnsemble } from "./ensembleview.js";
import { prepareErrors, showErrors } from "./errorsview.js";
import { WRONG } from "./examples.js";
import { prepareExamples, showExample, showExamples } from "./examplesview.js";
import { prepareFound, showFound } from "./foundview.js";
import { bestModel } from "./greedy.js";
import { coloured, fieldsOf, visible } from "./groups.js";
import { prepareModels, showModels } from "./modelsview.js";
import { preparePair, showPair } from "./pairview.js";
import { fromHash, toHash } from "./state.js";
import { offerFilter, offerSorting } from "./tables.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./data.js").Data} Data
 */

const BY_MODEL = ["overview-chart", "map"]; // stored charts with a dot for each model, whose colour can be chosen

export class Explorer {
  /** @param {Data} data */
  constructor(data) {
    const { about, names, ids } = data;
    this.data = data;
    this.tasks = new Tasks();
    this.fields = fieldsOf(about.models);
    const categorised = about.pairs.category.some((category) => category !== null);
    this.colours = [...(categorised || !this.fields.length ? ["category"] : []), ...this.fields];
    /** @type {State} */
    const initial = {
      pair: /** @type {[number, number]} */ (about.chosen.pair),
      on: "test",
      members: [...new Set(about.chosen.path.slice(0, about.chosen.size))].sort((a, b) => a - b),
      colour: this.colours[0],
      matrix: "inconsistency",
      hidden: {},
      examples: { label: null, outcome: "any", least: 0, most: names.length, half: "all", sort: "disagreement", descending: true, words: "", said: [] },
      open: null,
    };
    this.known = { models: names, ids, fields: this.colours, initial };
    this.state = fromHash(location.hash, this.known);
    this.shown = visible(about.models, this.state.hidden);
    this.chosen = about.chosen; // of the models shown
    this.given = JSON.parse(byId("specs").textContent ?? "{}");
    this.filtered = false; // whether some models were hidden when the errors were last shown
  }

  /** The two models that are compared; if one of them is hidden, the best pair of those shown. */
  get pair() {
    const { pair } = this.state;
    return pair.every((model) => this.shown.includes(model)) ? pair : this.chosen.pair ?? pair;
  }

  /** The members of the ensemble that are not hidden. */
  get members() {
    return this.state.members.filter((model) => this.shown.includes(model));
  }

  /**
   * Change the state, with a new entry in the browser's history, and scroll to a section.
   * @param {Partial<State>} change
   * @param {string} [section]
   */
  async go(change, section) {
    const before = this.state;
    this.state = { ...before, ...change };
    const hash = toHash(this.state, this.known);
    if (hash !== location.hash) history.pushState(null, "", hash);
    if (section) byId(section).scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    await this.show(before);
  }

  /** Follow a change of the address: the back button, or a new address. */
  async follow() {
    if (location.hash && !location.hash.includes("=")) return; // a link to a section
    const before = this.state;
    this.state = fromHash(location.hash, this.known);
    await this.show(before);
  }

  /** @param {State | null} before */
  async show(before) {
    const now = this.state;
    const changed = (/** @type {(keyof State)[]} */ ...keys) => !before || keys.some((key) => JSON.stringify(before[key]) !== JSON.stringify(now[key]));
    this.shown = visible(this.data.about.models, now.hidden);
    if (changed("hidden")) {
      const { chosen, models } = this.data.about;
      const front = chosen.front.filter((members) => members.every((model) => this.shown.includes(model))); // nothing shown is better
      this.chosen = this.shown.length === models.length ? chosen : { best: bestModel(this.data, this.shown), pair: null, path: [], size: 0, sufficient: 0, front };
    }
    if (changed("members", "hidden", "colour")) showModels(this);
    const work = [];
    if (changed("members", "hidden")) work.push(showEnsemble(this));
    if (changed("examples", "hidden", "pair", "open")) showExamples(this);
    if (changed("open", "hidden")) showExample(this);
    if (changed("pair", "on", "hidden")) work.push(showPair(this));
    if (changed("hidden", "colour", "matrix")) work.push(showErrors(this));
    if (changed("hidden", "colour")) work.push(this.showOthers());
    if (changed("hidden")) work.push(showFound(this));
    await Promise.all(work);
  }

  /**
   * Show the examples behind a number or a cell, those on which the models disagree most first.
   * @param {Partial<import("./examples.js").Choice>} choice
   */
  openExamples(choice) {
    this.go({ examples: { ...this.known.initial.examples, ...choice } }, "examples");
  }

  /**
   * Show a model's errors on a class.
   * @param {{label: number, model: string} | undefined} cell
   */
  openClass(cell) {
    if (cell !== undefined && Number.isInteger(cell.label)) this.openExamples({ label: cell.label, said: [[this.data.names.indexOf(cell.model), WRONG]] });
  }

  /** The charts that are stored in the page, without rows that name a hidden model. The path is computed again. */
  async showOthers() {
    const { names, short, about } = this.data;
    const { colour } = this.state;
    const colours = colour === "category" ? null : coloured(about.models, colour);
    const gone = new Set([...names, ...short].filter((_, i) => !this.shown.includes(i % names.length)));
    const keep = (/** @type {any} */ row) =>
      !["name", "model", "first", "second"].some((key) => gone.has(row[key])) && !row.members?.some?.((/** @type {string} */ name) => gone.has(name));
    for (const [id, given] of Object.entries(this.given)) {
      if (id === "flips-chart" || (id === "path" && gone.size)) continue; // drawn by `showPair` and `showFound`
      const spec = structuredClone(given);
      if (gone.size) for (const rows of datasets(spec)) rows.splice(0, rows.length, ...rows.filter(keep));
      if (colours && BY_MODEL.includes(id)) recolour(spec, colour, colours.scale, (name) => colours.groups[names.indexOf(name)]);
      const view = await draw(id, spec);
      if (id === "class-accuracy") view?.addEventListener("click", (/** @type {Event} */ _event, /** @type {any} */ item) => this.openClass(item?.datum));
    }
  }
}

/**
 * Colour the dots of a stored chart by another field of the models.
 * @param {any} spec
 * @param {string} title
 * @param {{domain: string[], range: string[]}} scale
 * @param {(name: string) => string | undefined} groupOf
 */
function recolour(spec, title, scale, groupOf) {
  for (const row of datasets(spec).flat()) row.group = groupOf(row.name) ?? row.group;
  for (const { encoding } of [spec, ...(spec.layer ?? [])]) if (encoding?.color?.field === "group") Object.assign(encoding.color, { title, scale });
}

/** Let links to sections scroll without changing the address. */
function keepAddress() {
  document.addEventListener("click", (event) => {
    const link = /** @type {HTMLElement} */ (event.target).closest('a[href^="#"]');
    const target = link && document.getElementById(link.getAttribute("href")?.slice(1) ?? "");
    if (!target) return;
    event.preventDefault();
    target.scrollIntoView();
    target.setAttribute("tabindex", "-1");
    target.focus({ preventScroll: true });
  });
}

const explorer = new Explorer(await read());
Object.assign(globalThis, { explorer, charts: specs }); // for the browser's console
offerDownloads();
offerSorting();
offerFilter();
keepAddress();
prepareModels(explorer);
prepareErrors(explorer);
preparePair(explorer);
prepareEnsemble(explorer);
prepareExamples(explorer);
prepareFound();
addEventListener("popstate", () => explorer.follow());
onChange(drawAll);
const shown = explorer.show(null);
document.body.dataset.ready = "yes"; // text and controls are ready; charts follow one by one
document.body.dataset.took = String(performance.now());
await shown;
document.body.dataset.complete = String(performance.now());
