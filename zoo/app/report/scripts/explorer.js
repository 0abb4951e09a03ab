// @ts-check
// The explorer: one state, in the page's address; what changes in it decides what is shown anew.
import { byId, Tasks } from "./dom.js";
import { read } from "./data.js";
import { offerDownloads } from "./downloads.js";
import { datasets, draw, drawAll, onChange, specs } from "./drawing.js";
import { prepareEnsemble, showEnsemble } from "./ensembleview.js";
import { showErrors } from "./errorsview.js";
import { prepareExamples, showExample, showExamples } from "./examplesview.js";
import { prepareFound, showFound } from "./foundview.js";
import { bestModel } from "./greedy.js";
import { fieldsOf, visible } from "./groups.js";
import { prepareModels, showModels } from "./modelsview.js";
import { preparePair, showPair } from "./pairview.js";
import { fromHash, toHash } from "./state.js";
import { offerFilter, offerSorting } from "./tables.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./data.js").Data} Data
 */

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
      hidden: {},
      examples: { label: null, outcome: "any", least: 0, most: names.length, half: "all", sort: "disagreement", descending: true, words: "" },
      open: null,
    };
    this.known = { models: names, ids, fields: this.colours, initial };
    this.state = fromHash(location.hash, this.known);
    this.shown = visible(about.models, this.state.hidden);
    this.chosen = about.chosen; // among the models shown
    this.given = JSON.parse(byId("specs").textContent ?? "{}");
    this.filtered = false; // whether some models were hidden when the errors were last shown
  }

  /** The two models side by side: those asked for or, where one of them is hidden, the best pair of those shown. */
  get pair() {
    const { pair } = this.state;
    return pair.every((model) => this.shown.includes(model)) ? pair : this.chosen.pair ?? pair;
  }

  /** The members of the ensemble, without hidden ones. */
  get members() {
    return this.state.members.filter((model) => this.shown.includes(model));
  }

  /**
   * Show something else, as a new entry of the browser's history; `section` is brought into view.
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

  /** The address has changed: the back button, or another one was typed. */
  async follow() {
    if (location.hash && !location.hash.includes("=")) return; // a place on the page
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
      this.chosen = this.shown.length === models.length ? chosen : { best: bestModel(this.data, this.shown), pair: null, path: [], size: 0, front: [] };
    }
    if (changed("members", "hidden", "colour")) showModels(this);
    const work = [];
    if (changed("members", "hidden")) work.push(showEnsemble(this));
    if (changed("examples", "hidden", "pair", "open")) showExamples(this);
    if (changed("open", "hidden")) showExample(this);
    if (changed("pair", "on", "hidden")) work.push(showPair(this));
    if (changed("hidden", "colour")) work.push(showErrors(this));
    if (changed("hidden")) work.push(this.showOthers(), showFound(this));
    await Promise.all(work);
  }

  /** The charts that were made with the report: rows that name a hidden model are left out, and the path is another one. */
  async showOthers() {
    const { names } = this.data;
    const gone = new Set(names.filter((_, model) => !this.shown.includes(model)));
    const keep = (/** @type {any} */ row) => !["model", "first", "second", "name"].some((key) => gone.has(row[key]));
    for (const [id, given] of Object.entries(this.given)) {
      if (id === "path" && gone.size) continue;
      const spec = structuredClone(given);
      if (gone.size) for (const rows of datasets(spec)) rows.splice(0, rows.length, ...rows.filter(keep));
      await draw(id, spec);
    }
  }
}

/** Links to a place on the page leave the address as it is. */
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
Object.assign(globalThis, { explorer, charts: specs }); // for whoever opens the browser's console
offerDownloads();
offerSorting();
offerFilter();
keepAddress();
prepareModels(explorer);
preparePair(explorer);
prepareEnsemble(explorer);
prepareExamples(explorer);
prepareFound();
addEventListener("popstate", () => explorer.follow());
onChange(drawAll);
const shown = explorer.show(null);
document.body.dataset.ready = "yes"; // everything can be read and clicked; charts follow one after the other
document.body.dataset.took = String(performance.now());
await shown;
document.body.dataset.complete = String(performance.now());
