// @ts-check
// All pairs of the models that are shown: their measures, the line through their gains, and the best pair.
import { categoryOf, sharesInitialisation } from "./data.js";
import { fixed } from "./format.js";
import { judge } from "./greedy.js";
import { cellOf, measures } from "./measures.js";

/**
 * @typedef {import("./data.js").Data} Data
 * @typedef {import("./data.js").PairRow} PairRow
 */

/**
 * Return the pairs to compare: all, or of many models those with the best one, without those that share an initialisation.
 * @param {Data} data
 * @param {number[]} models
 * @param {number} best
 * @returns {[number, number][]}
 */
function pairsOf(data, models, best) {
  /** @type {[number, number][]} */
  const pairs = models.length > data.about.allPairs
    ? models.filter((model) => model !== best).map((model) => [best, model])
    : models.flatMap((first, i) => models.slice(i + 1).map((second) => /** @type {[number, number]} */ ([first, second])));
  return pairs.filter(([a, b]) => !sharesInitialisation(data, a, b));
}

/**
 * Return the measures of pairs on all examples; those that are not in the page are computed.
 * @param {Data} data
 * @param {number[]} models
 * @param {number} best
 * @param {() => Promise<boolean>} goOn whether they are still needed
 * @returns {Promise<PairRow[] | null>}
 */
export async function pairRows(data, models, best, goOn) {
  const found = [];
  for (const [first, second] of pairsOf(data, models, best)) {
    const name = `${first},${second}`;
    let row = data.pairs.get(name) ?? data.pairs.get(`${second},${first}`);
    if (!row) {
      if (!(await goOn())) return null;
      row = measured(data, first, second);
      data.pairs.set(name, row);
    }
    found.push({ ...row, first, second }); // these measures do not depend on the order
  }
  return found;
}

/**
 * @param {Data} data
 * @param {number} first
 * @param {number} second
 * @returns {PairRow}
 */
function measured(data, first, second) {
  const { about, answers, store } = data;
  const { examples, classes, labels, predicted } = answers;
  const joint = answers.confidence && store.combine([first, second]).predicted;
  const cells = [0, 0, 0, 0, 0];
  const right = [0, 0, 0, 0, 0];
  for (let row = 0; row < examples; row++) {
    const cell = cellOf(predicted[first * examples + row], predicted[second * examples + row], labels[row], classes);
    cells[cell]++;
    if (joint) right[cell] += Number(joint[row] === labels[row]);
  }
  const every = measures(cells, joint && right);
  const values = Object.fromEntries(about.measures.filter(({ name }) => name in about.pairs).map(({ name }) => [name, every[name]]));
  return { first, second, category: categoryOf(data, first, second), values };
}

/**
 * Return the pair with the most accurate ensemble on the selection examples; of predictions, the pair that differs most.
 * @param {Data} data
 * @param {number[]} models
 * @param {number} best
 * @param {() => Promise<boolean>} goOn
 * @returns {Promise<[number, number] | null>} null if there is none, or if it is no longer needed
 */
export async function bestPair(data, models, best, goOn) {
  const { answers, store, rows } = data;
  const apart = inconsistencies(answers, models, rows.selection);
  const pairs = pairsOf(data, models, best);
  /** @type {[number, number] | null} */
  let found = null;
  let most = [-1, -1];
  for (const first of new Set(pairs.map(([one]) => one))) {
    const seconds = pairs.filter(([one]) => one === first).map(([, other]) => other);
    const trial = answers.confidence ? await judge(store, [first], seconds, rows.selection, goOn) : null;
    if (answers.confidence && !trial) return null;
    seconds.forEach((second, i) => {
      const value = [trial ? trial.right[i] : 0, apart[models.indexOf(first) * models.length + models.indexOf(second)]];
      if (value[0] > most[0] || (value[0] === most[0] && value[1] > most[1])) [found, most] = [[first, second], value];
    });
  }
  return found;
}

/**
 * Return the error inconsistency of every pair of models, by counting the bits in which their correctness differs.
 * @param {import("./combining.js").Answers} answers
 * @param {number[]} models
 * @param {Int32Array} rows
 * @returns {Float64Array} [models x models]
 */
export function inconsistencies({ examples, labels, predicted }, models, rows) {
  const words = Math.ceil(rows.length / 32);
  const bits = models.map((model) => {
    const correctness = new Int32Array(words);
    for (let i = 0; i < rows.length; i++) {
      if (predicted[model * examples + rows[i]] === labels[rows[i]]) correctness[i >> 5] |= 1 << (i & 31);
    }
    return correctness;
  });
  const found = new Float64Array(models.length ** 2);
  for (let i = 0; i < models.length; i++) {
    for (let j = 0; j < i; j++) {
      let count = 0;
      for (let word = 0; word < words; word++) count += ones(bits[i][word] ^ bits[j][word]);
      found[i * models.length + j] = found[j * models.length + i] = count / rows.length;
    }
  }
  return found;
}

/** @param {number} word */
function ones(word) {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/**
 * Return a measure of every pair of models that follows from the five cells of their error table, such as kappa.
 * @param {import("./combining.js").Answers} answers
 * @param {number[]} models
 * @param {Int32Array} rows
 * @param {string} name
 * @returns {Float64Array} [models x models]
 */
export function matrixOf(answers, models, rows, name) {
  if (name === "inconsistency") return inconsistencies(answers, models, rows);
  const { examples, classes, labels, predicted } = answers;
  const found = new Float64Array(models.length ** 2);
  for (let i = 0; i < models.length; i++) {
    for (let j = 0; j <= i; j++) {
      const cells = [0, 0, 0, 0, 0];
      for (const row of rows) cells[cellOf(predicted[models[i] * examples + row], predicted[models[j] * examples + row], labels[row], classes)]++;
      found[i * models.length + j] = found[j * models.length + i] = Number(measures(cells, null)[name]);
    }
  }
  return found;
}

/**
 * @typedef {{slope: number, intercept: number, title: string, text: string, r: number, points: number}} Line
 */

/**
 * Return the least-squares line, and Pearson's correlation in words; null if all x are equal.
 * @param {number[]} x
 * @param {number[]} y
 * @returns {Line | null}
 */
export function regression(x, y) {
  const mean = (/** @type {number[]} */ values) => values.reduce((total, value) => total + value, 0) / values.length;
  const [mx, my] = [mean(x), mean(y)];
  let [xx, yy, xy] = [0, 0, 0];
  x.forEach((value, i) => {
    xx += (value - mx) ** 2;
    yy += (y[i] - my) ** 2;
    xy += (value - mx) * (y[i] - my);
  });
  if (x.length < 3 || xx < 1e-16) return null;
  const r = yy < 1e-16 ? NaN : xy / Math.sqrt(xx * yy);
  const text = Number.isNaN(r) ? "r is undefined: all values of y are equal" : `r = ${fixed(r, Math.abs(r) < 0.995 ? 2 : 3)}`;
  return { slope: xy / xx, intercept: my - (xy / xx) * mx, title: `${text}, ${x.length} pairs`, text, r, points: x.length };
}

/**
 * Return the accuracies of all models on all examples.
 * @param {import("./combining.js").Answers} answers
 */
export function accuracies({ models, examples, labels, predicted }) {
  return Array.from({ length: models }, (_, model) => {
    let correct = 0;
    for (let row = 0; row < examples; row++) correct += Number(predicted[model * examples + row] === labels[row]);
    return correct / examples;
  });
}

/**
 * Return whether each pair has comparable accuracies: they differ by at most `about.band` percentage points.
 * @param {Data} data
 * @param {PairRow[]} pairs
 */
export function comparable({ about, answers }, pairs) {
  const accuracy = accuracies(answers);
  return pairs.map(({ first, second }) => 100 * Math.abs(accuracy[first] - accuracy[second]) <= about.band + 1e-9);
}

/**
 * Return the line through the gains of pairs of comparable accuracy; null if there are no gains, or too few that differ.
 * @param {Data} data
 * @param {PairRow[]} pairs
 * @param {string} gain measure on the y axis
 */
export function gainLine(data, pairs, gain = "gain_over_mean") {
  if (pairs.some(({ values }) => values[gain] === undefined)) return null;
  const used = comparable(data, pairs);
  const rows = pairs.filter((_, i) => used[i]);
  return regression(rows.map(({ values }) => Number(values.inconsistency)), rows.map(({ values }) => Number(values[gain])));
}
