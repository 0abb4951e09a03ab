// @ts-check
// Combine members from their top classes, with a bound on the predictions that could differ.
import { ahead, blank, settled, nll } from "./combining.js";

/**
 * @typedef {import("./combining.js").Answers} Answers
 * @typedef {import("./combining.js").Store} Store
 */

// Probabilities by their codes, 1 to 255.
const LOGARITHMIC = Float64Array.from({ length: 256 }, (_, code) => Math.exp(-0.07 * (code - 1)));

/**
 * Each model's top classes and the true one. The other classes share the remaining probability evenly.
 * @implements {Store}
 */
export class TopClasses {
  /**
   * @param {Answers} answers
   * @param {ArrayLike<number>} classes [models x examples x kept] the classes behind the predicted one
   * @param {ArrayLike<number>} ratios probability relative to the class before, times 255
   * @param {ArrayLike<number>} label code of the log probability of the true class if it is not among these, else 0
   */
  constructor(answers, classes, ratios, label) {
    this.answers = answers;
    this.classes = classes;
    this.ratios = ratios;
    this.label = label;
    this.kept = classes.length / (answers.models * answers.examples);
    this.listed = new Int32Array(this.kept + 2); // classes and probabilities of one model and example
    this.chances = new Float64Array(this.kept + 2);
    this.count = 0;
    this.each = 0; // probability given to every other class
    this.most = 0; // and its upper bound
    const count = answers.classes;
    this.known = new Float64Array(count); // sums over the members that list a class: of its probability,
    this.given = new Float64Array(count); // of what they give to a class that they do not list,
    this.taken = new Float64Array(count); // and of the upper bound of such a class
    this.touched = new Int32Array(count); // the classes that some member lists
    this.seen = new Uint8Array(count);
    this.spread = 0; // what all members give to a class that they do not list,
    this.room = 0; // and its upper bound
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
      const labelChance = Math.min(p, LOGARITHMIC[code]);
      left -= labelChance;
      listed[count] = labels[row];
      chances[count++] = labelChance;
    }
    const others = this.answers.classes - count;
    if (left < 0) left = 0;
    this.count = count;
    this.each = others > 0 ? left / others : 0;
    this.most = others > 0 ? Math.min(p, left) : 0;
  }

  /**
   * Sum over all members, for one example.
   * @param {number[]} members
   * @param {number} row
   * @returns {number} how many classes are touched
   */
  gather(members, row) {
    const { listed, chances, known, given, taken, touched, seen } = this;
    let count = 0;
    this.spread = this.room = 0;
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
      this.spread += each;
      this.room += most;
    }
    return count;
  }

  /** @param {number} count */
  clear(count) {
    const { known, given, taken, touched, seen } = this;
    for (let i = 0; i < count; i++) {
      const k = touched[i];
      known[k] = given[k] = taken[k] = seen[k] = 0;
    }
  }

  /** @param {number[]} members */
  combine(members) {
    const { examples, classes, labels } = this.answers;
    const { known, given, taken, touched } = this;
    const found = blank(examples);
    const step = (this.kept * members.length) / 510; // the largest effect of rounding the ratios
    for (let row = 0; row < examples; row++) {
      const count = this.gather(members, row);
      const { spread, room } = this;
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
      // The winner has at least its listed probability. Could another class have more?
      let rival = count < classes ? room : -1;
      for (let i = 0; i < count; i++) {
        const k = touched[i];
        if (k !== best) rival = Math.max(rival, known[k] + room - taken[k]);
      }
      found.close[row] = Number(rival + step >= known[best] - step);
      this.clear(count);
    }
    return found;
  }

  /**
   * A candidate lists the true class and few others. Of the classes that it does not list, which all get the same from it,
   * only the members' best can win: with `kept` + 2 classes listed at most, it is among their first `kept` + 3.
   * @type {import("./combining.js").Judge}
   */
  judge(members, candidates, rows, right, losses) {
    const { labels } = this.answers;
    const { listed, chances, known, given, touched } = this;
    const leaders = new Int32Array(this.kept + 3);
    const sums = new Float64Array(this.kept + 3);
    const judged = new Int32Array(this.answers.classes); // which candidate a class was last listed by
    let turn = 0;
    let settledCorrect = 0;
    for (let i = 0; i < rows.length; i++) {
      const y = labels[rows[i]];
      const count = this.gather(members, rows[i]);
      const { spread } = this;
      let led = 0;
      for (let j = 0; j < count; j++) {
        const k = touched[j];
        const value = known[k] + spread - given[k];
        let place = led < leaders.length ? led++ : ahead(value, k, sums[led - 1], leaders[led - 1]) ? led - 1 : -1;
        if (place < 0) continue;
        for (; place > 0 && ahead(value, k, sums[place - 1], leaders[place - 1]); place--) {
          leaders[place] = leaders[place - 1];
          sums[place] = sums[place - 1];
        }
        leaders[place] = k;
        sums[place] = value;
      }
      const labelSum = known[y] + spread - given[y];
      const rival = led === 0 ? 0 : leaders[0] !== y ? sums[0] : led > 1 ? sums[1] : 0;
      const open = losses !== null || !settled(labelSum - rival);
      if (!open) settledCorrect += Number(labelSum > rival);
      for (let c = 0; open && c < candidates.length; c++) {
        this.read(candidates[c], rows[i]);
        const { count: kept, each } = this;
        turn++;
        let reached = labelSum;
        for (let j = 0; j < kept; j++) {
          judged[listed[j]] = turn;
          if (listed[j] === y) reached += chances[j];
        }
        let next = 0;
        while (next < led && judged[leaders[next]] === turn) next++;
        let beaten = next < led && ahead(sums[next] + each, leaders[next], reached, y);
        for (let j = 0; j < kept && !beaten; j++) {
          const k = listed[j];
          beaten = k !== y && ahead(known[k] + spread - given[k] + chances[j], k, reached, y);
        }
        if (!beaten) right[c]++;
        if (losses) losses[c] += nll(reached / (members.length + 1));
      }
      this.clear(count);
    }
    for (let c = 0; c < candidates.length; c++) right[c] += settledCorrect;
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
