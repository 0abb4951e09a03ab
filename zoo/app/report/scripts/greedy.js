// @ts-check
// Greedy search over some of the models, as `ensembles.greedy` does it: again and again the model that helps most on the
// selection examples. Equal scores are decided by the lower NLL, and then by name.

export const TIE = 1e-10; // scores nearer to each other than this are equal
const JUDGED = 16384; // candidates on examples, before the page may answer

/**
 * @typedef {import("./data.js").Data} Data
 * @typedef {import("./combining.js").Store} Store
 * @typedef {() => Promise<boolean>} GoOn whether the numbers are still wanted; gives way to the page
 */

/**
 * @typedef {object} Rules
 * @property {number} picks members at most
 * @property {number[]} [base] members to start with
 * @property {(members: number[]) => number} [spent] what an ensemble costs
 * @property {number} [limit] of the cost
 * @property {number | null} [chance] what knowing nothing scores, where the best gain for its cost is wanted
 */

/**
 * @typedef {object} Path
 * @property {number[]} members
 * @property {number} size how many are worth taking
 * @property {number[]} selection accuracy, as members are added
 * @property {number[]} test
 * @property {Int8Array} gained on each test example, by those worth taking over the first
 * @property {number} close share of test examples of which their class may be another one with exact probabilities
 */

/**
 * Accuracy of the members with each candidate as one more and, where wanted, the NLL.
 * @param {Store} store
 * @param {number[]} members
 * @param {number[]} candidates
 * @param {Int32Array} rows
 * @param {GoOn} goOn
 * @returns {Promise<{right: Float64Array, losses: Float64Array | null} | null>}
 */
export async function judge(store, members, candidates, rows, goOn, nll = false) {
  const right = new Float64Array(candidates.length);
  const losses = nll ? new Float64Array(candidates.length) : null;
  const some = Math.max(1, Math.floor(JUDGED / candidates.length));
  for (let start = 0; start < rows.length; start += some) {
    if (!(await goOn())) return null;
    store.judge(members, candidates, rows.subarray(start, start + some), right, losses);
  }
  const mean = (/** @type {number} */ total) => total / rows.length;
  return { right: right.map(mean), losses: losses && losses.map(mean) };
}

/**
 * The places of the greatest of these numbers.
 * @param {ArrayLike<number>} scores
 */
function greatest(scores) {
  const places = Array.from(scores, (_, place) => place);
  const top = Math.max(...places.map((place) => scores[place]));
  return places.filter((place) => scores[place] >= top - TIE);
}

/**
 * One search.
 * @param {Store} store
 * @param {number[]} candidates in the order of their names
 * @param {Int32Array} rows
 * @param {Rules} rules
 * @param {GoOn} goOn
 * @returns {Promise<{members: number[], scores: number[]} | null>}
 */
export async function grow(store, candidates, rows, { picks, base = [], spent = () => 0, limit = Infinity, chance = null }, goOn) {
  /** @type {number[]} */
  const members = [];
  /** @type {number[]} */
  const scores = [];
  while (members.length < picks) {
    const left = base.length > members.length ? [base[members.length]] : candidates.filter((model) => !members.includes(model));
    const open = left.filter((model) => spent([...members, model]) <= limit);
    if (!open.length) break;
    const trial = await judge(store, members, open, rows, goOn);
    if (!trial) return null;
    const { right } = trial;
    const before = scores.at(-1) ?? chance ?? 0;
    const rates = chance === null ? right : right.map((score, i) => rate(score - before, spent([...members, open[i]]) - spent(members)));
    let tied = greatest(rates);
    if (tied.length > 1) {
      const again = await judge(store, members, tied.map((place) => open[place]), rows, goOn, true);
      if (!again?.losses) return null;
      tied = greatest(again.losses.map((loss) => -loss)).map((place) => tied[place]);
    }
    members.push(open[tied[0]]);
    scores.push(right[tied[0]]);
  }
  return { members, scores };
}

/**
 * What costs nothing comes first if it helps; a loss is worth its size, whatever it costs.
 * @param {number} gain
 * @param {number} price
 */
const rate = (gain, price) => (gain <= 0 ? gain : price <= 0 ? Infinity : gain / price);

/**
 * The path of a search among these models; it starts from the base, or where that is not one of them from the best model.
 * @param {Data} data
 * @param {number[]} models
 * @param {GoOn} goOn
 * @returns {Promise<Path | null>}
 */
export async function greedy({ about, answers, store, rows }, models, goOn) {
  const { base, steps } = about.search;
  const candidates = about.byName.filter((model) => models.includes(model));
  const start = base !== null && models.includes(base) ? [base] : [];
  const found = await grow(store, candidates, rows.selection, { picks: steps + 1, base: start }, goOn);
  if (!found) return null;
  const { members, scores } = found;
  const top = Math.max(...scores);
  const size = scores.findIndex((score) => score >= top - TIE) + 1;
  /** @type {Path} */
  const path = { members, size, selection: [], test: [], gained: new Int8Array(rows.test.length), close: 0 };
  for (let count = 1; count <= members.length; count++) {
    if (!(await goOn())) return null;
    const { predicted, close } = store.combine(members.slice(0, count));
    const right = (/** @type {number} */ row) => Number(predicted[row] === answers.labels[row]);
    for (const half of /** @type {["selection", "test"]} */ (["selection", "test"])) {
      path[half].push(rows[half].reduce((total, row) => total + right(row), 0) / rows[half].length);
    }
    if (count === 1) rows.test.forEach((row, i) => (path.gained[i] -= right(row)));
    if (count !== size) continue;
    rows.test.forEach((row, i) => (path.gained[i] += right(row)));
    path.close = rows.test.reduce((total, row) => total + close[row], 0) / rows.test.length;
  }
  return path;
}

/**
 * The model that is right most often on the selection examples.
 * @param {Data} data
 * @param {number[]} models
 */
export function bestModel({ about, answers, store, rows }, models) {
  const { examples, labels, predicted, confidence } = answers;
  const candidates = about.byName.filter((model) => models.includes(model));
  const hits = candidates.map((model) => rows.selection.reduce((total, row) => total + Number(predicted[model * examples + row] === labels[row]), 0));
  const tied = greatest(hits).map((place) => candidates[place]);
  if (!confidence || tied.length === 1) return tied[0];
  const losses = new Float64Array(tied.length);
  store.judge([], tied, rows.selection, new Float64Array(tied.length), losses);
  return tied[greatest(losses.map((loss) => -loss))[0]];
}
