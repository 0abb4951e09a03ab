// @ts-check
// Print numbers as the static page and the package do.

/**
 * Print a number with so many decimals; halves are rounded to the even digit, as in Python.
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

/** @param {number} fraction */
export const percent = (fraction, decimals = 1) => (Number.isNaN(fraction) ? "" : fixed(100 * fraction, decimals) + "%");

/** A difference of fractions in percentage points, with its sign; zero is positive.
 * @param {number} fraction
 */
export const points = (fraction) => {
  if (Number.isNaN(fraction)) return "";
  const text = fixed(100 * fraction, 1);
  return text === "-0.0" ? "+0.0" : fraction < 0 && text !== "0.0" ? text : "+" + text;
};

/**
 * Three significant digits, with an exponent for very small or large numbers.
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

/** A difference of fractions in words that a name may follow.
 * @param {number} fraction
 */
export const compared = (fraction) => `${fixed(Math.abs(100 * fraction), 1)} points ${fraction < 0 ? "below" : "above"}`;

/** A large count with its unit.
 * @param {number} n
 */
export function amount(n) {
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (n >= size) return `${Number((n / size).toPrecision(3))}${unit}`;
  }
  return String(n);
}

/**
 * Print a measure in its unit.
 * @param {number} value
 * @param {string} unit
 */
export const inUnit = (value, unit) => (unit === "share" ? percent(value) : unit === "points" ? points(value) : digits(value));

/**
 * Print a confidence interval; its ends have no unit.
 * @param {[number, number]} ends
 * @param {string} unit
 */
export const interval = (ends, unit = "share") =>
  ends.some(Number.isNaN) ? "" : ends.map((end) => (unit === "share" || unit === "points" ? fixed(100 * end, 1).replace(/^-0.0$/, "0.0") : digits(end))).join(" to ");
