// @ts-check
// All pairs of the models that are shown: how often exactly one is right, and the line through their gains.

/**
 * The share of examples that exactly one of two models gets right, for every pair of `models`: their correctness as bits,
 * of which those that differ are counted.
 * @param {import("./combining.js").Answers} answers
 * @param {number[]} models
 * @returns {Float64Array} [models x models]
 */
export function inconsistencies({ examples, labels, predicted }, models) {
  const words = Math.ceil(examples / 32);
  const bits = models.map((model) => {
    const own = new Int32Array(words);
    for (let row = 0; row < examples; row++) {
      if (predicted[model * examples + row] === labels[row]) own[row >> 5] |= 1 << (row & 31);
    }
    return own;
  });
  const found = new Float64Array(models.length ** 2);
  for (let i = 0; i < models.length; i++) {
    for (let j = 0; j < i; j++) {
      let count = 0;
      for (let word = 0; word < words; word++) count += ones(bits[i][word] ^ bits[j][word]);
      found[i * models.length + j] = found[j * models.length + i] = count / examples;
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
 * @returns {{slope: number, intercept: number, title: string} | null} null where all x are the same
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
  const r = yy < 1e-16 ? "r is not defined: all points have the same height" : `r = ${(xy / Math.sqrt(xx * yy)).toFixed(2)}`;
  return { slope: xy / xx, intercept: my - (xy / xx) * mx, title: `${r}, ${x.length} pairs` };
}
