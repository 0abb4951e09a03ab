// @ts-check
// Greedy search among some of the models, as in `ensembles.greedy`: add the model that improves accuracy most on the
// selection examples. Ties are broken by the lower NLL, and then by name.

const TIE = 1e-10; // scores closer than this are equal
const JUDGED = 16384; // candidates x examples before the page may respond

/**
 * @typedef {import("./data.js").Data} Data
 * @typedef {import("./combining.js").Store} Store
 * @typedef {() => Promise<boolean>} GoOn whether the numbers are still needed; lets the page respond
 */

/**
 * @typedef {object} Path
 * @property {number[]} members
 * @property {number} size members of the best ensemble
 * @property {number[]} selection accuracy, as members are added
 * @property {number[]} test
 * @property {Uint8Array[]} correct [steps] whether the ensemble of each size is correct, for each test example
 * @property {number} close fraction of test examples whose prediction could differ with exact probabilities
 */

/**
 * Return the accuracy of the members with each candidate added, and if asked for, the NLL.
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
 * Return the indices of the largest numbers.
 * @param {ArrayLike<number>} scores
 */
function greatest(scores) {
  const places = Array.from(scores, (_, place) => place);
  const top = Math.max(...places.map((place) => scores[place]));
  return places.filter((place) => scores[place] >= top - TIE);
}

/**
 * Return the members in the order of a search, and the accuracy with each; the search begins with `start`.
 * @param {Store} store
 * @param {number[]} candidates in the order of their names
 * @param {Int32Array} rows
 * @param {number} picks
 * @param {number[]} start
 * @param {GoOn} goOn
 * @returns {Promise<{members: number[], scores: number[]} | null>}
 */
async function grow(store, candidates, rows, picks, start, goOn) {
  /** @type {number[]} */
  const members = [];
  /** @type {number[]} */
  const scores = [];
  while (members.length < Math.min(picks, candidates.length)) {
    const open = start.length > members.length ? [start[members.length]] : candidates.filter((model) => !members.includes(model));
    const trial = await judge(store, members, open, rows, goOn);
    if (!trial) return null;
    let tied = greatest(trial.right);
    if (tied.length > 1) {
      const again = await judge(store, members, tied.map((place) => open[place]), rows, goOn, true);
      if (!again?.losses) return null;
      tied = greatest(again.losses.map((loss) => -loss)).map((place) => tied[place]);
    }
    members.push(open[tied[0]]);
    scores.push(trial.right[tied[0]]);
  }
  return { members, scores };
}

/**
 * Return the path of a search among these models. It starts from the base, or if that is hidden, from the best model.
 * @param {Data} data
 * @param {number[]} models
 * @param {GoOn} goOn
 * @returns {Promise<Path | null>}
 */
export async function greedy({ about, answers, store, rows }, models, goOn) {
  const { base, steps } = about.search;
  const candidates = about.byName.filter((model) => models.includes(model));
  const start = base !== null && models.includes(base) ? [base] : [];
  const found = await grow(store, candidates, rows.selection, steps + 1, start, goOn);
  if (!found) return null;
  const { members, scores } = found;
  const top = Math.max(...scores);
  const size = scores.findIndex((score) => score >= top - TIE) + 1;
  /** @type {Path} */
  const path = { members, size, selection: [], test: [], correct: [], close: 0 };
  for (let count = 1; count <= members.length; count++) {
    if (!(await goOn())) return null;
    const { predicted, close } = store.combine(members.slice(0, count));
    const right = (/** @type {number} */ row) => Number(predicted[row] === answers.labels[row]);
    for (const half of /** @type {["selection", "test"]} */ (["selection", "test"])) {
      path[half].push(rows[half].reduce((total, row) => total + right(row), 0) / rows[half].length);
    }
    path.correct.push(Uint8Array.from(rows.test, right));
    if (count === size) path.close = rows.test.reduce((total, row) => total + close[row], 0) / rows.test.length;
  }
  return path;
}

/**
 * Return the most accurate model on the selection examples.
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
