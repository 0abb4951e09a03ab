// What the page chooses when models are hidden, compared with what the package finds for the others (in the file TRUTH).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { from, readStore } from "./stores.js";

const truth = JSON.parse(readFileSync(process.env.TRUTH, "utf8"));
const wanted = async () => true;
const near = (found, expected) => assert.ok(Math.abs(found - expected) < 1e-9, `${found}, expected ${expected}`);

/** What the page knows, of a store with the examples that choose and those that judge. */
async function page(given) {
  const { selection, test: judging, byName, band, sentences } = truth.setup;
  const { answers, store } = await readStore(given);
  const rows = { selection: Int32Array.from(selection), test: Int32Array.from(judging), all: Int32Array.from(given.labels.keys()) };
  const measures = Object.keys(given.searches[0].pairs[0]).filter((key) => !["first", "second"].includes(key));
  const about = {
    search: { base: null, steps: 4, seed: truth.seed }, byName, allPairs: truth.setup.allPairs, categories: [], band, sentences,
    models: byName.map(() => ({})),
    measures: measures.map((measure) => ({ name: measure })), pairs: Object.fromEntries(measures.map((measure) => [measure, []])),
  };
  return { about, answers, store, rows, kinds: new Uint8Array(36), pairs: new Map(), short: byName.map((model) => `m${model}`) };
}

/** The best candidate for one more member, each ensemble put together as the page shows it. */
function tryAll({ answers, store, rows }, members, candidates) {
  const scored = candidates.map((model) => {
    const { predicted, label } = store.combine([...members, model]);
    const right = rows.selection.filter((row) => predicted[row] === answers.labels[row]).length;
    const votes = (row) => [...members, model].filter((one) => answers.predicted[one * answers.examples + row] === answers.labels[row]).length;
    const share = (row) => Math.max(label ? label[row] : votes(row) / (members.length + 1), 2 ** -126);
    return { model, right, loss: -rows.selection.reduce((total, row) => total + Math.log(share(row)), 0) / rows.selection.length };
  });
  return scored.sort((a, b) => b.right - a.right || (Math.abs(a.loss - b.loss) > 1e-10 ? a.loss - b.loss : a.model - b.model))[0].model;
}

for (const given of truth.stores) {
  const name = `${given.kept.kind} ${given.kept.planes} ${given.kept.top}`;
  const coarse = given.kept.kind === "top" && given.kept.top < 6; // of seven classes

  test(`each pick is the best of all: ${name}`, async () => {
    const { greedy } = await from("greedy");
    const data = await page(given);
    for (const { shown } of given.searches) {
      const { members } = await greedy(data, shown, wanted);
      members.forEach((model, i) => {
        const before = members.slice(0, i);
        assert.equal(tryAll(data, before, shown.filter((one) => !before.includes(one))), model);
      });
    }
  });

  test(`greedy search among the models shown: ${name}`, { skip: coarse }, async () => {
    const { greedy } = await from("greedy");
    const { smallestSufficient } = await from("findings");
    const { percent } = await from("format");
    const { percentileInterval, resampledMeans } = await from("statistics");
    const data = await page(given);
    for (const { shown, base, path } of given.searches) {
      data.about.search.base = base;
      const found = await greedy(data, shown, wanted);
      assert.deepEqual(found.members, path.members);
      assert.equal(found.size, path.size);
      assert.deepEqual(found.selection.map((one) => percent(one)), path.selection);
      assert.deepEqual(found.test.map((one) => percent(one)), path.test);
      assert.equal(smallestSufficient(found).size, path.sufficient);
      const gained = Int8Array.from(found.correct[found.size - 1], (value, i) => value - found.correct[0][i]);
      const [means] = await resampledMeans([gained], { ...truth.seed, draws: 1000 }, wanted);
      const width = path.interval[1] - path.interval[0]; // the ends of two bootstraps of 1,000 resamples differ by less than 15% of it
      percentileInterval(means).forEach((end, i) => assert.ok(Math.abs(end - path.interval[i]) <= 0.15 * width + 0.01, `${end}, expected ${path.interval[i]}`));
    }
  });

  test(`the best model and pair among the models shown: ${name}`, { skip: coarse }, async () => {
    const { bestModel } = await from("greedy");
    const { bestPair } = await from("pairs");
    const data = await page(given);
    for (const { shown, best, pair } of given.searches) {
      assert.equal(bestModel(data, shown), best);
      assert.deepEqual(await bestPair(data, shown, best, wanted), pair);
    }
  });

  test(`pairs that did not come with the page: ${name}`, { skip: coarse }, async () => {
    const { gainLine, pairRows } = await from("pairs");
    const data = await page(given);
    for (const { shown, best, pairs, line } of given.searches) {
      const found = await pairRows(data, shown, best, wanted);
      assert.deepEqual(found.map(({ first, second }) => [first, second]), pairs.map(({ first, second }) => [first, second]));
      found.forEach(({ values }, i) => {
        for (const [measure, value] of Object.entries(values)) near(value, pairs[i][measure]);
        assert.deepEqual(Object.keys(values), Object.keys(data.about.pairs));
      });
      assert.equal(gainLine(data, found)?.title ?? null, line);
    }
  });
}

test("a search that is not wanted any more ends", async () => {
  const { greedy } = await from("greedy");
  let asked = 0;
  assert.equal(await greedy(await page(truth.stores[0]), [0, 1, 2], async () => asked++ < 2), null);
  assert.equal(asked, 3);
});

test("ranks correlate as SciPy's do", async () => {
  const { spearman } = await from("findings");
  near(spearman(truth.ranks.x, truth.ranks.y), truth.ranks.rho);
});

test("the finding on transfer is computed for the models shown", async () => {
  const { ofTransfer } = await from("findings");
  const given = "Class separation and transfer to digits:test (1,797 examples) have a rank correlation of 0.12 over 9 recipes (p = 0.76).";
  const rows = [1, 2, 3, 4, 5].map((x) => ({ "class separation": x, transfer: 1 / x }));
  const found = ofTransfer(given, rows);
  assert.equal(found.number, "ρ = -1.00");
  assert.ok(found.sentence.includes("(1,797 examples) have a rank correlation of -1.00 over 5 models."));
  assert.equal(ofTransfer(given, rows.slice(1)), null);
});
