// @ts-check
// Decode the arrays inside the page: base64 of compressed bytes, with one plane of bytes after the other.

/**
 * @param {string} text base64 of zlib's format
 * @returns {Promise<Uint8Array>}
 */
export async function unpack(text) {
  const letters = atob(text);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Return whole numbers from their planes of bytes, the least significant first.
 * @param {Uint8Array} bytes
 * @param {number} planes
 * @returns {Uint8Array | Uint16Array | Uint32Array}
 */
export function join(bytes, planes) {
  if (planes === 1) return bytes;
  const count = bytes.length / planes;
  const numbers = planes === 2 ? new Uint16Array(count) : new Uint32Array(count);
  for (let plane = 0; plane < planes; plane++) {
    const offset = plane * count;
    const weight = 256 ** plane;
    for (let i = 0; i < count; i++) numbers[i] += bytes[offset + i] * weight;
  }
  return numbers;
}

/**
 * Return probabilities that are stored as square roots, which are precise for small ones.
 * @param {ArrayLike<number>} numbers
 * @param {number} planes
 * @returns {Float32Array}
 */
export function squares(numbers, planes) {
  const most = 256 ** planes - 1;
  const values = new Float32Array(numbers.length);
  for (let i = 0; i < values.length; i++) values[i] = (numbers[i] / most) ** 2;
  return values;
}

/**
 * Return confidences that are stored as square roots of 1 - confidence, which are precise for confident models.
 * @param {ArrayLike<number>} numbers
 * @param {number} planes
 * @returns {Float64Array}
 */
export function confidences(numbers, planes) {
  const most = 256 ** planes - 1;
  const values = new Float64Array(numbers.length);
  for (let i = 0; i < values.length; i++) values[i] = 1 - (numbers[i] / most) ** 2;
  return values;
}
