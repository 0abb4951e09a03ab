// @ts-check
// Compare two models on some examples, as `diversity.compare` does, from the predictions inside the page.
import { capa, cellOf, intervals, measures, sum } from "./measures.js";
import { holm, mcnemar, percentileInterval, resampledMeans } from "./statistics.js";

export const OUTCOMES = ["both right", "only first right", "only second right", "both wrong"];
export const LIMIT = Math.PI / 4;
const BINS = 40;
const SIGNIFICANT = 0.05; // Holm-adjusted p-value of equal accuracies
const LEVEL = 0.9; // fraction of the ensemble's predictions that one model decides, beyond the band

/**
 * @typedef {import("./combining.js").Answers} Answers
 * @typedef {import("./combining.js").Store} Store
 * @typedef {import("./measures.js").Measure} Measure
 * @typedef {import("./statistics.js").Seed} Seed
 */

/**
 * @typedef {object} Comparison
 * @property {ArrayLike<number>} rows
 * @property {number[]} cells
 * @property {number[] | null} right
 * @property {Record<string, number | null>} values
 * @property {Record<string, [number, number]>} ends
 * @property {Uint8Array} outcome of each row, into OUTCOMES
 * @property {Float64Array | null} theta
 * @property {Float64Array[]} missed terms of CAPA for each row: both models, the first, the second
 * @property {[number | null, number | null] | null} band
 * @property {number} close examples for which the ensemble could predict another class
 */

/**
 * @param {Answers} answers
 * @param {Store} store
 * @param {number} a
 * @param {number} b
 * @param {ArrayLike<number>} rows
 * @param {Measure[]} records
 * @param {Seed} seed
 * @param {number[] | null} exact how many examples of each cell the ensemble gets right, if that is known
 * @returns {Comparison}
 */
export function compare(answers, store, a, b, rows, records, seed, exact = null) {
  const { examples, classes, labels, predicted, confidence } = answers;
  const joint = confidence ? store.combine([a, b]) : null;
  const cells = [0, 0, 0, 0, 0];
  let right = joint ? [0, 0, 0, 0, 0] : null;
  const outcome = new Uint8Array(rows.length);
  const theta = confidence ? new Float64Array(rows.length) : null;
  let close = 0;
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i];
    const [predictionA, predictionB, y] = [predicted[a * examples + row], predicted[b * examples + row], labels[row]];
    const cell = cellOf(predictionA, predictionB, y, classes);
    cells[cell]++;
    outcome[i] = Math.min(cell, 3);
    if (joint && right) {
      right[cell] += Number(joint.predicted[row] === y);
      close += joint.close[row];
    }
    if (theta && confidence) theta[i] = Math.atan2(confidence[a * examples + row], confidence[b * examples + row]) - LIMIT;
  }
  if (exact) [right, close] = [exact, 0];
  const missed = store.distribution ? misses(answers, store, a, b, rows) : [];
  /** @type {import("./measures.js").Values} */
  const values = { ...measures(cells, right), mcnemar: mcnemar(cells[1], cells[2]) };
  const ends = intervals(records, cells, right, seed);
  values.mean_theta = theta && sum(theta) / theta.length;
  values.capa = classes < 2 ? null : chanceAdjusted(values, cells, missed, classes);
  const band = joint && theta ? prevalence(answers, joint.predicted, theta, a, b, rows) : null;
  return { rows, cells, right, values, ends, outcome, theta, missed, band, close };
}

/**
 * @param {Record<string, number | null>} values
 * @param {ArrayLike<number>} cells
 * @param {Float64Array[]} missed
 * @param {number} classes
 */
function chanceAdjusted(values, cells, missed, classes) {
  if (missed.length) {
    const [shared, first, second] = missed.map((column) => sum(column) / column.length);
    return capa(shared, first, second, classes);
  }
  const n = Number(values.examples);
  return capa((Number(values.both_wrong) + cells[3]) / n, Number(values.first_wrong) / n, Number(values.second_wrong) / n, classes);
}

/**
 * Return the terms of CAPA for each row: the sum over classes of the product of both models' probabilities, with 1 - p in
 * place of the label's p; and each model's 1 - p.
 * @param {Answers} answers
 * @param {Store} store
 * @param {number} a
 * @param {number} b
 * @param {ArrayLike<number>} rows
 */
function misses({ classes, labels }, store, a, b, rows) {
  const columns = [0, 1, 2].map(() => new Float64Array(rows.length));
  const [p, q] = [new Float64Array(classes), new Float64Array(classes)];
  for (let i = 0; i < rows.length; i++) {
    const y = labels[rows[i]];
    store.distribution?.(a, rows[i], p);
    store.distribution?.(b, rows[i], q);
    p[y] = 1 - p[y];
    q[y] = 1 - q[y];
    let shared = 0;
    for (let k = 0; k < classes; k++) shared += p[k] * q[k];
    columns[0][i] = shared;
    columns[1][i] = p[y];
    columns[2][i] = q[y];
  }
  return columns;
}

/**
 * Return the angles beyond which one model decides the ensemble's prediction in at least `LEVEL` of their disagreements.
 * @param {Answers} answers
 * @param {Int32Array} joint
 * @param {Float64Array} theta
 * @param {number} a
 * @param {number} b
 * @param {ArrayLike<number>} rows
 * @returns {[number | null, number | null]}
 */
function prevalence({ examples, predicted }, joint, theta, a, b, rows) {
  /** @type {number[]} */
  const apart = [];
  for (let i = 0; i < rows.length; i++) {
    if (predicted[a * examples + rows[i]] !== predicted[b * examples + rows[i]]) apart.push(i);
  }
  apart.sort((i, j) => theta[j] - theta[i]);
  const angles = apart.map((i) => theta[i]);
  const won = (/** @type {number} */ model) =>
    apart.map((i) => joint[rows[i]] === predicted[model * examples + rows[i]]);
  const upper = edge(angles, won(a));
  const lower = edge(angles.map((angle) => -angle).reverse(), won(b).reverse());
  return [lower === null ? null : -lower, upper];
}

/**
 * @param {number[]} descending
 * @param {boolean[]} won
 */
function edge(descending, won) {
  let [gain, best, at] = [0, 0, -1];
  won.forEach((one, i) => {
    gain += Math.fround(Number(one) - Math.fround(LEVEL)); // as torch does: float32 values, summed in double precision
    const equal = descending[i] === descending[i + 1]; // equal angles are on the same side of the edge
    if (!equal && Math.fround(gain) > best) [best, at] = [Math.fround(gain), i];
  });
  if (at < 0) return null;
  return (descending[at] + (descending[at + 1] ?? -LIMIT)) / 2;
}

/**
 * Return the intervals of measures that are means rather than counts. Lets the page respond from time to time.
 * @param {Comparison} pair
 * @param {number} classes
 * @param {Seed} seed
 * @param {() => Promise<boolean>} goOn whether the numbers are still needed
 * @returns {Promise<Record<string, [number, number]> | null>}
 */
export async function meanIntervals(pair, classes, seed, goOn) {
  if (!pair.theta) return {};
  const means = await resampledMeans([...pair.missed, pair.theta], seed, goOn);
  if (!means) return null;
  const [shared, first, second] = means;
  /** @type {Record<string, [number, number]>} */
  const found = { mean_theta: percentileInterval(means[means.length - 1]) };
  if (classes > 1) found.capa = percentileInterval(shared.map((one, draw) => capa(one, first[draw], second[draw], classes)));
  return found;
}

/**
 * Count examples by outcome and theta.
 * @param {Comparison} pair
 */
export function histogram({ outcome, theta }) {
  const counts = new Int32Array(4 * BINS);
  if (theta) {
    for (let i = 0; i < theta.length; i++) counts[outcome[i] * BINS + bin(theta[i])]++;
  }
  return Array.from(counts, (count, i) => ({
    outcome: OUTCOMES[Math.floor(i / BINS)],
    low: -LIMIT + ((i % BINS) * 2 * LIMIT) / BINS,
    high: -LIMIT + (((i % BINS) + 1) * 2 * LIMIT) / BINS,
    count,
  }));
}

/** @param {number} theta */
const bin = (theta) => Math.max(0, Math.min(BINS - 1, Math.floor(((theta + LIMIT) / (2 * LIMIT)) * BINS)));

/**
 * Count examples that exactly one model classifies correctly, by class (or groups of classes if there are many) and theta.
 * @param {Comparison} pair
 * @param {Answers} answers
 */
export function classHistogram({ rows, outcome, theta }, { labels, classes }) {
  const across = Math.min(classes, BINS);
  const counts = new Int32Array(across * BINS);
  for (let i = 0; i < rows.length; i++) {
    if (theta && (outcome[i] === 1 || outcome[i] === 2)) {
      counts[Math.min(across - 1, Math.floor(((labels[rows[i]] + 0.5) / classes) * across)) * BINS + bin(theta[i])]++;
    }
  }
  const cells = [];
  for (let i = 0; i < counts.length; i++) {
    if (!counts[i]) continue;
    const [k, j] = [Math.floor(i / BINS), i % BINS];
    cells.push({
      first: Math.ceil((k * classes) / across - 0.5), left: (k * classes) / across - 0.5, end: ((k + 1) * classes) / across - 0.5,
      low: -LIMIT + (j * 2 * LIMIT) / BINS, high: -LIMIT + ((j + 1) * 2 * LIMIT) / BINS, count: counts[i],
    });
  }
  return cells;
}

/**
 * Rank the classes from the largest advantage of the first model to that of the second.
 * @param {Comparison} pair
 * @param {Answers} answers
 */
export function byClass({ rows, outcome, theta }, { labels, classes }) {
  const table = Array.from({ length: classes }, (_, k) => ({ class: k, cells: [0, 0, 0, 0], theta: 0 }));
  for (let i = 0; i < rows.length; i++) {
    const one = table[labels[rows[i]]];
    one.cells[outcome[i]]++;
    if (theta) one.theta += theta[i];
  }
  const present = table.filter(({ cells }) => sum(cells) > 0);
  const p = holm(present.map(({ cells }) => mcnemar(cells[1], cells[2])));
  const ranked = present.map(({ class: k, cells, theta: total }, i) => {
    const count = sum(cells);
    const [first, second] = [(cells[0] + cells[1]) / count, (cells[0] + cells[2]) / count];
    const advantage = first - second;
    const owner = p[i] < SIGNIFICANT && advantage !== 0 ? (advantage > 0 ? "first" : "second") : "either";
    return { class: k, count, first, second, advantage, theta: total / count, p: p[i], owner };
  });
  return ranked.sort((x, y) => y.advantage - x.advantage || y.theta - x.theta);
}

/**
 * Return the pairs of different predictions, the most frequent first, with how often each side is correct.
 * @param {Comparison} pair
 * @param {Answers} answers
 * @param {number} a
 * @param {number} b
 */
export function flips({ rows }, { labels, classes, predicted, examples }, a, b) {
  /** @type {Map<number, {first: number, second: number, count: number, right: [number, number]}>} */
  const found = new Map();
  for (const row of Array.from(rows)) {
    const [first, second] = [predicted[a * examples + row], predicted[b * examples + row]];
    if (first === second) continue;
    const key = first * (classes + 1) + second;
    const one = found.get(key) ?? { first, second, count: 0, right: [0, 0] };
    one.count++;
    if (first === labels[row]) one.right[0]++;
    if (second === labels[row]) one.right[1]++;
    found.set(key, one);
  }
  return [...found.values()].sort((x, y) => y.count - x.count);
}
