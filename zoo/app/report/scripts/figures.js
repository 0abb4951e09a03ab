// @ts-check
// Vega-Lite specifications of the charts that the page computes.
import { LIMIT, OUTCOMES } from "./comparison.js";

const ANGLES = { domain: [-LIMIT, LIMIT], nice: false };
const STAR = "M0,-1L0.23,-0.32L0.95,-0.31L0.37,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.37,0.12L-0.95,-0.31L-0.23,-0.32Z";
const MAX_NAMED = 20; // classes that an axis names
const pointer = { cursor: "pointer" };

/**
 * Return an axis of models whose labels leave out the `.dataset` that all names end in.
 * @param {string[]} names
 */
export const modelAxis = (names) => {
  const endings = new Set(names.map((name) => /\.[a-zA-Z][^.]*$/.exec(name)?.[0] ?? ""));
  const [ending] = endings.size === 1 ? endings : [""];
  return ending ? { labelExpr: `slice(datum.label, 0, -${ending.length})` } : {};
};

/**
 * @param {{first: string, second: string, value: number | null}[]} cells
 * @param {string[]} order
 * @param {{x: number, y: number, x2: number, y2: number}[] | null} tree
 * @param {{title: string, unit: string}} measure
 */
export function heatmap(cells, order, tree, { title, unit }) {
  const side = Math.max(8, Math.min(36, Math.floor(480 / order.length))) * order.length;
  const fraction = unit === "share";
  // A model with itself would stretch the scale, and so would a few extreme pairs.
  const values = cells.filter(({ first, second, value }) => first !== second && value !== null).map(({ value }) => Number(value)).sort((x, y) => x - y);
  const at = (/** @type {number} */ part) => values[Math.round(part * (values.length - 1))];
  const scale = { scheme: "viridis", ...(values.length && at(0.98) > at(0.02) ? { domain: [at(0.02), at(0.98)], clamp: true } : {}) };
  const labels = { ...modelAxis(order), labelFontSize: order.length > 30 ? 8 : 10, labelLimit: 180, labelOverlap: "greedy" };
  const heat = {
    data: { values: cells },
    mark: { type: "rect", ...pointer },
    width: side,
    height: side,
    encoding: {
      x: { field: "second", type: "nominal", sort: order, title: null, axis: labels },
      y: { field: "first", type: "nominal", sort: order, title: null, axis: labels },
      color: { field: "value", type: "quantitative", title, scale, legend: { format: fraction ? "%" : ".2f", titleLimit: 160 } },
      tooltip: [{ field: "first" }, { field: "second" }, { field: "value", format: fraction ? ".2%" : ".3f", title }],
    },
  };
  if (!tree) return { vconcat: [heat] };
  const branches = {
    data: { values: tree },
    mark: "rule",
    width: side,
    height: 70,
    encoding: {
      x: { field: "x", type: "quantitative", title: null, axis: null, scale: { domain: [-0.5, order.length - 0.5], nice: false } },
      x2: { field: "x2" },
      y: { field: "y", type: "quantitative", title: "distance", axis: { tickCount: 3, format: "%" } },
      y2: { field: "y2" },
    },
  };
  return { vconcat: [branches, heat], spacing: 4 };
}

/**
 * @typedef {{first: string, second: string, category: string, group: string, inconsistency: number, gain_over_mean: number, comparable: boolean}} PairDot
 * @typedef {{domain: string[], range: string[]} | null} Scale of the colours, if they are fixed
 */

/**
 * The fixed colours of the training categories that occur; anything else is grey.
 * @param {import("./data.js").About} about
 * @param {string[]} groups
 */
export function categoryScale({ categoryTitles, categoryColours }, groups) {
  const titles = Object.entries(categoryTitles).filter(([, title]) => groups.includes(title));
  const others = [...new Set(groups)].filter((group) => !titles.some(([, title]) => title === group));
  return {
    domain: [...others, ...titles.map(([, title]) => title)],
    range: [...others.map(() => categoryColours.unknown), ...titles.map(([key]) => categoryColours[key])],
  };
}

/**
 * The colour of a dot by its group.
 * @param {Scale} scale
 * @param {boolean} [named] whether an axis names the groups
 */
const colourOf = (scale, named = false) =>
  ({ field: "group", type: "nominal", title: null, ...(scale ? { scale } : {}), legend: named ? null : { orient: "bottom", columns: 2 } });

/**
 * @param {PairDot[]} dots
 * @param {Scale} colours
 * @param {{slope: number, intercept: number, title: string}} line
 */
export function gains(dots, colours, line) {
  const fitted = dots.filter((dot) => dot.comparable);
  const along = (/** @type {"inconsistency" | "gain_over_mean"} */ field, /** @type {string} */ title) => {
    const values = fitted.map((dot) => dot[field]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const margin = 0.08 * (high - low || 0.01);
    return { field, type: "quantitative", title, axis: { format: "%" }, scale: { zero: false, domain: [low - margin, high + margin] } };
  };
  const x = along("inconsistency", "error inconsistency");
  const y = along("gain_over_mean", "gain over the mean member");
  const color = colourOf(colours);
  const ends = [Math.min, Math.max].map((end) => end(...fitted.map((dot) => dot.inconsistency)));
  const fit = ends.map((at) => ({ inconsistency: at, gain_over_mean: line.slope * at + line.intercept }));
  const tooltip = [
    { field: "first" }, { field: "second" }, { field: "group" },
    { field: "inconsistency", format: ".2%" }, { field: "gain_over_mean", title: "gain", format: "+.2%" },
  ];
  const means = [...new Set(fitted.map((dot) => dot.group))].map((group) => {
    const members = fitted.filter((dot) => dot.group === group);
    const mean = (/** @type {"inconsistency" | "gain_over_mean"} */ of) => members.reduce((total, dot) => total + dot[of], 0) / members.length;
    return { group, inconsistency: mean("inconsistency"), gain_over_mean: mean("gain_over_mean") };
  });
  const opacity = { condition: { test: "datum.comparable", value: 0.7 }, value: 0.2 };
  return {
    title: line.title,
    height: 300,
    layer: [
      { data: { values: fit }, mark: { type: "line", color: "grey", strokeDash: [4, 4] }, encoding: { x, y } },
      { data: { values: dots }, mark: { type: "circle", size: 45, clip: true, ...pointer }, encoding: { x, y, color, opacity, tooltip } },
      { data: { values: means }, mark: { type: "point", shape: STAR, size: 200, filled: true }, encoding: { x, y, color, tooltip: tooltip.slice(2) } },
    ],
  };
}

/**
 * @param {PairDot[]} dots
 * @param {string[]} categories
 * @param {Scale} colours
 */
export function byCategory(dots, categories, colours) {
  const x = { field: "category", type: "nominal", sort: categories, title: null, axis: { labelAngle: 0, labelLimit: 90, labelExpr: "split(replace(datum.label, '-', '- '), ' ')" } };
  const y = { field: "inconsistency", type: "quantitative", title: "error inconsistency", axis: { format: "%" } };
  const values = dots.map((dot, i) => ({ ...dot, jitter: (i * 0.618034) % 1 })); // dots of equal height stay apart
  return {
    height: 300,
    data: { values },
    layer: [
      {
        mark: { type: "circle", opacity: 0.6, size: 45, ...pointer },
        encoding: {
          x, y, xOffset: { field: "jitter", type: "quantitative", scale: { domain: [-0.5, 1.5] } }, color: colourOf(colours, colours !== null),
          tooltip: [{ field: "first" }, { field: "second" }, { field: "inconsistency", format: ".2%" }],
        },
      },
      { mark: { type: "tick", thickness: 3, size: 40, color: "grey" }, encoding: { x, y: { ...y, aggregate: "mean" } } },
    ],
  };
}

/**
 * @param {ReturnType<typeof import("./comparison.js").histogram>} counts
 * @param {string} first
 * @param {string} second
 * @param {(number | null)[]} band
 */
export function angles(counts, first, second, band) {
  const edges = band.filter((edge) => edge !== null);
  const titles = new Map(OUTCOMES.map((outcome) => [outcome, outcome.replace("first", first).replace("second", second).replace(/right$/, "correct")]));
  return {
    data: { values: counts.map((one) => ({ ...one, outcome: titles.get(one.outcome) })) },
    title: { text: `θ > 0: ${first} is more confident`, subtitle: `θ < 0: ${second} is more confident`, fontSize: 11 },
    columns: 2,
    facet: { field: "outcome", type: "nominal", sort: [...titles.values()], title: null },
    resolve: { scale: { y: "independent" } },
    spec: {
      width: 170,
      height: 130,
      layer: [
        {
          mark: "bar",
          encoding: {
            x: { field: "low", bin: "binned", type: "quantitative", title: "θ", scale: ANGLES },
            x2: { field: "high" },
            y: { field: "count", type: "quantitative", title: "examples" },
            color: { field: "outcome", type: "nominal", legend: null, sort: [...titles.values()] },
            tooltip: [{ field: "outcome" }, { field: "low", format: ".2f" }, { field: "high", format: ".2f" }, { field: "count" }],
          },
        },
        ...edges.map((edge) => ({ mark: { type: "rule", strokeDash: [3, 3], opacity: 0.6 }, encoding: { x: { datum: edge } } })),
      ],
    },
  };
}

/**
 * @param {ReturnType<typeof import("./comparison.js").classHistogram>} cells
 * @param {string[]} classes
 * @param {string} first
 */
export function angleByClass(cells, classes, first) {
  const named = cells.map((cell) => ({ ...cell, class: classes[cell.first] + (cell.end - cell.left > 1.01 ? " …" : "") }));
  const few = classes.length <= MAX_NAMED && new Set(classes).size === classes.length;
  const across = few
    ? { x: { field: "class", type: "nominal", title: "class", scale: { domain: classes } } }
    : { x: { field: "left", type: "quantitative", title: "class", scale: { domain: [-0.5, classes.length - 0.5], nice: false } }, x2: { field: "end" } };
  return {
    data: { values: named },
    height: 280,
    mark: "rect",
    encoding: {
      ...across,
      y: { field: "low", type: "quantitative", title: `θ  (upwards: ${first} more confident)`, scale: ANGLES },
      y2: { field: "high" },
      color: { field: "count", type: "quantitative", title: "examples", scale: { scheme: "viridis" } },
      tooltip: [{ field: "class" }, { field: "low", format: ".2f" }, { field: "count" }],
    },
  };
}
