// @ts-check
// Groups of models by the fields of their cards, for filters and colours.

/** @typedef {import("./data.js").Model} Model */

export const NONE = "–"; // the value of a field that is missing on a card
const MAX_GROUPS = 10; // entries of a legend; further groups are "other"
const COLOURS = ["#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b", "#eeca3b", "#b279a2", "#ff9da6", "#9d755d", "#bab0ac"];

/**
 * Return the fields in which the models differ.
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
 * Return the models that no filter hides; all of them if the filters would hide every model.
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
 * Return the value that two models share, or both values, for the colour of their pair.
 * @param {Model} a
 * @param {Model} b
 * @param {string} field
 */
export function pairValue(a, b, field) {
  const both = [valueOf(a, field), valueOf(b, field)].sort();
  return both[0] === both[1] ? both[0] : both.join(" / ");
}

/**
 * Return groups with all but the most frequent ones replaced by "other", so that a legend stays short.
 * @param {string[]} groups
 */
export function limited(groups) {
  const counts = new Map();
  for (const group of groups) counts.set(group, (counts.get(group) ?? 0) + 1);
  if (counts.size <= MAX_GROUPS) return groups;
  const frequent = new Set([...counts].sort(([, a], [, b]) => b - a).slice(0, MAX_GROUPS - 1).map(([group]) => group));
  return groups.map((group) => (frequent.has(group) ? group : "other"));
}

/**
 * Return the group of each model by the field that models are coloured by, and the colours of the groups.
 * @param {Model[]} models
 * @param {string} field
 */
export function coloured(models, field) {
  const groups = limited(models.map((model) => valueOf(model, field)));
  const domain = [...new Set(groups)].sort((a, b) => Number(a === "other") - Number(b === "other") || a.localeCompare(b, undefined, { numeric: true }));
  return { groups, scale: { domain, range: COLOURS.slice(0, domain.length) } };
}
