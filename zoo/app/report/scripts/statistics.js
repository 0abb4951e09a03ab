// @ts-check
// Wilson's interval, bootstrap intervals, McNemar's exact test and Holm's correction.

/** @typedef {{seed: number, draws: number}} Seed of bootstrap resamples, and their number */

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
 * Return a generator of numbers from 0 up to 1 (mulberry32).
 * @param {number} state
 */
function generator(state) {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * Draw how many of `n` examples fall in a cell of probability `p`: by inversion, from the most likely number outwards.
 * @param {number} n
 * @param {number} p
 * @param {() => number} random
 */
function binomial(n, p, random) {
  if (n === 0 || p <= 0) return 0;
  if (p >= 1) return n;
  const mode = Math.min(n, Math.floor((n + 1) * p));
  let [low, high] = [mode, mode];
  let below = Math.exp(logFactorial(n) - logFactorial(mode) - logFactorial(n - mode) + mode * Math.log(p) + (n - mode) * Math.log1p(-p));
  let above = below;
  let left = random() - below;
  while (left >= 0 && below + above > 0) {
    below *= (low * (1 - p)) / ((n - low + 1) * p);
    left -= below;
    if (left < 0) return low - 1;
    low--;
    above *= ((n - high) * p) / ((high + 1) * (1 - p));
    left -= above;
    if (left < 0) return high + 1;
    high++;
  }
  return mode;
}

/**
 * Return `draws` bootstrap resamples of a table of counts.
 * @param {number[]} counts
 * @param {Seed} seed
 * @returns {Float64Array[]}
 */
export function resample(counts, { seed, draws }) {
  const examples = counts.reduce((sum, count) => sum + count, 0);
  const random = generator(seed);
  return Array.from({ length: draws }, () => {
    let [left, among] = [examples, examples]; // examples to draw, and those in the cells that remain
    return Float64Array.from(counts, (count) => {
      const drawn = binomial(left, count / among, random);
      [left, among] = [left - drawn, among - count];
      return drawn;
    });
  });
}

/**
 * Return the means of columns over bootstrap resamples of the examples. Lets the page respond from time to time.
 * @param {ArrayLike<number>[]} columns
 * @param {Seed} seed
 * @param {() => Promise<boolean>} goOn whether the numbers are still needed
 * @returns {Promise<Float64Array[] | null>} [columns][draws]
 */
export async function resampledMeans(columns, { seed, draws }, goOn) {
  const random = generator(seed);
  const rows = columns[0].length;
  const means = columns.map(() => new Float64Array(draws));
  const sums = new Float64Array(columns.length);
  for (let draw = 0; draw < draws; draw++) {
    if (draw % 20 === 0 && !(await goOn())) return null;
    sums.fill(0);
    for (let i = 0; i < rows; i++) {
      const row = Math.floor(random() * rows);
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
