// @ts-check
// Numbers as the static page and the package print them.

/**
 * With this many decimals; halves to the even digit, as Python rounds them.
 * @param {number} x
 * @param {number} decimals
 */
export function fixed(x, decimals) {
  const text = x.toFixed(decimals);
  // A double lies halfway between two decimals only if it is an odd number of 2^-(decimals + 1).
  const halves = Math.abs(x) * 2 ** (decimals + 1);
  if (halves % 2 !== 1) return text;
  const below = Math.floor(Math.abs(x) * 10 ** decimals);
  const nearest = below % 2 === 0 ? below : below + 1;
  return (x < 0 ? "-" : "") + (nearest / 10 ** decimals).toFixed(decimals);
}

/** @param {number} share */
export const percent = (share, decimals = 1) => (Number.isNaN(share) ? "" : fixed(100 * share, decimals) + "%");

/** Points with their sign, of a difference of shares.
 * @param {number} share
 */
export const points = (share) => (Number.isNaN(share) ? "" : (share < 0 ? "" : "+") + fixed(100 * share, 1));

/**
 * Three digits, with an exponent where a number is very small or large.
 * @param {number} x
 */
export function digits(x) {
  if (Number.isNaN(x)) return "";
  if (x === 0) return "0.00";
  const exponent = Number(x.toExponential(2).split("e")[1]);
  if (exponent >= -4 && exponent < 3) {
    const text = fixed(x, 2 - exponent);
    return exponent === 2 ? text + "." : text; // what Python's `#` keeps
  }
  const [mantissa, power] = x.toExponential(2).split("e");
  return `${mantissa}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

/** @param {number} n */
export const whole = (n) => n.toLocaleString("en-US");

/** A count that may be in the millions, such as of parameters.
 * @param {number} n
 */
export function amount(n) {
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (n >= size) return `${(n / size).toPrecision(3)} ${unit}`;
  }
  return String(n);
}

/**
 * A measure's value in its unit.
 * @param {number} value
 * @param {string} unit
 */
export const inUnit = (value, unit) => (unit === "share" ? percent(value) : digits(value));
