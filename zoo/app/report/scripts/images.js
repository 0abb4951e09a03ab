// @ts-check
// An example: its image if the page has one, its id, and the predictions of models.
import { element } from "./dom.js";
import { percent } from "./format.js";

/** @typedef {import("./explorer.js").Explorer} Explorer */

/** @type {Map<number, number> | null} */
let places = null;

/**
 * @param {Explorer} app
 * @param {number} row
 * @param {number} size in pixels on the page
 */
export function thumbnail({ data }, row, size) {
  const tiles = data.about.tiles;
  places ??= new Map((tiles?.rows ?? []).map((of, place) => [of, place]));
  const place = places.get(row);
  if (!tiles || place === undefined) return null;
  const { side, across } = tiles;
  const sheet = Math.floor(place / across ** 2);
  const at = place % across ** 2;
  const scale = size / side;
  const tile = element("span", { class: `tile sheet-${sheet}`, role: "img", "aria-label": `Image of ${data.ids[row]}` });
  const sheetTiles = Math.min(tiles.rows.length - sheet * across ** 2, across ** 2);
  Object.assign(tile.style, {
    width: `${size}px`,
    height: `${size}px`,
    backgroundSize: `${Math.min(sheetTiles, across) * side * scale}px auto`,
    backgroundPosition: `${-(at % across) * size}px ${-Math.floor(at / across) * size}px`,
  });
  return tile;
}

/**
 * A model's prediction for an example, with its confidence if known.
 * @param {Explorer} app
 * @param {number} model
 * @param {number} row
 */
export function answer({ data }, model, row) {
  const { predicted, confidence, examples, classes } = data.answers;
  const prediction = predicted[model * examples + row];
  const confidenceText = confidence ? ` (${percent(confidence[model * examples + row], 0)})` : "";
  return prediction < classes ? data.about.classes[prediction] + confidenceText : "no prediction";
}

/**
 * @param {Explorer} app
 * @param {number} row
 * @param {number[]} models
 */
export function captioned(app, row, models) {
  const { data } = app;
  const lines = [`label: ${data.about.classes[data.answers.labels[row]]}`, ...models.map((model) => `${data.short[model]}: ${answer(app, model, row)}`)];
  const open = () => app.go({ open: row }, "examples");
  return element("li", {},
    element("button", { type: "button", class: "open", onclick: open }, thumbnail(app, row, 136) ?? "", element("b", {}, data.ids[row])),
    ...lines.map((line) => element("div", {}, line)));
}
