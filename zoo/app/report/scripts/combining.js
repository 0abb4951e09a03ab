// @ts-check
// Members put together, example by example: the mean of all classes' probabilities, of the top classes' where all do not
// fit into the page, or the vote of predicted classes.

/**
 * What an ensemble says of every example. `close` marks those whose class might be another one with exact probabilities.
 * @typedef {object} Combined
 * @property {Int32Array} predicted -1 for no answer
 * @property {Float64Array | null} confidence
 * @property {Float64Array | null} label probability of the true class
 * @property {Uint8Array} close
 */

/**
 * @typedef {object} Answers what all models say, [models x examples]
 * @property {number} models
 * @property {number} examples
 * @property {number} classes
 * @property {ArrayLike<number>} labels
 * @property {ArrayLike<number>} predicted the number of classes for no answer
 * @property {Float64Array | null} confidence
 */

/**
 * @typedef {object} Store
 * @property {(members: number[]) => Combined} combine
 * @property {((model: number, row: number, into: Float64Array) => void) | null} distribution
 */

/**
 * @param {number} examples
 * @returns {Combined & {confidence: Float64Array, label: Float64Array}}
 */
const blank = (examples) => ({
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

// Probabilities by their codes, 1 to 255.
const LOGARITHMIC = Float64Array.from({ length: 256 }, (_, code) => Math.exp(-0.07 * (code - 1)));

/**
 * Each model's top classes and the true one; the others share what is left evenly.
 * @implements {Store}
 */
export class TopClasses {
  /**
   * @param {Answers} answers
   * @param {ArrayLike<number>} classes [models x examples x kept] the classes behind the predicted one
   * @param {ArrayLike<number>} ratios each one's probability over that before it, of 255
   * @param {ArrayLike<number>} label of the true class where it is none of these: the logarithm of its probability, else 0
   */
  constructor(answers, classes, ratios, label) {
    this.answers = answers;
    this.classes = classes;
    this.ratios = ratios;
    this.label = label;
    this.kept = classes.length / (answers.models * answers.examples);
    this.listed = new Int32Array(this.kept + 2); // what is known of one model and example: classes and probabilities
    this.chances = new Float64Array(this.kept + 2);
    this.count = 0;
    this.each = 0; // what every other class is given
    this.most = 0; // and could have at most
  }

  /**
   * @param {number} model
   * @param {number} row
   */
  read(model, row) {
    const { listed, chances, ratios, kept } = this;
    const { examples, labels, predicted, confidence } = this.answers;
    const at = model * examples + row;
    let p = /** @type {Float64Array} */ (confidence)[at];
    let left = 1 - p;
    let count = 1;
    listed[0] = predicted[at];
    chances[0] = p;
    for (let i = at * kept; count <= kept; i++) {
      p *= ratios[i] / 255;
      left -= p;
      listed[count] = this.classes[i];
      chances[count++] = p;
    }
    const code = this.label[at];
    if (code !== 0) {
      const own = Math.min(p, LOGARITHMIC[code]);
      left -= own;
      listed[count] = labels[row];
      chances[count++] = own;
    }
    const others = this.answers.classes - count;
    if (left < 0) left = 0;
    this.count = count;
    this.each = others > 0 ? left / others : 0;
    this.most = others > 0 ? Math.min(p, left) : 0;
  }

  /** @param {number[]} members */
  combine(members) {
    const { examples, classes, labels } = this.answers;
    const found = blank(examples);
    const step = (this.kept * members.length) / 510; // what the ratios' rounding may add up to
    const known = new Float64Array(classes); // sums over the members that know a class: of its probability,
    const given = new Float64Array(classes); // of what they give to a class that they do not know,
    const taken = new Float64Array(classes); // and of what such a class could have at most
    const touched = new Int32Array(classes);
    const seen = new Uint8Array(classes);
    const { listed, chances } = this;
    for (let row = 0; row < examples; row++) {
      let spread = 0;
      let room = 0;
      let count = 0;
      for (let m = 0; m < members.length; m++) {
        this.read(members[m], row);
        const { each, most, count: kept } = this;
        for (let i = 0; i < kept; i++) {
          const k = listed[i];
          if (seen[k] === 0) {
            seen[k] = 1;
            touched[count++] = k;
          }
          known[k] += chances[i];
          given[k] += each;
          taken[k] += most;
        }
        spread += each;
        room += most;
      }
      let best = -1;
      let top = -1;
      for (let i = 0; i < count; i++) {
        const k = touched[i];
        const value = known[k] + spread - given[k];
        if (value > top || (value === top && k < best)) {
          best = k;
          top = value;
        }
      }
      const y = labels[row];
      found.predicted[row] = best;
      found.confidence[row] = top / members.length;
      found.label[row] = (known[y] + spread - given[y]) / members.length;
      // The winner has at least what is known of it. Could another class have more?
      let rival = count < classes ? room : -1;
      for (let i = 0; i < count; i++) {
        const k = touched[i];
        if (k !== best) rival = Math.max(rival, known[k] + room - taken[k]);
      }
      found.close[row] = Number(rival + step >= known[best] - step);
      for (let i = 0; i < count; i++) {
        const k = touched[i];
        known[k] = given[k] = taken[k] = seen[k] = 0;
      }
    }
    return found;
  }

  /**
   * @param {number} model
   * @param {number} row
   * @param {Float64Array} into
   */
  distribution(model, row, into) {
    this.read(model, row);
    into.fill(this.each);
    for (let i = 0; i < this.count; i++) into[this.listed[i]] = this.chances[i];
  }
}

/**
 * The class most members predict, of equal counts the first; where nobody answers, none.
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
}
