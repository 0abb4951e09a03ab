// @ts-check
// The state of the page, stored in its address after the #, so that it can be shared and the back button works.

/**
 * @typedef {object} State
 * @property {[number, number]} pair
 * @property {string} on examples on which the pair is compared: "test", "selection" or "all"
 * @property {number[]} members
 * @property {string} colour a field of the models
 * @property {string} matrix measure of the heatmap
 * @property {Record<string, string[]>} hidden values of fields whose models are hidden; of "model", names
 * @property {import("./examples.js").Choice} examples
 * @property {number | null} open the example that is shown in detail
 */

/**
 * @typedef {object} Known the names that an address may contain
 * @property {string[]} models
 * @property {string[]} ids
 * @property {string[]} fields
 * @property {State} initial
 */

const names = (/** @type {string[]} */ values) => values.map(encodeURIComponent).join(",");
const parts = (/** @type {string} */ text) => (text ? text.split(",").map(decodeURIComponent) : []);

/**
 * @param {State} state
 * @param {Known} known
 */
export function toHash(state, { models, ids, initial }) {
  const { examples, pair, members } = state;
  const fields = [`pair=${names(pair.map((model) => models[model]))}`];
  const add = (/** @type {string} */ key, /** @type {string} */ value, /** @type {unknown} */ usual) => {
    if (value !== String(usual)) fields.push(`${key}=${value}`);
  };
  add("on", state.on, initial.on);
  add("ensemble", names(members.map((model) => models[model])), names(initial.members.map((model) => models[model])));
  add("colour", encodeURIComponent(state.colour), encodeURIComponent(initial.colour));
  add("matrix", state.matrix, initial.matrix);
  for (const [field, values] of Object.entries(state.hidden)) {
    if (values.length) fields.push(`hide:${encodeURIComponent(field)}=${names(values)}`);
  }
  const usual = initial.examples;
  add("class", String(examples.label ?? ""), usual.label ?? "");
  add("outcome", examples.outcome, usual.outcome);
  add("right", `${examples.least}-${examples.most}`, `${usual.least}-${usual.most}`);
  add("half", examples.half, usual.half);
  add("sort", (examples.descending ? "-" : "") + examples.sort, (usual.descending ? "-" : "") + usual.sort);
  add("id", encodeURIComponent(examples.words), usual.words);
  add("said", examples.said.map(([model, said]) => `${encodeURIComponent(models[model])}:${said}`).join(","), "");
  if (state.open !== null) fields.push(`example=${encodeURIComponent(ids[state.open])}`);
  return "#" + fields.join("&");
}

/**
 * Return the state that an address describes; unknown names are ignored.
 * @param {string} hash
 * @param {Known} known
 * @returns {State}
 */
export function fromHash(hash, known) {
  const { models, ids, fields, initial } = known;
  /** @type {State} */
  const state = { ...initial, hidden: {}, examples: { ...initial.examples } };
  const model = (/** @type {string} */ name) => models.indexOf(name);
  for (const part of hash.replace(/^#/, "").split("&")) {
    const cut = part.indexOf("=");
    const [key, value] = [part.slice(0, cut), part.slice(cut + 1)];
    try {
      if (key === "pair") {
        const pair = parts(value).map(model);
        if (pair.length === 2 && pair.every((one) => one >= 0) && pair[0] !== pair[1]) state.pair = [pair[0], pair[1]];
      } else if (key === "ensemble") {
        state.members = [...new Set(parts(value).map(model).filter((one) => one >= 0))].sort((a, b) => a - b);
      } else if (key === "on" && ["all", "selection", "test"].includes(value)) {
        state.on = value;
      } else if (key === "matrix" && /^\w+$/.test(value)) {
        state.matrix = value;
      } else if (key === "colour" && fields.includes(decodeURIComponent(value))) {
        state.colour = decodeURIComponent(value);
      } else if (key.startsWith("hide:")) {
        const field = decodeURIComponent(key.slice(5));
        if (field === "model" || fields.includes(field)) state.hidden[field] = parts(value);
      } else if (key === "example") {
        const row = ids.indexOf(decodeURIComponent(value));
        state.open = row < 0 ? null : row;
      } else {
        readExamples(state.examples, key, value, models);
      }
    } catch {
      continue; // an address that was cut within an encoded character
    }
  }
  return state;
}

/**
 * @param {import("./examples.js").Choice} choice
 * @param {string} key
 * @param {string} value
 * @param {string[]} models
 */
function readExamples(choice, key, value, models) {
  const range = /^(\d+)-(\d+)$/.exec(value);
  if (key === "class" && /^\d+$/.test(value)) choice.label = Number(value);
  if (key === "outcome") choice.outcome = value;
  if (key === "right" && range) [choice.least, choice.most] = [Number(range[1]), Number(range[2])];
  if (key === "half") choice.half = value;
  if (key === "sort") [choice.sort, choice.descending] = [value.replace(/^-/, ""), value.startsWith("-")];
  if (key === "id") choice.words = decodeURIComponent(value);
  if (key === "said") {
    const said = value.split(",").map((part) => /^(.*):(-1|\d+)$/.exec(part));
    choice.said = said.map((one) => /** @type {[number, number]} */ ([models.indexOf(decodeURIComponent(one?.[1] ?? "")), Number(one?.[2])])).filter(([model]) => model >= 0);
  }
}
