// @ts-check
// The list of examples, filtered and sorted. Only its visible lines are in the page.
import { byId, element, fill, options } from "./dom.js";
import { choose, entropies, facts, OUTCOME_FILTERS, SORTS, WRONG } from "./examples.js";
import { LIMIT } from "./comparison.js";
import { percent, whole } from "./format.js";
import { answer, thumbnail } from "./images.js";

const HEIGHT = 64; // pixels of a line
const MARGIN = 6; // lines drawn above and below the visible ones

/** @typedef {import("./explorer.js").Explorer} Explorer */

/** @type {{rows: Int32Array, at: number, known: import("./examples.js").Facts | null, of: string, from: number, to: number}} */
const list = { rows: new Int32Array(), at: 0, known: null, of: "", from: 0, to: 0 };
/** @type {{of: string, values: Float32Array | null}} */
const entropy = { of: "", values: null };

/** @param {Explorer} app */
export function prepareExamples(app) {
  const { about } = app.data;
  const value = (/** @type {string} */ id) => /** @type {HTMLInputElement} */ (byId(id)).value;
  options("example-class", [["", "any"], .../** @type {[number, string][]} */ (about.classes.map((name, k) => [k, name]))], "");
  options("example-outcome", Object.entries(OUTCOME_FILTERS), "any");
  options("example-half", [["all", "both"], ["selection", "selection"], ["test", "test"]], "all");
  const sorts = Object.entries(SORTS).filter(([key]) => key !== "theta" || app.data.answers.confidence);
  options("example-sort", sorts, "disagreement");
  const read = () => {
    const label = value("example-class");
    const most = app.data.names.length;
    const bounded = (/** @type {string} */ id, /** @type {number} */ usual) => (value(id) === "" ? usual : Math.max(0, Math.min(most, Number(value(id)))));
    app.go({
      examples: {
        label: label === "" ? null : Number(label),
        outcome: value("example-outcome"),
        least: bounded("example-least", 0),
        most: bounded("example-most", most),
        half: value("example-half"),
        sort: value("example-sort"),
        descending: value("example-order") === "descending",
        words: value("example-words"),
        said: app.state.examples.said,
      },
    });
  };
  for (const id of ["class", "outcome", "half", "sort", "order", "least", "most", "words"]) byId(`example-${id}`).addEventListener("change", read);
  for (const cell of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#doubted tbody th"))) {
    const row = app.data.ids.indexOf(cell.dataset.name ?? "");
    const show = () => app.go({ open: row }, "examples");
    if (row >= 0) cell.replaceChildren(element("button", { type: "button", class: "link", title: "Show this example", onclick: show }, cell.textContent));
  }
  const scroller = byId("example-list");
  scroller.addEventListener("scroll", () => drawLines(app, true));
  scroller.addEventListener("click", (event) => {
    const line = /** @type {HTMLElement} */ (event.target).closest("[data-place]");
    if (line instanceof HTMLElement) open(app, Number(line.dataset.place));
  });
  scroller.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(scroller.clientHeight / HEIGHT) - 1);
    const last = list.rows.length - 1;
    /** @type {Record<string, () => number>} */
    const moves = {
      ArrowDown: () => list.at + 1, ArrowUp: () => list.at - 1, PageDown: () => list.at + page, PageUp: () => list.at - page,
      Home: () => 0, End: () => last,
    };
    if (event.key === "Enter" && list.rows.length) open(app, list.at);
    if (!(event.key in moves)) return;
    event.preventDefault();
    list.at = Math.max(0, Math.min(last, moves[event.key]()));
    reveal(list.at);
    drawLines(app);
  });
}

/**
 * @param {Explorer} app
 * @param {number} place
 */
function open(app, place) {
  list.at = place;
  app.go({ open: list.rows[place] });
}

/** @param {number} place */
function reveal(place) {
  const scroller = byId("example-list");
  const top = place * HEIGHT;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  if (top + HEIGHT > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + HEIGHT - scroller.clientHeight;
}

/** @param {Explorer} app */
export function showExamples(app) {
  const { data, shown, state } = app;
  const choice = state.examples;
  const of = shown.join();
  if (list.of !== of || !list.known) [list.of, list.known] = [of, facts(data.answers, shown)];
  const set = (/** @type {string} */ id, /** @type {string | number} */ value) => (/** @type {HTMLInputElement} */ (byId(id)).value = String(value));
  set("example-class", choice.label ?? "");
  set("example-outcome", choice.outcome);
  set("example-half", choice.half);
  set("example-sort", choice.sort);
  set("example-order", choice.descending ? "descending" : "ascending");
  set("example-least", choice.least);
  set("example-most", Math.min(choice.most, data.names.length));
  set("example-words", choice.words);
  fill("example-said", ...choice.said.map((one) => condition(app, one)));
  const known = list.known;
  list.rows = choose(data.answers, known, choice, {
    pair: app.pair, models: shown.length, half: data.half, ids: data.ids, order: () => ordering(app),
  });
  list.at = Math.max(0, list.rows.indexOf(state.open ?? -1));
  fill("example-count", `${whole(list.rows.length)} of ${whole(data.answers.examples)} examples`);
  byId("example-space").style.height = `${list.rows.length * HEIGHT}px`;
  byId("example-list").scrollTop = 0;
  reveal(list.at);
  drawLines(app);
}

/**
 * A condition on a model's prediction, with a button that removes it.
 * @param {Explorer} app
 * @param {[number, number]} one
 */
function condition(app, one) {
  const { examples } = app.state;
  const [model, said] = one;
  const text = said === WRONG ? "is wrong" : `predicts ${app.data.about.classes[said] ?? "no class"}`;
  const remove = () => app.go({ examples: { ...examples, said: examples.said.filter((other) => other !== one) } });
  return element("button", { type: "button", title: "Remove this condition", onclick: remove }, `${app.data.short[model]} ${text} ×`);
}

/**
 * The values that the examples are sorted by.
 * @param {Explorer} app
 * @returns {ArrayLike<number>}
 */
function ordering({ data, pair, shown, state }) {
  const known = /** @type {import("./examples.js").Facts} */ (list.known);
  if (state.examples.sort === "right") return known.right;
  if (state.examples.sort === "theta") return Array.from(data.rows.all, (row) => theta(data, pair, row));
  if (state.examples.sort !== "entropy") return known.disagreement;
  if (entropy.of !== list.of || !entropy.values) [entropy.of, entropy.values] = [list.of, entropies(data.answers, data.store, shown)];
  return entropy.values;
}

/**
 * @param {import("./data.js").Data} data
 * @param {[number, number]} pair
 * @param {number} row
 */
function theta({ answers }, [a, b], row) {
  const { confidence, examples } = answers;
  return confidence ? Math.atan2(confidence[a * examples + row], confidence[b * examples + row]) - LIMIT : NaN;
}

/**
 * @param {Explorer} app
 * @param {boolean} [same] whether only the scroll position has changed
 */
function drawLines(app, same = false) {
  const scroller = byId("example-list");
  const from = Math.max(0, Math.floor(scroller.scrollTop / HEIGHT) - MARGIN);
  const to = Math.min(list.rows.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / HEIGHT) + MARGIN);
  if (same && from === list.from && to === list.to) return;
  [list.from, list.to] = [from, to];
  const lines = [];
  for (let place = from; place < to; place++) lines.push(line(app, place));
  const window = byId("example-window");
  window.style.transform = `translateY(${from * HEIGHT}px)`;
  window.replaceChildren(...lines);
  scroller.setAttribute("aria-activedescendant", list.rows.length ? `example-${list.at}` : "");
}

/**
 * @param {Explorer} app
 * @param {number} place
 */
function line(app, place) {
  const { data, shown } = app;
  const row = list.rows[place];
  const known = /** @type {import("./examples.js").Facts} */ (list.known);
  const [a, b] = app.pair;
  const pair = `${data.short[a]}: ${answer(app, a, row)} · ${data.short[b]}: ${answer(app, b, row)}`;
  const angle = theta(data, app.pair, row);
  const angleText = Number.isNaN(angle) ? "" : ` · θ ${angle.toFixed(2)}`;
  return element("div", {
    class: "line", role: "option", id: `example-${place}`, "data-place": place, "data-row": row, "aria-selected": place === list.at ? "true" : "false",
    "aria-posinset": place + 1, "aria-setsize": list.rows.length,
  },
    thumbnail(app, row, 48) ?? element("span", { class: "tile" }),
    element("div", { class: "said" },
      element("div", {}, element("b", {}, data.ids[row]), ` · ${data.about.classes[data.answers.labels[row]]}`),
      element("div", { class: "soft" }, `${known.right[row]} of ${shown.length} correct${angleText} · ${pair}`)));
}

/** @param {Explorer} app */
export function showExample(app) {
  const { data, shown, state } = app;
  const panel = byId("example-open");
  panel.hidden = state.open === null;
  if (state.open === null) return;
  const row = state.open;
  const { labels, predicted, confidence, examples } = data.answers;
  const right = (/** @type {number} */ model) => predicted[model * examples + row] === labels[row];
  const confidenceOf = (/** @type {number} */ model) => confidence?.[model * examples + row] ?? 0;
  const models = [...shown].sort((m, n) => Number(right(n)) - Number(right(m)) || confidenceOf(n) - confidenceOf(m));
  const rows = models.map((model) => element("tr", { class: right(model) ? "right" : "wrong" },
    element("th", { scope: "row", title: data.names[model] }, data.short[model]),
    element("td", {}, (right(model) ? "✓ " : "✗ ") + answer(app, model, row).replace(/ \(\d+%\)$/, "")),
    confidence ? element("td", { class: "number" }, percent(confidenceOf(model))) : null));
  fill("example-open",
    element("div", { class: "top" }, thumbnail(app, row, 160),
      element("div", {}, element("h3", {}, data.ids[row]),
        element("p", {}, `Label: ${data.about.classes[labels[row]]}. ${models.filter(right).length} of ${models.length} models are correct. This is a ${data.half[row] ? "test" : "selection"} example.`),
        element("button", { type: "button", onclick: () => app.go({ open: null }) }, "Close"))),
    element("div", { class: "scroll" }, element("table", {}, element("tbody", {}, ...rows))));
}
