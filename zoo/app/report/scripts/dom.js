// @ts-check
// Elements of the page. Data are always inserted as text, never as markup.

/**
 * @typedef {Record<string, string | number | boolean | null | EventListener>} Properties
 * @typedef {Node | string | null} Child
 */

/**
 * Return an element with attributes (functions such as `onclick` are listeners) and children.
 * @param {string} tag
 * @param {Properties} properties
 * @param {Child[]} children
 * @returns {HTMLElement}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

/**
 * @param {string} id
 * @param {Child[]} children
 */
export function fill(id, ...children) {
  byId(id).replaceChildren(...children.filter((child) => child !== null));
}

/**
 * Set the options of a select, and the chosen one.
 * @param {string} id
 * @param {[string | number, string][]} options values and texts
 * @param {string | number} chosen
 */
export function options(id, options, chosen) {
  const select = /** @type {HTMLSelectElement} */ (byId(id));
  if (select.options.length !== options.length || options.some(([, text], i) => select.options[i].text !== text)) {
    select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  }
  select.value = String(chosen);
}

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {boolean} [number]
 */

/**
 * Return a sortable table. A cell is a text, or a text and the number to sort by; the first cell is the row's header.
 * @param {string} id
 * @param {Column[]} columns
 * @param {(string | [string | Node, number])[][]} rows
 */
export function table(id, columns, rows) {
  const head = columns.map(({ title, number }) =>
    element("th", { scope: "col", class: number ? "number" : null }, element("button", { type: "button" }, title)));
  const body = rows.map((cells) =>
    element("tr", {}, ...cells.map((cell, i) => {
      const [text, value] = Array.isArray(cell) ? cell : [cell, null];
      if (i === 0) return element("th", { scope: "row" }, text);
      return element("td", { class: columns[i].number ? "number" : null, "data-value": value === null || Number.isNaN(value) ? null : value }, text);
    })));
  return element("table", { class: "sortable", id }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}

/** Let the page respond before going on. */
export const breathe = () => new Promise((next) => setTimeout(next));

/**
 * Cancels long work that is no longer needed: a call of `begin` for a name stops the earlier one. The returned function
 * lets the page respond every 12 milliseconds, and tells whether to go on.
 */
export class Tasks {
  constructor() {
    /** @type {Map<string, number>} */
    this.current = new Map();
  }

  /** @param {string} name */
  begin(name) {
    const number = (this.current.get(name) ?? 0) + 1;
    this.current.set(name, number);
    let since = performance.now();
    return async () => {
      if (performance.now() - since > 12) {
        await breathe();
        since = performance.now();
      }
      return this.current.get(name) === number;
    };
  }
}
