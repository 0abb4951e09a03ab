// @ts-check
// Wilson's interval, bootstrap intervals, McNemar's exact test and Holm's correction.
import { Generator } from "./random.js";

/** @typedef {{state: string, increment: string, draws: number}} Seed */

const Z = 1.959963984540054; // 97.5% quantile of the normal distribution; every interval has 95%

/**
 * Return the ends of Wilson's interval for a fraction of `count` examples.
 * @param {number} fraction
 * @param {number} count
 * @returns {[number, number]}
 */
export function wilson(fraction, count) {
  if (!count) return [NaN, NaN];
  const z = Z / Math.sqrt(count);
  const middle = (fraction + z ** 2 / 2) / (1 + z ** 2);
  const half = (z / (1 + z ** 2)) * Math.sqrt(fraction * (1 - fraction) + z ** 2 / 4);
  return [fraction <= 0 ? 0 : middle - half, fraction >= 1 ? 1 : middle + half];
}

/**
 * Return the central 95% of resampled values, without undefined ones.
 * @param {ArrayLike<number>} values
 * @returns {[number, number]}
 */
export function percentileInterval(values) {
  const sorted = Float64Array.from(values).filter((value) => !Number.isNaN(value)).sort();
  return [quantile(sorted, 0.025), quantile(sorted, 0.975)];
}

/**
 * @param {Float64Array} sorted
 * @param {number} at
 */
function quantile(sorted, at) {
  if (!sorted.length) return NaN;
  const place = at * (sorted.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
}

/**
 * Return `draws` bootstrap resamples of a table of counts.
 * @param {number[]} counts
 * @param {Seed} seed
 * @returns {Float64Array[]}
 */
export function resample(counts, seed) {
  const examples = counts.reduce((sum, count) => sum + count, 0);
  const shares = counts.map((count) => count / examples);
  const random = new Generator(seed.state, seed.increment);
  return Array.from({ length: seed.draws }, () => random.multinomial(examples, shares));
}

/**
 * Return the means of columns over bootstrap resamples of the examples. Lets the page respond from time to time.
 * @param {ArrayLike<number>[]} columns
 * @param {Seed} seed
 * @param {() => Promise<boolean>} goOn whether the numbers are still needed
 * @returns {Promise<Float64Array[] | null>} [columns][draws]
 */
export async function resampledMeans(columns, seed, goOn) {
  const random = new Generator(seed.state, seed.increment);
  const rows = columns[0].length;
  const means = columns.map(() => new Float64Array(seed.draws));
  const sums = new Float64Array(columns.length);
  for (let draw = 0; draw < seed.draws; draw++) {
    if (draw % 20 === 0 && !(await goOn())) return null;
    sums.fill(0);
    for (let i = 0; i < rows; i++) {
      const row = random.integer(rows);
      for (let c = 0; c < columns.length; c++) sums[c] += columns[c][row];
    }
    for (let c = 0; c < columns.length; c++) means[c][draw] = sums[c] / rows;
  }
  return means;
}

/** @type {number[]} */
const logFactorials = [0];

/** @param {number} n */
function logFactorial(n) {
  for (let i = logFactorials.length; i <= n; i++) logFactorials.push(logFactorials[i - 1] + Math.log(i));
  return logFactorials[n];
}

/**
 * Return the exact two-sided p-value of McNemar's test: a fair coin decides which model alone is correct.
 * @param {number} first
 * @param {number} second
 */
export function mcnemar(first, second) {
  const n = first + second;
  const top = logFactorial(n) - n * Math.LN2;
  let sum = 0;
  for (let k = Math.min(first, second); k >= 0; k--) sum += Math.exp(top - logFactorial(k) - logFactorial(n - k));
  return Math.min(1, 2 * sum);
}

/**
 * Return Holm's adjusted p-values: the k-th smallest of m times m - k + 1, made non-decreasing.
 * @param {number[]} p
 */
export function holm(p) {
  const order = p.map((_, index) => index).sort((a, b) => p[a] - p[b]);
  const adjusted = new Array(p.length);
  let most = 0;
  order.forEach((index, rank) => {
    most = Math.max(most, p[index] * (p.length - rank));
    adjusted[index] = Math.min(most, 1);
  });
  return adjusted;
}
