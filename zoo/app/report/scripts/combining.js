// @ts-check
// Combine members: means of all classes' probabilities, or votes of predicted classes. `topclasses.js` averages the top
// classes, if not all probabilities fit into the page.

const SMALLEST = 1.1754943508222875e-38; // the smallest normal float32, instead of a probability of 0

/** @param {number} p */
export const nll = (p) => -Math.log(Math.max(p, SMALLEST));

/**
 * Whether another class with this sum is predicted instead of the true one with the sum `reached`; ties go to the first.
 * @param {number} value
 * @param {number} other
 * @param {number} reached
 * @param {number} label
 */
export const ahead = (value, other, reached, label) => value > reached || (value === reached && other < label);

/**
 * The predictions of an ensemble. `close` marks examples whose prediction could differ with exact probabilities.
 * @typedef {object} Combined
 * @property {Int32Array} predicted -1 for no prediction
 * @property {Float64Array | null} confidence
 * @property {Float64Array | null} label probability of the true class
 * @property {Uint8Array} close
 */

/**
 * @typedef {object} Answers predictions of all models, [models x examples]
 * @property {number} models
 * @property {number} examples
 * @property {number} classes
 * @property {ArrayLike<number>} labels
 * @property {ArrayLike<number>} predicted the number of classes stands for no prediction
 * @property {Float64Array | null} confidence
 */

/**
 * Try each candidate as one more member on some rows: add the number of correct predictions to `right`, and the NLL of the
 * true class to `losses` unless that is null.
 * @typedef {(members: number[], candidates: number[], rows: Int32Array, right: Float64Array, losses: Float64Array | null) => void} Judge
 */

/**
 * @typedef {object} Store
 * @property {(members: number[]) => Combined} combine
 * @property {Judge} judge
 * @property {((model: number, row: number, into: Float64Array) => void) | null} distribution
 */

/**
 * Whether no candidate can change the prediction, because none adds more than 1 to any class's sum.
 * @param {number} lead of the true class over the best other one
 */
export const settled = (lead) => Math.abs(lead) > 1 + 1e-9;

/**
 * @param {number} examples
 * @returns {Combined & {confidence: Float64Array, label: Float64Array}}
 */
export const blank = (examples) => ({
  predicted: new Int32Array(examples),
  confidence: new Float64Array(examples),
  label: new Float64Array(examples),
  close: new Uint8Array(examples),
});

/**
 * All classes' probabilities, each within `step` of the exact one.
 * @implements {Store}
 */
export class AllClasses {
  /**
   * @param {Answers} answers
   * @param {Float32Array} values [models x examples x classes], 0 for the predicted class, whose value is the confidence
   * @param {number} step
   */
  constructor(answers, values, step) {
    const { predicted, confidence, classes } = answers;
    this.answers = answers;
    this.values = values;
    this.step = step;
    if (confidence) for (let i = 0; i < predicted.length; i++) values[i * classes + predicted[i]] = confidence[i];
  }

  /** @param {number[]} members */
  combine(members) {
    const { examples, classes, labels } = this.answers;
    const sums = new Float64Array(examples * classes);
    for (const member of members) {
      const start = member * sums.length;
      for (let i = 0; i < sums.length; i++) sums[i] += this.values[start + i];
    }
    const found = blank(examples);
    const slack = 2 * this.step * members.length;
    for (let row = 0, at = 0; row < examples; row++, at += classes) {
      let [best, top, next] = [0, -1, -1];
      for (let k = 0; k < classes; k++) {
        const value = sums[at + k];
        if (value > top) [best, next, top] = [k, top, value];
        else if (value > next) next = value;
      }
      found.predicted[row] = best;
      found.confidence[row] = top / members.length;
      found.label[row] = sums[at + labels[row]] / members.length;
      found.close[row] = Number(top - next <= slack);
    }
    return found;
  }

  /** @type {Judge} */
  judge(members, candidates, rows, right, losses) {
    const { values } = this;
    const { examples, classes, labels } = this.answers;
    const sums = new Float64Array(classes);
    let settledCorrect = 0;
    for (let i = 0; i < rows.length; i++) {
      sums.fill(0);
      for (let m = 0; m < members.length; m++) {
        const start = (members[m] * examples + rows[i]) * classes;
        for (let k = 0; k < classes; k++) sums[k] += values[start + k];
      }
      const y = labels[rows[i]];
      let rival = 0;
      for (let k = 0; k < classes; k++) if (k !== y && sums[k] > rival) rival = sums[k];
      if (!losses && settled(sums[y] - rival)) {
        settledCorrect += Number(sums[y] > rival);
        continue;
      }
      for (let c = 0; c < candidates.length; c++) {
        const start = (candidates[c] * examples + rows[i]) * classes;
        const reached = sums[y] + values[start + y];
        let k = 0;
        while (k < classes && (k === y || !ahead(sums[k] + values[start + k], k, reached, y))) k++;
        if (k === classes) right[c]++;
        if (losses) losses[c] += nll(reached / (members.length + 1));
      }
    }
    for (let c = 0; c < candidates.length; c++) right[c] += settledCorrect;
  }

  /**
   * @param {number} model
   * @param {number} row
   * @param {Float64Array} into
   */
  distribution(model, row, into) {
    const start = (model * this.answers.examples + row) * this.answers.classes;
    for (let k = 0; k < into.length; k++) into[k] = this.values[start + k];
  }
}

/**
 * The class that most members predict; ties go to the first, and without any prediction there is none.
 * @implements {Store}
 */
export class Votes {
  /** @param {Answers} answers */
  constructor(answers) {
    this.answers = answers;
    /** @type {Store["distribution"]} */
    this.distribution = null;
  }

  /**
   * @param {number[]} members
   * @returns {Combined}
   */
  combine(members) {
    const { examples, classes, predicted } = this.answers;
    const answered = new Int32Array(examples);
    const counts = new Int32Array(classes + 1);
    for (let row = 0; row < examples; row++) {
      for (const member of members) counts[predicted[member * examples + row]]++;
      let [best, top] = [-1, 0];
      for (const member of members) {
        const k = predicted[member * examples + row];
        if (k < classes && (counts[k] > top || (counts[k] === top && k < best))) [best, top] = [k, counts[k]];
      }
      for (const member of members) counts[predicted[member * examples + row]] = 0;
      answered[row] = best;
    }
    return { predicted: answered, confidence: null, label: null, close: new Uint8Array(examples) };
  }

  /** @type {Judge} */
  judge(members, candidates, rows, right, losses) {
    const { examples, classes, labels, predicted } = this.answers;
    const counts = new Int32Array(classes + 1);
    let settledCorrect = 0;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i];
      const y = labels[row];
      for (let m = 0; m < members.length; m++) counts[predicted[members[m] * examples + row]]++;
      let rival = classes;
      let most = 0;
      for (let m = 0; m < members.length; m++) {
        const k = predicted[members[m] * examples + row];
        if (k < classes && k !== y && ahead(counts[k], k, most, rival)) {
          rival = k;
          most = counts[k];
        }
      }
      const open = losses !== null || !settled(counts[y] - most);
      if (!open) settledCorrect += Number(counts[y] > most);
      for (let c = 0; open && c < candidates.length; c++) {
        const k = predicted[candidates[c] * examples + row];
        const reached = counts[y] + Number(k === y);
        const beaten = ahead(most, rival, reached, y) || (k < classes && k !== y && ahead(counts[k] + 1, k, reached, y));
        if (reached > 0 && !beaten) right[c]++;
        if (losses) losses[c] += nll(reached / (members.length + 1));
      }
      for (let m = 0; m < members.length; m++) counts[predicted[members[m] * examples + row]] = 0;
    }
    for (let c = 0; c < candidates.length; c++) right[c] += settledCorrect;
  }
}
