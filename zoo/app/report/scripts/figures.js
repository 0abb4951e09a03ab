// @ts-check
// The specifications of the charts that the page computes itself.
import { LIMIT, OUTCOMES } from "./comparison.js";

const ANGLES = { domain: [-LIMIT, LIMIT], nice: false };
const STAR = "M0,-1L0.23,-0.32L0.95,-0.31L0.37,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.37,0.12L-0.95,-0.31L-0.23,-0.32Z";
const NAMED = 20; // classes up to which an axis names them
const pointer = { cursor: "pointer" };

/**
 * An axis of models that does not repeat the `.dataset` in which all their names end.
 * @param {string[]} names
 */
export const modelAxis = (names) => {
  const endings = new Set(names.map((name) => /\.[a-zA-Z][^.]*$/.exec(name)?.[0] ?? ""));
  const [ending] = endings.size === 1 ? endings : [""];
  return ending ? { labelExpr: `slice(datum.label, 0, -${ending.length})` } : {};
};

/**
 * @param {{first: string, second: string, value: number}[]} cells
 * @param {string[]} order
 * @param {{x: number, y: number, x2: number, y2: number}[] | null} tree
 */
export function heatmap(cells, order, tree) {
  const side = Math.max(8, Math.min(36, Math.floor(480 / order.length))) * order.length;
  const heat = {
    data: { values: cells },
    mark: { type: "rect", ...pointer },
    width: side,
    height: side,
    encoding: {
      x: { field: "second", type: "nominal", sort: order, title: null, axis: modelAxis(order) },
      y: { field: "first", type: "nominal", sort: order, title: null, axis: modelAxis(order) },
      color: { field: "value", type: "quantitative", title: null, scale: { scheme: "viridis" }, legend: { format: "%" } },
      tooltip: [{ field: "first" }, { field: "second" }, { field: "value", format: ".2%", title: "one right" }],
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
      y: { field: "y", type: "quantitative", title: "distance", axis: { tickCount: 3 } },
      y2: { field: "y2" },
    },
  };
  return { vconcat: [branches, heat], spacing: 4 };
}

/**
 * @typedef {{first: string, second: string, group: string, inconsistency: number, gain_over_mean: number}} PairDot
 * @param {PairDot[]} dots
 * @param {string[] | null} groups in their order
 * @param {{slope: number, intercept: number, title: string}} line
 */
export function gains(dots, groups, line) {
  const x = { field: "inconsistency", type: "quantitative", title: "error inconsistency", axis: { format: "%" }, scale: { zero: false } };
  const y = { field: "gain_over_mean", type: "quantitative", title: "gain over the mean member", axis: { format: "%" }, scale: { zero: false } };
  const color = { field: "group", type: "nominal", title: null, sort: groups };
  const ends = [Math.min, Math.max].map((end) => end(...dots.map((dot) => dot.inconsistency)));
  const fit = ends.map((at) => ({ inconsistency: at, gain_over_mean: line.slope * at + line.intercept }));
  const tooltip = [
    { field: "first" }, { field: "second" }, { field: "group" },
    { field: "inconsistency", format: ".2%" }, { field: "gain_over_mean", title: "gain", format: "+.2%" },
  ];
  const means = [...new Set(dots.map((dot) => dot.group))].map((group) => {
    const own = dots.filter((dot) => dot.group === group);
    const mean = (/** @type {"inconsistency" | "gain_over_mean"} */ of) => own.reduce((total, dot) => total + dot[of], 0) / own.length;
    return { group, inconsistency: mean("inconsistency"), gain_over_mean: mean("gain_over_mean") };
  });
  return {
    title: line.title,
    height: 300,
    layer: [
      { data: { values: fit }, mark: { type: "line", color: "grey", strokeDash: [4, 4] }, encoding: { x, y } },
      { data: { values: dots }, mark: { type: "circle", opacity: 0.6, size: 45, ...pointer }, encoding: { x, y, color, tooltip } },
      { data: { values: means }, mark: { type: "point", shape: STAR, size: 200, filled: true }, encoding: { x, y, color, tooltip: tooltip.slice(2) } },
    ],
  };
}

/**
 * @param {{first: string, second: string, category: string, group: string, inconsistency: number}[]} dots
 * @param {string[]} categories
 * @param {string[] | null} groups
 */
export function byCategory(dots, categories, groups) {
  const x = { field: "category", type: "nominal", sort: categories, title: null, axis: { labelAngle: 0 } };
  const y = { field: "inconsistency", type: "quantitative", title: "error inconsistency", axis: { format: "%" } };
  return {
    height: 300,
    data: { values: dots },
    layer: [
      {
        mark: { type: "circle", opacity: 0.6, size: 45, ...pointer },
        encoding: {
          x, y, color: { field: "group", type: "nominal", title: null, sort: groups },
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
  const titles = new Map(OUTCOMES.map((outcome) => [outcome, outcome.replace("only first", `only ${first}`).replace("only second", `only ${second}`)]));
  return {
    data: { values: counts.map((one) => ({ ...one, outcome: titles.get(one.outcome) })) },
    title: { text: `← ${second} surer · ${first} surer →`, fontSize: 11 },
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
  const few = classes.length <= NAMED && new Set(classes).size === classes.length;
  const across = few
    ? { x: { field: "class", type: "nominal", title: "class", scale: { domain: classes } } }
    : { x: { field: "left", type: "quantitative", title: "class", scale: { domain: [-0.5, classes.length - 0.5], nice: false } }, x2: { field: "end" } };
  return {
    data: { values: named },
    height: 280,
    mark: "rect",
    encoding: {
      ...across,
      y: { field: "low", type: "quantitative", title: `θ  (${first} surer upwards)`, scale: ANGLES },
      y2: { field: "high" },
      color: { field: "count", type: "quantitative", title: "examples", scale: { scheme: "viridis" } },
      tooltip: [{ field: "class" }, { field: "low", format: ".2f" }, { field: "count" }],
    },
  };
}
