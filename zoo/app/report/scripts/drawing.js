// @ts-check
// Charts: draw a Vega-Lite specification as wide as its element, in the page's colours.
/* global vegaEmbed */
import { breathe } from "./dom.js";

const MIN_PANEL = 150; // pixels of a panel with its axis
const NARROW = 420; // pixels; in narrower elements legends are below the chart
const MAX_SQUARE = 760; // pixels of a square chart's side
const MAX_SHAPES = 5000; // marks; charts with more are drawn on a canvas
const PAPER = 640; // pixels of a chart on paper

/** @typedef {any} Spec a Vega-Lite specification */
/** @typedef {any} View of Vega */

/** @type {Map<string, View>} */
export const views = new Map();
/** @type {Map<string, Spec>} */
export const specs = new Map();

const LIGHT = ["#1b1f24", "#59636e", "#d9dee4"]; // of downloads: text, secondary text, lines

/** The colours of the page, which differ in light, dark and print. */
const pageColours = () => {
  const style = getComputedStyle(document.documentElement);
  return ["--ink", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
};

/**
 * @param {number} room width of the element
 * @param {string[]} colours
 */
const theme = (room, [ink, soft, line]) => {
  const below = { orient: "bottom", columns: 2, layout: { bottom: { direction: "vertical", anchor: "start" } } };
  return {
    background: "transparent",
    font: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    title: { color: ink, subtitleColor: soft, limit: room - 20 },
    axis: { labelColor: soft, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, labelLimit: 150, titleLimit: 0 },
    legend: {
      labelColor: soft, titleColor: ink, labelLimit: 220, symbolBaseFillColor: soft, symbolBaseStrokeColor: soft,
      ...(room < NARROW ? below : {}),
    },
    header: { labelColor: soft, titleColor: ink, labelFontSize: room < NARROW ? 8 : 10 },
    view: { stroke: line },
    text: { color: ink },
    rule: { color: soft },
  };
};

/**
 * Draw several views so that they fill an element, which Vega cannot do: a first drawing measures axes, legends and gaps.
 * @param {HTMLElement} target
 * @param {Spec} spec
 * @param {(spec: Spec) => Promise<any>} embed
 */
const embedViews = async (target, spec, embed) => {
  const room = target.clientWidth;
  const parts = spec.vconcat ?? [spec.spec];
  if (spec.facet) spec.columns = columnsOf(panels(spec), Math.min(spec.columns ?? 1, Math.floor(room / (room < NARROW ? spec.spec.width : MIN_PANEL))));
  const across = spec.facet ? spec.columns : 1;
  const square = parts.some((/** @type {Spec} */ part) => part.height === part.width) && !spec.facet;
  for (let pass = 0; ; pass++) {
    const result = await embed(pass ? structuredClone(spec) : trial(spec));
    const drawn = /** @type {Element} */ (target.querySelector("svg, canvas")).getBoundingClientRect().width;
    const light = !pass && datasets(spec).some((rows) => rows.length > MAX_SHAPES);
    const filled = drawn > 0.97 * room || (square && parts[0].width >= MAX_SQUARE);
    if (pass === 2 || (!light && drawn <= room && filled)) return result;
    result.view.finalize();
    const width = Math.max(60, parts[0].width + Math.floor((room - drawn) / across) - 1);
    for (const part of parts) {
      if (square) {
        const side = Math.min(width, MAX_SQUARE);
        if (part.height === part.width) part.height = side;
        part.width = side;
      } else {
        if (part.height === part.width) part.height = width; // panels stay squares
        part.width = width;
      }
    }
    if (spec.facet) spec.facet.header = { ...spec.facet.header, labelLimit: width };
  }
};

/**
 * A specification for measuring only: of many pairs it keeps those of a model with itself, which have all names.
 * @param {Spec} spec
 * @returns {Spec}
 */
const trial = (spec) => {
  const copy = structuredClone(spec);
  for (const rows of datasets(copy)) {
    if (rows.length > MAX_SHAPES) rows.splice(0, rows.length, ...rows.filter((row) => row.first === row.second));
  }
  return copy;
};

/**
 * The number of columns of a grid: the last row is full if that takes few more rows, because Vega draws axes below gaps too.
 * @param {number} count panels
 * @param {number} most columns
 */
export const columnsOf = (count, most) => {
  const largest = Math.max(1, Math.min(count, most));
  let columns = largest;
  while (columns > 1 && count % columns) columns--;
  return 4 * columns >= 3 * largest ? columns : largest;
};

const panels = (/** @type {Spec} */ spec) => {
  const rows = spec.datasets?.[spec.data?.name] ?? spec.data?.values ?? [];
  return new Set(rows.map((/** @type {any} */ row) => row[spec.facet.field])).size || Infinity;
};

/**
 * Return every list of rows inside a specification.
 * @param {Spec} spec
 * @returns {any[][]}
 */
export const datasets = (spec) => [
  .../** @type {any[][]} */ (Object.values(spec.datasets ?? {})),
  ...(Array.isArray(spec.data?.values) ? [spec.data.values] : []),
  ...[...(spec.layer ?? []), ...(spec.vconcat ?? []), ...(spec.spec ? [spec.spec] : [])].flatMap(datasets),
];

/**
 * @param {HTMLElement} target
 * @param {Spec} spec
 * @param {string[]} colours
 * @param {string} background
 * @returns {Promise<View>}
 */
async function embedInto(target, spec, colours, background = "transparent") {
  const many = datasets(spec).some((rows) => rows.length > MAX_SHAPES);
  const config = { ...theme(target.clientWidth, colours), background };
  const embed = (/** @type {Spec} */ one) => vegaEmbed(target, one, { renderer: many ? "canvas" : "svg", actions: false, config, ast: false });
  const copy = structuredClone(spec);
  if (!copy.facet && !copy.vconcat) Object.assign(copy, { width: "container", autosize: { type: "fit-x", contains: "padding" } });
  return (await (copy.vconcat || copy.facet ? embedViews(target, copy, embed) : embed(copy))).view;
}

/**
 * Draw a figure. If it is called again for the same figure, the last call wins.
 * @param {string} id
 * @param {Spec} spec
 * @returns {Promise<View | null>}
 */
export async function draw(id, spec) {
  const figure = document.getElementById(id);
  const target = /** @type {HTMLElement | null} */ (figure?.querySelector(".chart") ?? null);
  if (!figure || !target) return null;
  specs.set(id, spec);
  await breathe(); // text and numbers come first
  if (specs.get(id) !== spec) return null; // there was a later call
  try {
    const view = await embedInto(target, spec, pageColours());
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

/**
 * A figure as an image for download, always in light colours.
 * @param {string} id
 * @param {string} kind "svg" or "png"
 * @returns {Promise<string>} its address
 */
export async function imageOf(id, kind) {
  const shown = /** @type {HTMLElement} */ (document.querySelector(`[id="${id}"] .chart`));
  const target = document.createElement("div");
  target.style.cssText = `position: absolute; left: -9999px; width: ${shown.clientWidth}px`;
  document.body.append(target);
  const view = await embedInto(target, specs.get(id), LIGHT, "white");
  const address = await view.toImageURL(kind, 2);
  view.finalize();
  target.remove();
  return address;
}

/** Draw all figures again, after the width or the colours have changed. */
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
  addEventListener("beforeprint", forPaper);
  addEventListener("afterprint", redraw);
}

/** Lay the charts out as wide as paper. Printing does not wait, so a drawn chart changes its width at once. */
function forPaper() {
  for (const [id, view] of views) {
    const spec = specs.get(id);
    if (spec.vconcat) continue;
    if (!spec.facet) view.width(PAPER);
    else {
      const factor = PAPER / view.container().clientWidth;
      view.signal("child_width", view.signal("child_width") * factor);
      if (spec.spec.width === spec.spec.height) view.signal("child_height", view.signal("child_height") * factor); // panels stay squares
    }
    view.resize().run();
  }
}
