// @ts-check
// The examples that the list shows, and their order.

/**
 * @typedef {import("./combining.js").Answers} Answers
 * @typedef {import("./combining.js").Store} Store
 */

/**
 * Facts on each example, over some models.
 * @typedef {object} Facts
 * @property {Uint16Array} right number of models that are correct
 * @property {Float32Array} disagreement fraction of models that do not predict the most frequent class
 */

/**
 * @param {Answers} answers
 * @param {number[]} models
 * @returns {Facts}
 */
export function facts({ examples, classes, labels, predicted }, models) {
  const right = new Uint16Array(examples);
  const disagreement = new Float32Array(examples);
  const votes = new Uint16Array(classes + 1);
  for (let row = 0; row < examples; row++) {
    let most = 0;
    for (const model of models) most = Math.max(most, ++votes[predicted[model * examples + row]]);
    right[row] = votes[labels[row]];
    disagreement[row] = models.length ? 1 - most / models.length : 0;
    for (const model of models) votes[predicted[model * examples + row]] = 0;
  }
  return { right, disagreement };
}

/**
 * Return the entropy, in bits, of the models' mean probabilities, or of their votes.
 * @param {Answers} answers
 * @param {Store} store
 * @param {number[]} models
 * @returns {Float32Array}
 */
export function entropies({ examples, classes, predicted }, store, models) {
  const found = new Float32Array(examples);
  const mean = new Float64Array(classes + 1);
  const one = new Float64Array(classes);
  for (let row = 0; row < examples; row++) {
    mean.fill(0);
    for (const model of models) {
      if (store.distribution) {
        store.distribution(model, row, one);
        for (let k = 0; k < classes; k++) mean[k] += one[k] / models.length;
      } else {
        mean[predicted[model * examples + row]] += 1 / models.length;
      }
    }
    let total = 0;
    for (let k = 0; k <= classes; k++) if (mean[k] > 0) total -= mean[k] * Math.log2(mean[k]);
    found[row] = total;
  }
  return found;
}

export const OUTCOME_FILTERS = {
  any: "any",
  "only-a": "only the first of the pair correct",
  "only-b": "only the second of the pair correct",
  apart: "exactly one of the pair correct",
  both: "both of the pair correct",
  neither: "both of the pair wrong",
  "all-right": "all models correct",
  "all-wrong": "all models wrong",
  "one-right": "exactly one model correct",
  "one-wrong": "exactly one model wrong",
};

export const WRONG = -1; // instead of a predicted class: any other than the label

export const SORTS = {
  row: "order in the dataset",
  theta: "θ of the pair",
  entropy: "entropy",
  disagreement: "disagreement",
  right: "correct models",
};

/**
 * @typedef {object} Choice
 * @property {number | null} label
 * @property {string} outcome
 * @property {number} least number of correct models
 * @property {number} most
 * @property {string} half "all", "selection" or "test"
 * @property {string} sort
 * @property {boolean} descending
 * @property {string} words that the id must contain
 * @property {[number, number][]} said models, and the class that each predicts or `WRONG`
 */

/**
 * @param {Answers} answers
 * @param {Facts} known
 * @param {Choice} choice
 * @param {{pair: [number, number], models: number, half: ArrayLike<number>, ids: string[], order: () => ArrayLike<number>}} given
 * @returns {Int32Array}
 */
export function choose({ examples, labels, predicted }, known, choice, given) {
  const [a, b] = given.pair;
  const wanted = choice.words.toLowerCase();
  /** @type {Record<string, (row: number) => boolean>} */
  const outcomes = {
    any: () => true,
    "only-a": (row) => hit(a, row) && !hit(b, row),
    "only-b": (row) => hit(b, row) && !hit(a, row),
    apart: (row) => hit(a, row) !== hit(b, row),
    both: (row) => hit(a, row) && hit(b, row),
    neither: (row) => !hit(a, row) && !hit(b, row),
    "all-right": (row) => known.right[row] === given.models,
    "all-wrong": (row) => known.right[row] === 0,
    "one-right": (row) => known.right[row] === 1,
    "one-wrong": (row) => known.right[row] === given.models - 1,
  };
  const hit = (/** @type {number} */ model, /** @type {number} */ row) => predicted[model * examples + row] === labels[row];
  const fits = outcomes[choice.outcome] ?? outcomes.any;
  const half = { selection: 0, test: 1 }[choice.half];
  const rows = [];
  for (let row = 0; row < examples; row++) {
    if (choice.label !== null && labels[row] !== choice.label) continue;
    if (half !== undefined && given.half[row] !== half) continue;
    if (known.right[row] < choice.least || known.right[row] > choice.most || !fits(row)) continue;
    if (!choice.said.every(([model, said]) => (said === WRONG ? !hit(model, row) : predicted[model * examples + row] === said))) continue;
    if (wanted && !given.ids[row].toLowerCase().includes(wanted)) continue;
    rows.push(row);
  }
  if (choice.sort !== "row") {
    const by = given.order();
    rows.sort((x, y) => (choice.descending ? by[y] - by[x] : by[x] - by[y]) || x - y);
  } else if (choice.descending) {
    rows.reverse();
  }
  return Int32Array.from(rows);
}
