// @ts-check
// All pairs of the models that are shown: how often exactly one is right, the line through their gains, the best of them.
import { categoryOf } from "./data.js";
import { fixed } from "./format.js";
import { judge } from "./greedy.js";
import { cellOf, measures } from "./measures.js";

/**
 * @typedef {import("./data.js").Data} Data
 * @typedef {import("./data.js").PairRow} PairRow
 */

/**
 * The pairs of these models that are looked at: all, or of many models those with the best one.
 * @param {number[]} models
 * @param {number} best
 * @param {number} allPairs
 * @returns {[number, number][]}
 */
function pairsOf(models, best, allPairs) {
  if (models.length > allPairs) return models.filter((model) => model !== best).map((model) => [best, model]);
  return models.flatMap((first, i) => models.slice(i + 1).map((second) => /** @type {[number, number]} */ ([first, second])));
}

/**
 * What is known of these pairs on all examples; of pairs that did not come with the page it is found here.
 * @param {Data} data
 * @param {number[]} models
 * @param {number} best
 * @param {() => Promise<boolean>} goOn whether they are still wanted
 * @returns {Promise<PairRow[] | null>}
 */
export async function pairRows(data, models, best, goOn) {
  const found = [];
  for (const [first, second] of pairsOf(models, best, data.about.allPairs)) {
    const name = `${first},${second}`;
    let row = data.pairs.get(name) ?? data.pairs.get(`${second},${first}`);
    if (!row) {
      if (!(await goOn())) return null;
      row = measured(data, first, second);
      data.pairs.set(name, row);
    }
    found.push({ ...row, first, second }); // none of these measures depends on which is the first
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
 * The pair of these models that is best together on the selection examples; of predicted classes alone, that differs most.
 * @param {Data} data
 * @param {number[]} models
 * @param {number} best
 * @param {() => Promise<boolean>} goOn
 * @returns {Promise<[number, number] | null>} null where there is none, or it is not wanted any more
 */
export async function bestPair({ about, answers, store, rows }, models, best, goOn) {
  const apart = inconsistencies(answers, models, rows.selection);
  const pairs = pairsOf(models, best, about.allPairs);
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
 * The share of examples that exactly one of two models gets right, for every pair of `models`: their correctness as bits,
 * of which those that differ are counted.
 * @param {import("./combining.js").Answers} answers
 * @param {number[]} models
 * @param {Int32Array} rows
 * @returns {Float64Array} [models x models]
 */
export function inconsistencies({ examples, labels, predicted }, models, rows) {
  const words = Math.ceil(rows.length / 32);
  const bits = models.map((model) => {
    const own = new Int32Array(words);
    for (let i = 0; i < rows.length; i++) {
      if (predicted[model * examples + rows[i]] === labels[rows[i]]) own[i >> 5] |= 1 << (i & 31);
    }
    return own;
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
 * The least-squares line through points, and their correlation in words.
 * @param {number[]} x
 * @param {number[]} y
 * @returns {{slope: number, intercept: number, title: string, said: string, r: number} | null} null where all x are the same
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
  const said = Number.isNaN(r) ? "r is not defined: all points have the same height" : `r = ${fixed(r, Math.abs(r) < 0.995 ? 2 : 3)}`;
  return { slope: xy / xx, intercept: my - (xy / xx) * mx, title: `${said}, ${x.length} pairs`, said, r };
}

/**
 * The line through the gains of pairs; null where they have none, or too few of them differ.
 * @param {PairRow[]} pairs
 */
export function gainLine(pairs) {
  if (pairs.some(({ values }) => values.gain_over_mean === undefined)) return null;
  return regression(pairs.map(({ values }) => Number(values.inconsistency)), pairs.map(({ values }) => Number(values.gain_over_mean)));
}
