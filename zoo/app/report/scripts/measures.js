// @ts-check
// Every measure of two models that follows from counts. The five cells: both correct, only the first, only the second, both
// wrong with the same class, both wrong with different classes; and how many of each their ensemble gets right.
import { percentileInterval, resample, wilson } from "./statistics.js";

/**
 * @typedef {Record<string, number | null>} Values
 * @typedef {{name: string, title: string, section: string, unit: string, of: string | null, interval: boolean}} Measure
 */

/**
 * @param {number} part
 * @param {number} whole
 */
export const ratio = (part, whole, empty = NaN) => (whole === 0 ? empty : part / whole);

/**
 * Return the cell of an example. The number of classes stands for no prediction.
 * @param {number} first
 * @param {number} second
 * @param {number} label
 * @param {number} classes
 */
export function cellOf(first, second, label, classes) {
  if (first === label) return second === label ? 0 : 1;
  if (second === label) return 2;
  return first === second && first < classes ? 3 : 4;
}

/**
 * @param {ArrayLike<number>} cells
 * @param {ArrayLike<number> | null} right
 * @returns {Values} null for measures that need probabilities, if there are none
 */
export function measures(cells, right) {
  const [both, first, second, same, different] = Array.from(cells);
  const wrong = same + different;
  const n = both + first + second + wrong;
  const [a, b] = [(both + first) / n, (both + second) / n];
  const inconsistency = (first + second) / n;
  const agreement = (both + same) / n;
  const alike = both * wrong;
  const unlike = first * second;
  const accuracy = right && sum(right) / n;
  return {
    examples: n, first_wrong: second + wrong, second_wrong: first + wrong, both_wrong: wrong, both_right: both,
    inconsistent: first + second,
    accuracy_first: a,
    accuracy_second: b,
    inconsistency,
    kappa: 1 - ratio(inconsistency, a * (1 - b) + b * (1 - a), 0),
    correlation: ratio(both / n - a * b, Math.sqrt(a * (1 - a) * b * (1 - b))),
    q: ratio(alike - unlike, alike + unlike),
    dominance: ratio(second, second + wrong),
    dominated: ratio(first, first + wrong),
    double_fault: wrong / n,
    agreement,
    disagreement: 1 - agreement,
    error_agreement: 1 - inconsistency,
    wrong_agreement: ratio(same, wrong),
    ensemble_accuracy: accuracy,
    gain_over_mean: accuracy === null ? null : accuracy - (a + b) / 2,
    gain_over_best: accuracy === null ? null : accuracy - Math.max(a, b),
    conversion_rate: right && ratio(right[1] + right[2], first + second),
    both_right_lost: right && 1 - ratio(right[0], both),
    both_wrong_gained: right && ratio(right[3] + right[4], wrong),
  };
}

/**
 * Return the intervals of the measures that follow from counts, by name.
 * @param {Measure[]} records
 * @param {number[]} cells
 * @param {number[] | null} right
 * @param {import("./statistics.js").Seed} seed
 * @returns {Record<string, [number, number]>}
 */
export function intervals(records, cells, right, seed) {
  const values = measures(cells, right);
  // The ensemble is resampled together with its members.
  const counts = right ? [...right, ...cells.map((count, cell) => count - right[cell])] : cells;
  const draws = resample(counts, seed).map((drawn) => {
    if (!right) return measures(drawn, null);
    return measures(drawn.slice(0, 5).map((count, cell) => count + drawn[cell + 5]), drawn.slice(0, 5));
  });
  /** @type {Record<string, [number, number]>} */
  const found = {};
  for (const { name, of, interval } of records) {
    const value = values[name];
    if (!interval || value === null || value === undefined) continue;
    found[name] = of ? wilson(value, Number(values[of])) : percentileInterval(draws.map((drawn) => Number(drawn[name])));
  }
  return found;
}

/**
 * Return the chance-adjusted agreement (CAPA) from the terms of both models and of each.
 * @param {number} shared
 * @param {number} first
 * @param {number} second
 * @param {number} classes
 */
export function capa(shared, first, second, classes) {
  const both = first * second;
  const room = first * (1 - second) + second * (1 - first) + both * ((classes - 2) / (classes - 1));
  return ratio(shared - both * (classes / (classes - 1)), room, 1);
}

/** @param {ArrayLike<number>} values */
export function sum(values) {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i];
  return total;
}
