// @ts-check
// Charts: a Vega-Lite specification drawn as wide as its place, in the page's colours.
/* global vegaEmbed */
import { breathe } from "./dom.js";

const PANEL = 150; // pixels that a panel needs at least, its axis included
const NARROW = 420; // pixels; legends then stand below their charts, each below the other
const SQUARE = 560; // pixels; a square chart that fills a wide place is no higher
const MANY = 2500; // marks from which on pixels are drawn instead of shapes

/** @typedef {any} Spec a Vega-Lite specification */
/** @typedef {any} View of Vega */

/** @type {Map<string, View>} */
export const views = new Map();
/** @type {Map<string, Spec>} */
export const specs = new Map();

// Charts take their colours from the page, so that both colour schemes and paper read well.
const theme = (/** @type {number} */ room) => {
  const style = getComputedStyle(document.documentElement);
  const [ink, soft, line] = ["--ink", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
  const below = { orient: "bottom", columns: 2, layout: { bottom: { direction: "vertical", anchor: "start" } } };
  return {
    background: "transparent",
    font: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    title: { color: ink, subtitleColor: soft, limit: room - 20 },
    axis: { labelColor: soft, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, labelLimit: 150, titleLimit: 240 },
    legend: {
      labelColor: soft, titleColor: ink, labelLimit: 220, symbolBaseFillColor: soft, symbolBaseStrokeColor: soft,
      ...(room < NARROW ? below : {}),
    },
    header: { labelColor: soft, titleColor: ink },
    view: { stroke: line },
    text: { color: ink },
    rule: { color: soft },
  };
};

/**
 * Of several views Vega cannot fill a place: a drawing shows what axes, legends and gaps take, the views share the rest.
 * @param {HTMLElement} target
 * @param {Spec} spec
 * @param {(spec: Spec) => Promise<any>} embed
 */
const embedViews = async (target, spec, embed) => {
  const room = target.clientWidth;
  const parts = spec.vconcat ?? [spec.spec];
  if (spec.facet) spec.columns = Math.max(1, Math.min(spec.columns ?? 1, panels(spec), Math.floor(room / PANEL)));
  const across = spec.facet ? spec.columns : 1;
  for (let pass = 0; ; pass++) {
    const result = await embed(pass ? structuredClone(spec) : trial(spec));
    const drawn = /** @type {Element} */ (target.querySelector("svg, canvas")).getBoundingClientRect().width;
    const light = !pass && datasets(spec).some((rows) => rows.length > MANY);
    if (pass === 2 || (!light && drawn <= room && drawn > 0.97 * room)) return result;
    result.view.finalize();
    const width = Math.max(60, parts[0].width + Math.floor((room - drawn) / across) - 1);
    for (const part of parts) {
      if (part.height === part.width) part.height = Math.min(width, Math.max(part.height, SQUARE)); // within reason
      part.width = width;
    }
    if (spec.facet) spec.facet.header = { ...spec.facet.header, labelLimit: width };
  }
};

/**
 * A specification to be drawn for its measures alone: of many pairs only those of a model with itself, which have all names.
 * @param {Spec} spec
 * @returns {Spec}
 */
const trial = (spec) => {
  const copy = structuredClone(spec);
  for (const rows of datasets(copy)) {
    if (rows.length > MANY) rows.splice(0, rows.length, ...rows.filter((row) => row.first === row.second));
  }
  return copy;
};

const panels = (/** @type {Spec} */ spec) => {
  const rows = spec.datasets?.[spec.data?.name] ?? spec.data?.values ?? [];
  return new Set(rows.map((/** @type {any} */ row) => row[spec.facet.field])).size || Infinity;
};

/**
 * Every list of rows inside a specification.
 * @param {Spec} spec
 * @returns {any[][]}
 */
export const datasets = (spec) => [
  .../** @type {any[][]} */ (Object.values(spec.datasets ?? {})),
  ...(Array.isArray(spec.data?.values) ? [spec.data.values] : []),
  ...[...(spec.layer ?? []), ...(spec.vconcat ?? []), ...(spec.spec ? [spec.spec] : [])].flatMap(datasets),
];

/**
 * Draw a figure anew; a later call for the same figure wins.
 * @param {string} id
 * @param {Spec} spec
 * @returns {Promise<View | null>}
 */
export async function draw(id, spec) {
  const figure = document.getElementById(id);
  const target = /** @type {HTMLElement | null} */ (figure?.querySelector(".chart") ?? null);
  if (!figure || !target) return null;
  specs.set(id, spec);
  await breathe(); // words and numbers come first
  if (specs.get(id) !== spec) return null; // a later call has come in between
  const many = datasets(spec).some((rows) => rows.length > MANY);
  const embed = (/** @type {Spec} */ one) =>
    vegaEmbed(target, one, { renderer: many ? "canvas" : "svg", actions: false, config: theme(target.clientWidth), ast: false });
  const copy = structuredClone(spec);
  if (!copy.facet && !copy.vconcat) Object.assign(copy, { width: "container", autosize: { type: "fit-x", contains: "padding" } });
  try {
    const { view } = await (copy.vconcat || copy.facet ? embedViews(target, copy, embed) : embed(copy));
    views.get(id)?.finalize();
    views.set(id, view);
    figure.dataset.drawn = "yes";
    return view;
  } catch (error) {
    target.textContent = "This chart could not be drawn: " + /** @type {Error} */ (error).message;
    console.error(id, error);
    return null;
  }
}

/** Draw all figures again, as when the place or the colours have changed. */
export async function drawAll() {
  for (const figure of document.querySelectorAll("figure[id]")) {
    const spec = specs.get(figure.id);
    if (!spec) continue;
    await draw(figure.id, spec);
  }
}

/** Call when the width of the page or its colour scheme changes.
 * @param {() => void} redraw
 */
export function onChange(redraw) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = innerWidth; // phones report a resize when their address bar hides
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    if (innerWidth !== width) waiting = setTimeout(() => ((width = innerWidth), redraw()), 200);
  });
}
