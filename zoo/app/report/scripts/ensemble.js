// @ts-check
// Any ensemble: its scores on the selection and test examples, and the command and line of Python that build it.
import { nll } from "./combining.js";
import { ratio } from "./measures.js";
import { percentileInterval, resample, wilson } from "./statistics.js";

const BINS = 15; // of confidence, for the expected calibration error

/**
 * @typedef {import("./combining.js").Answers} Answers
 * @typedef {import("./combining.js").Store} Store
 * @typedef {import("./combining.js").Combined} Combined
 */

/**
 * @typedef {object} Score of an ensemble on some rows
 * @property {number} accuracy
 * @property {[number, number]} interval
 * @property {number} best accuracy of the best member
 * @property {number} gain over the best member
 * @property {[number, number]} gainInterval
 * @property {number} gainOverMean
 * @property {number} conversion
 * @property {number | null} nll
 * @property {number | null} ece
 * @property {number} close fraction of examples whose prediction could differ with exact probabilities
 */

/**
 * @param {Answers} answers
 * @param {Combined} combined
 * @param {number[]} members
 * @param {ArrayLike<number>} rows
 * @param {import("./statistics.js").Seed} seed
 * @returns {Score}
 */
export function score(answers, combined, members, rows, seed) {
  const { examples, labels, predicted } = answers;
  const n = rows.length;
  const hits = new Float64Array(members.length);
  let [right, some, converted, close] = [0, 0, 0, 0];
  for (let i = 0; i < n; i++) {
    const row = rows[i];
    let count = 0;
    for (let m = 0; m < members.length; m++) {
      if (predicted[members[m] * examples + row] === labels[row]) {
        hits[m]++;
        count++;
      }
    }
    const hit = combined.predicted[row] === labels[row];
    right += Number(hit);
    close += combined.close[row];
    if (count > 0 && count < members.length) {
      some++;
      converted += Number(hit);
    }
  }
  const first = hits.indexOf(Math.max(...hits));
  let [lost, gained] = [0, 0];
  for (let i = 0; i < n; i++) {
    const row = rows[i];
    const memberCorrect = predicted[members[first] * examples + row] === labels[row];
    const hit = combined.predicted[row] === labels[row];
    if (memberCorrect && !hit) lost++;
    if (hit && !memberCorrect) gained++;
  }
  const draws = resample([lost, n - lost - gained, gained], seed).map(([less, , more]) => (more - less) / n);
  const accuracy = right / n;
  return {
    accuracy,
    interval: wilson(accuracy, n),
    best: hits[first] / n,
    gain: accuracy - hits[first] / n,
    gainInterval: percentileInterval(draws),
    gainOverMean: accuracy - hits.reduce((total, count) => total + count / n, 0) / members.length,
    conversion: ratio(converted, some),
    nll: combined.label && logLoss(combined.label, rows),
    ece: combined.confidence && calibrationError(combined, labels, rows),
    close: close / n,
  };
}

/**
 * A score whose accuracy is known exactly, although the page has the probabilities of some classes only.
 * @param {Score} found
 * @param {number} accuracy
 * @param {number} examples
 * @returns {Score}
 */
export function corrected(found, accuracy, examples) {
  const change = accuracy - found.accuracy;
  const [low, high] = found.gainInterval;
  return {
    ...found, accuracy, interval: wilson(accuracy, examples), gain: found.gain + change, gainInterval: [low + change, high + change],
    gainOverMean: found.gainOverMean + change, close: 0,
  };
}

/**
 * @param {Float64Array} label
 * @param {ArrayLike<number>} rows
 */
function logLoss(label, rows) {
  let total = 0;
  for (let i = 0; i < rows.length; i++) total += nll(label[rows[i]]);
  return total / rows.length;
}

/**
 * @param {Combined} combined
 * @param {ArrayLike<number>} labels
 * @param {ArrayLike<number>} rows
 */
function calibrationError({ predicted, confidence }, labels, rows) {
  const excess = new Float64Array(BINS);
  if (!confidence) return NaN;
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i];
    const certainty = Math.fround(confidence[row]);
    const bin = Math.max(1, Math.min(BINS, Math.ceil(Math.fround(certainty * BINS)))) - 1;
    excess[bin] += certainty - Number(predicted[row] === labels[row]);
  }
  return excess.reduce((total, one) => total + Math.abs(one), 0) / rows.length;
}

/**
 * Return the accuracy that the ensemble loses without each member. Lets the page respond after each member.
 * @param {Answers} answers
 * @param {Store} store
 * @param {number[]} members
 * @param {ArrayLike<number>} rows
 * @param {number} accuracy of all members
 * @param {() => Promise<boolean>} goOn whether the numbers are still needed
 * @returns {Promise<number[] | null>}
 */
export async function contributions({ labels }, store, members, rows, accuracy, goOn) {
  const found = [];
  for (const member of members) {
    if (!(await goOn())) return null;
    const { predicted } = store.combine(members.filter((other) => other !== member));
    let right = 0;
    for (let i = 0; i < rows.length; i++) right += Number(predicted[rows[i]] === labels[rows[i]]);
    found.push(accuracy - right / rows.length);
  }
  return found;
}

/** @typedef {{data: string | null, imported: string | null, votes: boolean}} Recipe */

/** @param {string} text */
const forShell = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** @param {string} text */
const forPython = (text) => JSON.stringify(text);

/**
 * @param {string[]} members
 * @param {Recipe} recipe
 */
export function shellLine(members, { data, imported, votes }) {
  if (imported) return ""; // the command takes models and stored outputs, not files
  const parts = ["zoo ensemble combine", ...members.map(forShell)];
  if (data) parts.push("--data", forShell(data));
  if (votes) parts.push("--votes");
  return parts.join(" ");
}

/**
 * @param {string[]} members
 * @param {Recipe} recipe
 */
export function pythonLine(members, { data, imported, votes }) {
  const list = `[${members.map(forPython).join(", ")}]`;
  const runs = imported
    ? `zoo.Runs(zoo.import_outputs(${forPython(imported)})[name] for name in ${list})`
    : `zoo.run(${list}${data ? `, data=${forPython(data)}` : ""})`;
  return votes
    ? `runs = ${runs}; ensembles.greedy(runs, base=runs.names, kind="predictions")`
    : `runs = zoo.calibrate(${runs}); ensembles.greedy(runs, base=runs.names)`;
}
