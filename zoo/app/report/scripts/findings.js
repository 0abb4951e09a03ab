// @ts-check
// What is worth knowing first, in the words of the report, of the models that are shown.
import { percent, fixed, points, whole } from "./format.js";

const NAMED = 3; // members spelt out; the table has all
const FEWEST = 5; // models whose ranks are worth a correlation

/**
 * @typedef {{number: string, sentence: string, warning?: boolean}} Finding
 * @typedef {import("./data.js").Data} Data
 */

/** @param {Data} data */
const tested = ({ rows }) => `the ${whole(rows.test.length)} test examples`;
/** @param {Data} data */
const others = ({ rows }) => `${whole(rows.selection.length)} others`;

/**
 * @param {Data} data
 * @param {number} best
 * @param {number} models how many it is the best of
 * @returns {Finding}
 */
export function ofBest(data, best, models) {
  const { examples, labels, predicted } = data.answers;
  const { test } = data.rows;
  const right = test.reduce((total, row) => total + Number(predicted[best * examples + row] === labels[row]), 0);
  return {
    number: percent(right / test.length),
    sentence: `of ${tested(data)} are right with ${data.names[best]}, the best of ${models} models on ${others(data)}.`,
  };
}

/**
 * @param {Data} data
 * @param {ReturnType<typeof import("./pairs.js").regression>} line
 * @param {number} pairs
 * @returns {Finding | null}
 */
export function ofLine(data, line, pairs) {
  if (!line) return null;
  const of = `of error inconsistency and ensemble gain over ${pairs} pairs, on all ${whole(data.rows.all.length)} examples reported`;
  if (Number.isNaN(line.r)) return { number: "no correlation", sentence: `can be given ${of}: ${line.said}.` };
  return { number: line.said, sentence: `is the correlation ${of}: ${line.r > 0.5 ? "different errors pay" : "no clear link here"}.` };
}

/**
 * @param {Data} data
 * @param {[number, number]} pair
 * @param {import("./comparison.js").Comparison} compared on the test examples
 * @returns {Finding}
 */
export function ofPair(data, pair, { values, ends, theta }) {
  const [first, second] = pair.map((model) => data.names[model]);
  const apart = `of ${tested(data)} are right with exactly one of ${first} and ${second}, `;
  const [low, high] = ends.gain_over_best ?? [NaN, NaN];
  const rest = theta
    ? `the best pair on ${others(data)}; together they reach ${percent(Number(values.ensemble_accuracy))}, ${points(Number(values.gain_over_best))} `
      + `points against the better one (95% interval ${points(low)} to ${points(high)}).`
    : `the pair that differs most on ${others(data)}.`;
  return { number: percent(Number(values.inconsistency)), sentence: apart + rest };
}

/**
 * @param {Data} data
 * @param {import("./greedy.js").Path} path
 * @param {[number, number]} interval of the gain
 * @returns {Finding}
 */
export function ofPath(data, { members, size, test }, [low, high]) {
  const [start, ...names] = members.slice(0, size).map((model) => data.names[model]);
  if (!names.length) {
    const sentence = `No second model helps ${start} on the ${whole(data.rows.selection.length)} examples searched.`;
    return { number: "no gain", sentence, warning: true };
  }
  const added = names.slice(0, NAMED).join(", ") + (names.length > NAMED ? ` and ${names.length - NAMED} more` : "");
  const warning = low <= 0;
  const sentence = `on ${tested(data)} from adding ${added} to ${start}: ${percent(test[size - 1])} `
    + `(95% interval ${points(low)} to ${points(high)} points).${warning ? " That is within noise: do not count on it." : ""}`;
  return { number: `${points(test[size - 1] - test[0])} points`, sentence, warning };
}

/**
 * Which examples of which task is in the sentence on all models; its end is said anew.
 * @param {string} given
 * @param {Record<string, any>[]} rows of the models shown
 * @returns {Finding | null}
 */
export function ofTransfer(given, rows) {
  const [x, y] = ["class separation", "transfer"].map((key) => rows.map((row) => Number(row[key])));
  if (rows.length < FEWEST || new Set(x).size < 2 || new Set(y).size < 2) return null;
  const rho = spearman(x, y);
  const verdict = rho < -0.5 ? "better separated classes, less transferable features" : "no clear link here";
  return { number: `ρ = ${fixed(rho, 2)}`, sentence: given.replace(/over \d+ models: [^:]*$/, `over ${rows.length} models: ${verdict}.`) };
}

/**
 * Spearman's rank correlation.
 * @param {number[]} x
 * @param {number[]} y
 */
export function spearman(x, y) {
  const ranks = (/** @type {number[]} */ values) =>
    values.map((value) => values.filter((other) => other < value).length + values.filter((other) => other === value).length / 2);
  const [a, b] = [ranks(x), ranks(y)].map((own) => own.map((rank) => rank - x.length / 2)); // whose mean is 0
  const product = (/** @type {number[]} */ one, /** @type {number[]} */ two) => one.reduce((total, value, i) => total + value * two[i], 0);
  return product(a, b) / Math.sqrt(product(a, a) * product(b, b));
}
