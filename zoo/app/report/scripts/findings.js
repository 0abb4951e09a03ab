// @ts-check
// The findings on the models that are shown. Their templates are `sentences.json`, which the package fills in too.
import { compared, fixed, interval, percent, whole } from "./format.js";
import { mcnemar, wilson } from "./statistics.js";

const MAX_NAMED = 4; // members that a sentence names
const MIN_MODELS = 5; // for a rank correlation

/**
 * @typedef {{title?: string, number: string, sentence: string, warning?: boolean}} Finding
 * @typedef {import("./data.js").Data} Data
 */

/**
 * @param {Data} data
 * @param {string} template
 * @param {Record<string, string | number>} values
 */
export const sentence = ({ about }, template, values) => about.sentences[template].replace(/\{(\w+)\}/g, (_, field) => String(values[field]));

/**
 * @param {Data} data
 * @param {number} best
 * @param {number} models how many it is the best of
 * @returns {Finding}
 */
export function ofBest(data, best, models) {
  const { examples, labels, predicted } = data.answers;
  const { test } = data.rows;
  const correct = test.reduce((total, row) => total + Number(predicted[best * examples + row] === labels[row]), 0);
  const accuracy = correct / test.length;
  const values = {
    model: data.short[best], models, accuracy: percent(accuracy), examples: whole(test.length), interval: interval(wilson(accuracy, test.length)),
  };
  return { number: percent(accuracy), sentence: sentence(data, "best_model", values) };
}

/**
 * @param {Data} data
 * @param {number | null} base the model that all pairs have, if they are not all pairs
 * @param {{r: number, text: string} | null} overMean
 * @param {{r: number, text: string, points: number} | null} overBest
 * @returns {Finding | null}
 */
export function ofLine(data, base, overMean, overBest) {
  if (!overMean || !overBest) return null;
  const values = {
    band: data.about.band, pairs: overBest.points, base: base === null ? "" : ` with ${data.short[base]}`, examples: whole(data.rows.all.length), over_best: overBest.text, over_mean: overMean.text,
  };
  if (Number.isNaN(overMean.r) || Number.isNaN(overBest.r)) return { number: "undefined", sentence: sentence(data, "no_diversity", values) };
  return { number: overBest.text, sentence: sentence(data, "diversity", values) };
}

/**
 * @param {Data} data
 * @param {[number, number]} pair
 * @param {import("./comparison.js").Comparison} compared on the test examples
 * @returns {Finding}
 */
export function ofPair(data, pair, { values, ends, theta }) {
  const [first, second] = pair.map((model) => data.short[model]);
  const examples = whole(data.rows.test.length);
  if (!theta) {
    const inconsistency = percent(Number(values.inconsistency));
    return { number: inconsistency, sentence: sentence(data, "most_different_pair", { first, second, inconsistency, examples }) };
  }
  const accuracy = percent(Number(values.ensemble_accuracy));
  const gain = compared(Number(values.gain_over_best));
  return { number: accuracy, sentence: sentence(data, "best_pair", { first, second, accuracy, examples, gain, interval: interval(ends.gain_over_best) }) };
}

/**
 * The size of the smallest ensemble on a path that is not significantly less accurate than the best one, as
 * `ensembles.Path.smallest_sufficient` finds it, and McNemar's p-value.
 * @param {import("./greedy.js").Path} path
 * @returns {{size: number, p: number}}
 */
export function smallestSufficient({ correct, size: best }) {
  const total = (/** @type {Uint8Array} */ one) => one.reduce((sum, value) => sum + value, 0);
  const last = correct[best - 1];
  for (let size = 1; size < best; size++) {
    const one = correct[size - 1];
    let [only, other] = [0, 0];
    one.forEach((value, i) => {
      only += Number(value > last[i]);
      other += Number(value < last[i]);
    });
    const p = mcnemar(only, other);
    if (total(one) >= total(last) || p >= 0.05) return { size, p };
  }
  return { size: best, p: 1 };
}

/**
 * @param {Data} data
 * @param {import("./greedy.js").Path} path
 * @param {[number, number]} ends of the gain's interval
 * @returns {Finding}
 */
export function ofPath(data, path, ends) {
  const { members, size, test } = path;
  const start = data.short[members[0]];
  const count = (/** @type {number} */ models) => `${models} model${models === 1 ? "" : "s"}`;
  if (size === 1) return { number: count(1), sentence: sentence(data, "no_gain", { start, selection: whole(data.rows.selection.length) }), warning: true };
  const { size: enough, p } = smallestSufficient(path);
  const names = members.slice(0, enough).map((model) => data.short[model]);
  const more = names.length > MAX_NAMED ? [`${names.length - MAX_NAMED} more`] : [];
  const values = {
    size: enough, best_size: size, best_accuracy: percent(test[size - 1]), examples: whole(data.rows.test.length),
    members: [...names.slice(0, MAX_NAMED), ...more].join(" + "), accuracy: percent(test[enough - 1]), p: general(p), start,
    gain: compared(test[size - 1] - test[0]), interval: interval(ends),
  };
  const warning = ends[0] <= 0;
  const parts = [enough < size ? "sufficient" : "all_needed", ...(warning ? ["within_noise"] : [])];
  return { number: count(enough), sentence: parts.map((part) => sentence(data, part, values)).join(" "), warning };
}

/**
 * Two significant digits, as Python's `.2g`.
 * @param {number} p
 */
export function general(p) {
  if (p === 0) return "0";
  const [digits, exponent] = p.toExponential(1).split("e");
  if (Number(exponent) >= -4) return String(Number(fixed(p, 1 - Number(exponent))));
  return `${Number(digits)}e-${exponent.slice(1).padStart(2, "0")}`;
}

/**
 * The finding on transfer for other models: only the end of its sentence changes.
 * @param {string} given
 * @param {Record<string, any>[]} rows of the models shown
 * @returns {Finding | null}
 */
export function ofTransfer(given, rows) {
  const [x, y] = ["class separation", "transfer"].map((key) => rows.map((row) => Number(row[key])));
  if (rows.length < MIN_MODELS || new Set(x).size < 2 || new Set(y).size < 2) return null;
  const rho = spearman(x, y);
  const end = `a rank correlation of ${fixed(rho, 2)} over ${rows.length} models.`;
  return { number: `ρ = ${fixed(rho, 2)}`, sentence: given.replace(/a rank correlation of .*$/, end) };
}

/**
 * Spearman's rank correlation.
 * @param {number[]} x
 * @param {number[]} y
 */
export function spearman(x, y) {
  const ranks = (/** @type {number[]} */ values) =>
    values.map((value) => values.filter((other) => other < value).length + values.filter((other) => other === value).length / 2);
  const [a, b] = [ranks(x), ranks(y)].map((of) => of.map((rank) => rank - x.length / 2)); // centred
  const product = (/** @type {number[]} */ one, /** @type {number[]} */ two) => one.reduce((total, value, i) => total + value * two[i], 0);
  return product(a, b) / Math.sqrt(product(a, a) * product(b, b));
}
