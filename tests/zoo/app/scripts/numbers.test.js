// The page's own arithmetic against numbers that NumPy, SciPy and the package's functions gave (in the file TRUTH names).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { from, readStore } from "./stores.js";

const truth = JSON.parse(readFileSync(process.env.TRUTH, "utf8"));
const near = (found, expected, within = 1e-9) =>
  assert.ok(Math.abs(found - expected) <= within * Math.max(1, Math.abs(expected)), `${found}, expected ${expected}`);

test("resamples have the multinomial distribution", async () => {
  const { resample } = await from("statistics");
  const draws = 4000;
  for (const { counts, quantiles, fractions, covariance } of truth.resamples) {
    const drawn = resample(counts, { seed: 1, draws });
    const total = counts.reduce((sum, count) => sum + count, 0);
    for (const one of drawn) assert.equal(one.reduce((sum, count) => sum + count, 0), total);
    counts.forEach((_, cell) => quantiles[cell].forEach((at, i) => {
      const expected = fractions[cell][i];
      const found = drawn.filter((one) => one[cell] <= at).length / draws;
      assert.ok(Math.abs(found - expected) <= 4.5 * Math.sqrt((expected * (1 - expected)) / draws), `${counts}: ${found}, expected ${expected}`);
    }));
    const products = drawn.map((one) => (one[0] - counts[0]) * (one[1] - counts[1]));
    const mean = products.reduce((sum, one) => sum + one, 0) / draws;
    const error = Math.sqrt(products.reduce((sum, one) => sum + (one - mean) ** 2, 0)) / draws;
    assert.ok(Math.abs(mean - covariance[0][1]) <= 4.5 * error, `${mean}, expected ${covariance[0][1]}`);
  }
});

test("resampled means have the mean and the spread of a bootstrap", async () => {
  const { resampledMeans } = await from("statistics");
  const values = truth.percentiles.values;
  const [n, draws] = [values.length, 4000];
  const mean = values.reduce((sum, value) => sum + value, 0) / n;
  const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0)) / n;
  const [means] = await resampledMeans([values], { seed: 1, draws }, async () => true);
  const found = means.reduce((sum, one) => sum + one, 0) / draws;
  assert.ok(Math.abs(found - mean) <= (4.5 * spread) / Math.sqrt(draws));
  near(Math.sqrt(means.reduce((sum, one) => sum + (one - found) ** 2, 0) / draws), spread, 4.5 / Math.sqrt(2 * draws));
});

test("tests and intervals are SciPy's", async () => {
  const { holm, mcnemar, percentileInterval, wilson } = await from("statistics");
  for (const { first, second, p } of truth.mcnemar) near(mcnemar(first, second), p);
  for (const { share, count, ends } of truth.wilson) wilson(share, count).forEach((end, i) => near(end, ends[i]));
  holm(truth.holm.p).forEach((p, i) => near(p, truth.holm.adjusted[i]));
  percentileInterval(truth.percentiles.values).forEach((end, i) => near(end, truth.percentiles.ends[i]));
});

test("numbers are written as Python writes them", async () => {
  const { digits, fixed, percent, points } = await from("format");
  const { general } = await from("findings");
  for (const { value, percent: share, digits: three, two, points: signed, general: two_digits } of truth.format) {
    assert.equal(points(value), signed);
    if (value > 0 && value <= 1) assert.equal(general(value), two_digits);
    assert.equal(percent(value), share);
    assert.equal(digits(value), three);
    assert.equal(fixed(value, 2), two);
  }
});

test("members are combined as the package does", async () => {
  const { score } = await from("ensemble");
  for (const given of truth.stores) {
    const { kept, labels, ensembles } = given;
    const { answers, store } = await readStore(given);
    const rows = labels.map((_, row) => row);
    const close = new Set();
    for (const { members, predicted, nll } of ensembles) {
      const found = store.combine(members);
      const wrong = rows.filter((row) => found.predicted[row] !== predicted[row]);
      // Whatever differs was said to be close: the bound holds.
      assert.ok(wrong.every((row) => found.close[row]), `${kept.kind}: ${wrong}`);
      if (kept.kind !== "top") assert.deepEqual(wrong, []);
      for (const one of found.close) close.add(one);
      if (nll !== null) near(score(answers, found, members, rows, truth.seed).nll, nll, { 3: 1e-6, 2: kept.kind === "all" ? 1e-4 : 0.03 }[kept.planes]);
    }
    if (kept.kind === "top") assert.deepEqual([...close].sort(), [0, 1]); // some predictions could differ, some could not
  }
});

test("an address gives back the state it was made from", async () => {
  const { fromHash, toHash } = await from("state");
  const examples = { label: null, outcome: "any", least: 0, most: 4, half: "all", sort: "disagreement", descending: true, words: "", said: [] };
  const initial = { pair: [0, 1], on: "test", members: [0], colour: "family", matrix: "inconsistency", hidden: {}, examples, open: null };
  const known = { models: ["a,b", "c&d=#", "<i>%", "ש"], ids: ["x y", "é,1"], fields: ["family", "a=b"], initial };
  const state = {
    pair: [2, 3], on: "all", members: [1, 2, 3], colour: "a=b", matrix: "kappa", hidden: { family: ["x,y", "&"], model: ["ש"] }, open: 1,
    examples: { label: 0, outcome: "all-wrong", least: 1, most: 3, half: "test", sort: "theta", descending: false, words: "50% & more", said: [[1, 2], [0, -1]] },
  };
  assert.deepEqual(fromHash(toHash(state, known), known), state);
  assert.deepEqual(fromHash("", known), initial);
  for (const broken of ["#pair=a", "#pair=%E0%A4%A,x", "#nothing", "#pair=zz,yy&right=9&example=none&hide:zz=1"]) {
    assert.deepEqual(fromHash(broken, known).pair, [0, 1]);
  }
});

test("examples are found by what models predict", async () => {
  const { choose, facts } = await from("examples");
  const answers = { models: 2, examples: 4, classes: 3, labels: [0, 0, 1, 2], predicted: [0, 1, 1, 0, 0, 0, 1, 1] };
  const given = { pair: [0, 1], models: 2, half: [0, 0, 1, 1], ids: ["a", "b", "c", "d"], order: () => [] };
  const found = (choice) => [...choose(answers, facts(answers, [0, 1]), {
    label: null, outcome: "any", least: 0, most: 2, half: "all", sort: "row", descending: false, words: "", said: [], ...choice }, given)];
  assert.deepEqual(found({ said: [[0, 1]] }), [1, 2]);
  assert.deepEqual(found({ said: [[0, 1], [1, 0]] }), [1]);
  assert.deepEqual(found({ said: [[0, -1]] }), [1, 3]); // wrong
  assert.deepEqual(found({ said: [[0, -1]], label: 0 }), [1]);
  assert.deepEqual(found({ outcome: "apart" }), [1]);
});

test("an exact accuracy corrects what follows from it", async () => {
  const { corrected } = await from("ensemble");
  const found = corrected({ accuracy: 0.5, gain: 0.1, gainInterval: [0, 0.2], gainOverMean: 0.3, close: 0.01, best: 0.4 }, 0.6, 100);
  near(found.accuracy - found.gain, 0.4);
  assert.deepEqual([found.close, found.best], [0, 0.4]);
  near(found.gainInterval[1], 0.3);
  assert.ok(found.interval[0] < 0.6 && found.interval[1] > 0.6);
});

test("a grid of panels has full rows if that takes few more of them", async () => {
  const { columnsOf } = await from("drawing");
  assert.deepEqual([columnsOf(12, 5), columnsOf(4, 2), columnsOf(3, 5), columnsOf(7, 5), columnsOf(5, 0)], [4, 2, 3, 5, 1]);
});

test("recipes are quoted for the shell and for Python", async () => {
  const { pythonLine, shellLine } = await from("ensemble");
  const recipe = { data: "digits:test", imported: null, votes: false };
  assert.equal(shellLine(["a", "it's $(x)"], recipe), `zoo ensemble combine a 'it'\\''s $(x)' --data digits:test`);
  assert.equal(
    pythonLine(["a", 'b"c'], recipe),
    'runs = zoo.calibrate(zoo.run(["a", "b\\"c"], data="digits:test")); ensembles.greedy(runs, base=runs.names)',
  );
  assert.equal(shellLine(["a"], { ...recipe, imported: "folder" }), "");
});

test("tables are saved as CSV, Markdown and LaTeX", async () => {
  const { tableText } = await from("downloads");
  const [head, rows, numeric] = [["model", "accuracy"], [["a_b|c", "91.2%"], ["=x", "3"]], [false, true]];
  assert.equal(tableText(head, rows, numeric, "csv"), "model,accuracy\na_b|c,91.2%\n'=x,3\n");
  assert.equal(tableText(head, rows, numeric, "md"), "| model | accuracy |\n| --- | ---: |\n| a_b\\|c | 91.2% |\n| =x | 3 |\n");
  const latex = tableText(head, rows, numeric, "tex");
  assert.ok(latex.startsWith("\\begin{tabular}{lr}\n"));
  assert.ok(latex.includes("a\\_b|c & 91.2\\% \\\\"));
});

test("legends have at most ten entries", async () => {
  const { coloured, limited } = await from("groups");
  const given = Array.from({ length: 40 }, (_, i) => `g${i % 5 ? i % 5 : i}`);
  const groups = new Set(limited(given));
  assert.equal(groups.size, 10);
  assert.ok(groups.has("other") && groups.has("g1"));
  const { scale } = coloured(given.map((kind) => ({ name: "", short: "", fields: { kind }, parameters: null, flops: null })), "kind");
  assert.deepEqual(new Set(scale.domain), groups);
  assert.equal(new Set(scale.range).size, 10);
  assert.equal(scale.domain.at(-1), "other");
});

test("an axis does not repeat the dataset that all names end in", async () => {
  const { modelAxis } = await from("figures");
  assert.deepEqual(modelAxis(["resnet7-softmax.cifar10", "head.cifar10"]), { labelExpr: "slice(datum.label, 0, -8)" });
  for (const names of [["a.cifar10", "b.digits"], ["wd-0.001", "lr-0.001"], ["a", "b.digits"], []]) {
    assert.deepEqual(modelAxis(names), {});
  }
});
