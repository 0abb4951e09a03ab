// @ts-check
// Read the data inside the page: the models, their predictions, and how predictions are combined. Arrays are base64 of
// compressed bytes, with one plane of bytes after the other.
import { AllClasses, Votes } from "./combining.js";
import { byId } from "./dom.js";
import { TopClasses } from "./topclasses.js";

/**
 * @typedef {import("./combining.js").Answers} Answers
 * @typedef {import("./combining.js").Store} Store
 * @typedef {import("./measures.js").Measure} Measure
 * @typedef {{name: string, short: string, fields: Record<string, string>, parameters: number | null, flops: number | null}} Model
 */

/**
 * @typedef {object} Chosen the models that the report singles out, chosen on the selection examples
 * @property {[number, number] | null} pair
 * @property {number} best
 * @property {number[]} path
 * @property {number} size members of the best ensemble on the path
 * @property {{selection: number[], test: number[]}} [exact] accuracy of the first members of the path, by their number
 * @property {number} sufficient members of the smallest ensemble that is not significantly worse
 * @property {number[][]} front
 */

/**
 * @typedef {object} PairRow two models on all examples
 * @property {number} first
 * @property {number} second
 * @property {string | null} category
 * @property {Record<string, number | null>} values the measures that are averaged by category
 */

/**
 * @typedef {object} About
 * @property {number} examples
 * @property {string[]} classes
 * @property {Model[]} models
 * @property {number[]} table the models in the order of the page's table
 * @property {string | null} data
 * @property {string | null} imported
 * @property {string} population
 * @property {{kind: string, planes: number, top: number}} kept
 * @property {Measure[]} measures
 * @property {string[]} matrix measures that the heatmap offers
 * @property {string[]} categories
 * @property {Record<string, string>} categoryTitles
 * @property {Record<string, string>} categoryColours
 * @property {Record<string, string>} sentences templates by name
 * @property {number} band largest difference of comparable accuracies, in percentage points
 * @property {{first: number[], second: number[], category: (string | null)[], inconsistency: number[], gain_over_mean?: number[]} & Record<string, any[]>} pairs and the other measures that are averaged by category
 * @property {(number | null)[][]} cka of the embeddings on the test examples; the embeddings are not in the page
 * @property {{order: number[], segments: {x: number[], y: number[], x2: number[], y2: number[]}}} tree
 * @property {Chosen} chosen of all models
 * @property {{base: number | null, steps: number, seed: import("./statistics.js").Seed}} search that found the path
 * @property {number[]} byName the models in the order of their names
 * @property {number} allPairs models up to which every pair is compared; of more, the pairs with the best one
 * @property {import("./statistics.js").Seed} seed
 * @property {{side: number, across: number, rows: number[]} | null} tiles
 */

/**
 * @typedef {object} Data
 * @property {About} about
 * @property {string[]} names of the models
 * @property {string[]} short names without the ending that all share
 * @property {string[]} ids
 * @property {Answers} answers
 * @property {Store} store
 * @property {ArrayLike<number> | null} right correct predictions of the ensemble of each pair, if the stored probabilities are not exact
 * @property {Uint8Array} half 0 for selection, 1 for test
 * @property {Record<string, Int32Array>} rows of "all", "selection" and "test"
 * @property {Uint8Array} kinds [models x models] index of `about.categories`; their number if unknown, one more for a shared initialisation
 * @property {Map<string, PairRow>} pairs by both models; pairs that the page computes are added
 */

/** @param {string} id */
const text = (id) => byId(id).textContent ?? "";
/** @param {string} name */
const block = (name) => unpack(text(`block-${name}`));
const bytesFor = (/** @type {number} */ most) => (most < 256 ? 1 : most < 65536 ? 2 : 3);

/** @returns {Promise<Data>} */
export async function read() {
  /** @type {About} */
  const about = JSON.parse(text("about"));
  const { examples, kept } = about;
  const classes = about.classes.length;
  const [half, labels, predicted, ids, kinds] = await Promise.all(["half", "labels", "predicted", "ids", "kinds"].map(block));
  /** @type {Answers} */
  const answers = {
    models: about.models.length,
    examples,
    classes,
    labels: join(labels, bytesFor(classes)),
    predicted: join(predicted, bytesFor(classes)),
    confidence: kept.kind === "votes" ? null : confidences(join(await block("confidence"), kept.planes), kept.planes),
  };
  const all = Int32Array.from({ length: examples }, (_, row) => row);
  return {
    about,
    names: about.models.map((model) => model.name),
    short: about.models.map((model) => model.short),
    ids: JSON.parse(new TextDecoder().decode(ids)),
    answers,
    store: await readStore(answers, kept),
    right: kept.kind === "top" ? join(await block("right"), 3) : null,
    half,
    rows: { all, selection: all.filter((row) => half[row] === 0), test: all.filter((row) => half[row] === 1) },
    kinds,
    pairs: readPairs(about),
  };
}

/**
 * @param {About} about
 * @returns {Map<string, PairRow>}
 */
function readPairs({ pairs, measures }) {
  const averaged = measures.filter(({ name }) => name in pairs).map(({ name }) => name);
  return new Map(pairs.first.map((first, i) => {
    const second = pairs.second[i];
    const values = Object.fromEntries(averaged.map((name) => [name, pairs[name][i]]));
    return [`${first},${second}`, { first, second, category: pairs.category[i], values }];
  }));
}

/**
 * The training category of two models; null if unknown.
 * @param {Data} data
 * @param {number} a
 * @param {number} b
 */
export const categoryOf = ({ about, kinds }, a, b) => about.categories[kinds[a * about.models.length + b]] ?? null;

/**
 * Whether two models were trained from the same initial weights; such pairs are left out of comparisons of categories.
 * @param {Data} data
 * @param {number} a
 * @param {number} b
 */
export const sharesInitialisation = ({ about, kinds }, a, b) => kinds[a * about.models.length + b] > about.categories.length;

/**
 * @param {Data} data
 * @param {string | null} category
 */
export const categoryTitle = ({ about }, category) => about.categoryTitles[category ?? "unknown"];

/**
 * How many test examples of each cell the ensemble of two models gets right; null if the stored probabilities are exact.
 * @param {Data} data
 * @param {number} a
 * @param {number} b
 * @returns {number[] | null}
 */
export function exactRight({ right, answers }, a, b) {
  if (!right) return null;
  const [i, j] = a < b ? [a, b] : [b, a];
  const place = 5 * (i * answers.models - (i * (i + 1)) / 2 + (j - i - 1)); // of all pairs i < j, in order
  const [both, first, second, same, different] = Array.from({ length: 5 }, (_, cell) => right[place + cell]);
  return a < b ? [both, first, second, same, different] : [both, second, first, same, different];
}

/**
 * @param {Answers} answers
 * @param {About["kept"]} kept
 * @returns {Promise<Store>}
 */
async function readStore(answers, kept) {
  if (kept.kind === "votes") return new Votes(answers);
  if (kept.kind === "all") {
    const most = 256 ** kept.planes - 1;
    return new AllClasses(answers, squares(join(await block("others"), kept.planes), kept.planes), 1 / most);
  }
  const [classes, ratios, truth] = await Promise.all(["classes", "ratios", "truth"].map(block));
  return new TopClasses(answers, join(classes, bytesFor(answers.classes - 1)), ratios, truth);
}

/**
 * @param {string} text base64 of zlib's format
 * @returns {Promise<Uint8Array>}
 */
export async function unpack(text) {
  const letters = atob(text);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Return whole numbers from their planes of bytes, the least significant first.
 * @param {Uint8Array} bytes
 * @param {number} planes
 * @returns {Uint8Array | Uint16Array | Uint32Array}
 */
export function join(bytes, planes) {
  if (planes === 1) return bytes;
  const count = bytes.length / planes;
  const numbers = planes === 2 ? new Uint16Array(count) : new Uint32Array(count);
  for (let plane = 0; plane < planes; plane++) {
    const offset = plane * count;
    const weight = 256 ** plane;
    for (let i = 0; i < count; i++) numbers[i] += bytes[offset + i] * weight;
  }
  return numbers;
}

/**
 * Return probabilities that are stored as square roots, which are precise for small ones.
 * @param {ArrayLike<number>} numbers
 * @param {number} planes
 * @returns {Float32Array}
 */
export function squares(numbers, planes) {
  const most = 256 ** planes - 1;
  const values = new Float32Array(numbers.length);
  for (let i = 0; i < values.length; i++) values[i] = (numbers[i] / most) ** 2;
  return values;
}

/**
 * Return confidences that are stored as square roots of 1 - confidence, which are precise for confident models.
 * @param {ArrayLike<number>} numbers
 * @param {number} planes
 * @returns {Float64Array}
 */
export function confidences(numbers, planes) {
  const most = 256 ** planes - 1;
  const values = new Float64Array(numbers.length);
  for (let i = 0; i < values.length; i++) values[i] = 1 - (numbers[i] / most) ** 2;
  return values;
}
