// @ts-check
// Models by what their cards say: which are shown, and in which colour.

/** @typedef {import("./data.js").Model} Model */

export const NONE = "–"; // the value of a field that a model's card does not have

/**
 * The fields by which the models differ, those of the least values first: a field that is the same for all tells nothing.
 * @param {Model[]} models
 * @returns {string[]}
 */
export function fieldsOf(models) {
  const every = [...new Set(models.flatMap((model) => Object.keys(model.fields)))];
  return every.filter((field) => valuesOf(models, field).length > 1);
}

/**
 * @param {Model[]} models
 * @param {string} field
 */
export function valuesOf(models, field) {
  const values = models.map((model) => valueOf(model, field));
  return [...new Set(values)].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
}

/**
 * @param {Model} model
 * @param {string} field
 */
export const valueOf = (model, field) => (field === "model" ? model.name : model.fields[field] ?? NONE);

/**
 * The models that no filter hides; all of them where the filters would hide all.
 * @param {Model[]} models
 * @param {Record<string, string[]>} hidden
 * @returns {number[]}
 */
export function visible(models, hidden) {
  const every = models.map((_, index) => index);
  const left = every.filter((index) =>
    Object.entries(hidden).every(([field, values]) => !values.includes(valueOf(models[index], field))));
  return left.length ? left : every;
}

/**
 * What two models have in common, for the colour of their pair: one value, or two.
 * @param {Model} a
 * @param {Model} b
 * @param {string} field
 */
export function pairValue(a, b, field) {
  const both = [valueOf(a, field), valueOf(b, field)].sort();
  return both[0] === both[1] ? both[0] : both.join(" / ");
}
