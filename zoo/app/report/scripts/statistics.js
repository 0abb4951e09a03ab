// @ts-check
// Intervals and tests: Wilson's interval, quantiles of resamples, McNemar's exact test and Holm's correction.
import { Generator } from "./random.js";

/** @typedef {{state: string, increment: string, draws: number}} Seed */

const Z = 1.959963984540054; // the normal distribution's 97.5%: every interval here is of 95%

/**
 * Ends of Wilson's interval for a share of `count` examples.
 * @param {number} share
 * @param {number} count
 * @returns {[number, number]}
 */
export function wilson(share, count) {
  if (!count) return [NaN, NaN];
  const z = Z / Math.sqrt(count);
  const middle = (share + z ** 2 / 2) / (1 + z ** 2);
  const half = (z / (1 + z ** 2)) * Math.sqrt(share * (1 - share) + z ** 2 / 4);
  return [share <= 0 ? 0 : middle - half, share >= 1 ? 1 : middle + half];
}

/**
 * The central 95% of resampled values; those that are undefined are left out.
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
 * `draws` tables of counts, each drawn from these counts with replacement.
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
 * The means of columns over draws of as many examples, for measures that are no counts. Gives way to the page from time to
 * time.
 * @param {ArrayLike<number>[]} columns
 * @param {Seed} seed
 * @param {() => Promise<boolean>} goOn whether the numbers are still wanted
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
 * Exact two-sided p-value of McNemar's test: examples that only one model gets right as tosses of a fair coin.
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
 * p-values adjusted for their number: the k-th smallest of m times m - k + 1, never falling.
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
