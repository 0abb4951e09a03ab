// @ts-check
// The Pareto front of cost and accuracy on the selection examples, as in `ensembles.pareto`. Of few models every subset is
// tried, of many those that greedy searches find under several budgets.
import { grow, judge, TIE } from "./greedy.js";

const MAX_SIZE = 5; // members, as in the stored front
const MAX_SUBSETS = 5000;
const LIMITS = 12;

/**
 * @typedef {import("./data.js").Data} Data
 * @typedef {import("./greedy.js").GoOn} GoOn
 * @typedef {{members: number[], score: number}} Scored
 */

/**
 * @param {Data} data
 * @param {number[]} models
 * @param {GoOn} goOn
 * @param {number} most number of subsets up to which every one is tried
 * @returns {Promise<number[][] | null>} the members of each, the cheapest first
 */
export async function front({ about, store, rows, answers }, models, goOn, most = MAX_SUBSETS) {
  const pool = about.byName.filter((model) => models.includes(model));
  const spent = (/** @type {number[]} */ members) => members.reduce((total, model) => total + Number(about.models[model].parameters), 0);
  const tried = await (countSubsets(pool.length) <= most
    ? everySubset(store, pool, rows.selection, goOn)
    : underLimits(store, pool, rows.selection, spent, 1 / answers.classes, goOn));
  if (!tried) return null;
  const priced = tried.map(({ members, score }) => ({ members, score, cost: spent(members) }));
  priced.sort((a, b) => a.cost - b.cost || b.score - a.score || a.members.length - b.members.length || inOrder(a.members, b.members));
  const found = [];
  let best = -Infinity;
  for (const { members, score } of priced) {
    if (score <= best + TIE) continue;
    best = score;
    found.push(members);
  }
  return found;
}

/**
 * @param {number[]} a
 * @param {number[]} b
 */
function inOrder(a, b) {
  const place = a.findIndex((model, i) => model !== b[i]);
  return place < 0 ? 0 : a[place] - b[place];
}

/** @param {number} models */
function countSubsets(models) {
  let [subsets, ways] = [0, 1];
  for (let size = 1; size <= Math.min(MAX_SIZE, models); size++) {
    ways = (ways * (models - size + 1)) / size;
    subsets += ways;
  }
  return subsets;
}

/**
 * @param {import("./combining.js").Store} store
 * @param {number[]} pool
 * @param {Int32Array} rows
 * @param {GoOn} goOn
 */
async function everySubset(store, pool, rows, goOn) {
  /** @type {Scored[]} */
  const tried = [];
  /** @type {number[][]} */
  const waiting = [[]];
  for (let start = waiting.pop(); start; start = waiting.pop()) {
    const members = start;
    const later = pool.slice(members.length ? pool.indexOf(members[members.length - 1]) + 1 : 0);
    if (!later.length) continue;
    const trial = await judge(store, members, later, rows, goOn);
    if (!trial) return null;
    later.forEach((model, i) => tried.push({ members: [...members, model], score: trial.right[i] }));
    if (members.length + 1 < MAX_SIZE) waiting.push(...later.map((model) => [...members, model]));
  }
  return tried;
}

/**
 * @param {import("./combining.js").Store} store
 * @param {number[]} pool
 * @param {Int32Array} rows
 * @param {(members: number[]) => number} spent
 * @param {number} chance
 * @param {GoOn} goOn
 */
async function underLimits(store, pool, rows, spent, chance, goOn) {
  /** @type {Map<string, Scored>} */
  const tried = new Map();
  const least = Math.max(1e-300, Math.min(...pool.map((model) => spent([model]))));
  const most = Math.max(least, spent(pool));
  for (let i = 0; i < LIMITS; i++) {
    const limit = (i === LIMITS - 1 ? most : least * (most / least) ** (i / (LIMITS - 1))) * (1 + 1e-9);
    for (const wanted of [null, chance]) {
      const found = await grow(store, pool, rows, { picks: MAX_SIZE, spent, limit, chance: wanted }, goOn);
      if (!found) return null;
      found.scores.forEach((score, last) => {
        const members = found.members.slice(0, last + 1);
        tried.set(members.join(","), { members, score });
      });
    }
  }
  return [...tried.values()];
}
