// @ts-check
// NumPy's default generator and two of its distributions, so that bootstrap intervals on the page equal those of the
// package. PCG64 (O'Neill 2014) is a linear congruential generator of 128 bits.

const MULTIPLIER = limbs(0x2360ed051fc65da44385df649fccf645n);
const LIMBS = 8; // of 16 bits, the least significant first: sums of eight of their products are exact in a double

/**
 * @param {bigint} value
 * @returns {Float64Array<ArrayBuffer>}
 */
function limbs(value) {
  return new Float64Array(Array.from({ length: 8 }, (_, place) => Number((value >> BigInt(16 * place)) & 0xffffn)));
}

export class Generator {
  /**
   * @param {string} state decimal digits, as NumPy prints it
   * @param {string} increment
   */
  constructor(state, increment) {
    this.state = limbs(BigInt(state));
    this.increment = limbs(BigInt(increment));
    this.next = new Float64Array(LIMBS);
    this.high = 0; // the last 64 bits drawn, as two halves
    this.low = 0;
    this.halfLeft = false;
  }

  step() {
    const { state, increment, next } = this;
    let carry = 0;
    for (let place = 0; place < LIMBS; place++) {
      let sum = increment[place] + carry;
      for (let i = 0; i <= place; i++) sum += state[i] * MULTIPLIER[place - i];
      carry = Math.floor(sum / 65536);
      next[place] = sum - carry * 65536;
    }
    this.state = next;
    this.next = state;
    // The upper 64 bits exclusive-or the lower ones, rotated right by the uppermost six bits.
    const low = ((next[1] ^ next[5]) << 16) | (next[0] ^ next[4]);
    const high = ((next[3] ^ next[7]) << 16) | (next[2] ^ next[6]);
    const turn = next[7] >>> 10;
    const [a, b] = turn & 32 ? [high, low] : [low, high];
    const by = turn & 31;
    this.low = (by ? (a >>> by) | (b << (32 - by)) : a) >>> 0;
    this.high = (by ? (b >>> by) | (a << (32 - by)) : b) >>> 0;
  }

  /** A number from 0 up to 1, of 53 bits. */
  double() {
    this.step();
    return ((this.high >>> 5) * 67108864 + (((this.high & 31) << 21) | (this.low >>> 11))) / 9007199254740992;
  }

  /** 32 bits: the lower half of a draw, then its upper half. */
  half() {
    if (this.halfLeft) {
      this.halfLeft = false;
      return this.high;
    }
    this.step();
    this.halfLeft = true;
    return this.low;
  }

  /**
   * A whole number from 0 up to `end`, at most 2^21 (Lemire 2019).
   * @param {number} end
   */
  integer(end) {
    if (end === 1) return 0; // NumPy draws nothing for it
    for (;;) {
      const product = this.half() * end;
      const upper = Math.floor(product / 4294967296);
      const lower = product - upper * 4294967296;
      if (lower >= end || lower >= (4294967296 - end) % end) return upper;
    }
  }

  /**
   * How many of `n` examples fall in each cell, whose shares sum to 1.
   * @param {number} n
   * @param {ArrayLike<number>} shares
   * @returns {Float64Array}
   */
  multinomial(n, shares) {
    const counts = new Float64Array(shares.length);
    let left = n;
    let share = 1;
    for (let cell = 0; cell < shares.length - 1; cell++) {
      counts[cell] = this.binomial(left, shares[cell] / share);
      left -= counts[cell];
      if (left <= 0) return counts;
      share -= shares[cell];
    }
    counts[shares.length - 1] = left;
    return counts;
  }

  /**
   * @param {number} n
   * @param {number} p
   * @returns {number}
   */
  binomial(n, p) {
    if (n === 0 || p === 0) return 0;
    if (p > 0.5) return n - this.rarer(n, 1 - p);
    return this.rarer(n, p);
  }

  /**
   * @param {number} n
   * @param {number} p at most 1/2
   */
  rarer(n, p) {
    return p * n <= 30 ? this.inversion(n, p) : this.rejection(n, p);
  }

  /**
   * @param {number} n
   * @param {number} p
   */
  inversion(n, p) {
    const q = 1 - p;
    const none = Math.exp(n * Math.log(q));
    const bound = Math.trunc(Math.min(n, n * p + 10 * Math.sqrt(n * p * q + 1)));
    let [x, chance, u] = [0, none, this.double()];
    while (u > chance) {
      x++;
      if (x > bound) {
        [x, chance, u] = [0, none, this.double()];
      } else {
        u -= chance;
        chance = ((n - x + 1) * p * chance) / (x * q);
      }
    }
    return x;
  }

  /**
   * BTPE (Kachitvichyanukul and Schmeiser 1988): a triangle, two parallelograms and two exponential tails above the
   * distribution, from which candidates are drawn and some refused. Letters as in the paper.
   * @param {number} n
   * @param {number} r
   */
  rejection(n, r) {
    const q = 1 - r;
    const fm = n * r + r;
    const m = Math.floor(fm);
    const p1 = Math.floor(2.195 * Math.sqrt(n * r * q) - 4.6 * q) + 0.5;
    const xm = m + 0.5;
    const xl = xm - p1;
    const xr = xm + p1;
    const c = 0.134 + 20.5 / (15.3 + m);
    let a = (fm - xl) / (fm - xl * r);
    const laml = a * (1 + a / 2);
    a = (xr - fm) / (xr * q);
    const lamr = a * (1 + a / 2);
    const p2 = p1 * (1 + 2 * c);
    const p3 = p2 + c / laml;
    const p4 = p3 + c / lamr;
    const nrq = n * r * q;
    for (;;) {
      const u = this.double() * p4;
      let v = this.double();
      let y;
      if (u <= p1) return Math.floor(xm - p1 * v + u);
      if (u <= p2) {
        const x = xl + (u - p1) / c;
        v = v * c + 1 - Math.abs(m - x + 0.5) / p1;
        if (v > 1) continue;
        y = Math.floor(x);
      } else if (u <= p3) {
        y = Math.floor(xl + Math.log(v) / laml);
        if (y < 0 || v === 0) continue;
        v = v * (u - p2) * laml;
      } else {
        y = Math.floor(xr - Math.log(v) / lamr);
        if (y > n || v === 0) continue;
        v = v * (u - p3) * lamr;
      }
      if (accepted(y, v, n, r, m, nrq, xm, q)) return y;
    }
  }
}

/**
 * Whether v lies below the distribution at y: by its recurrence where y is near the mode, by bounds and Stirling's formula
 * where it is not.
 * @param {number} y
 * @param {number} v
 * @param {number} n
 * @param {number} r
 * @param {number} m
 * @param {number} nrq
 * @param {number} xm
 * @param {number} q
 */
function accepted(y, v, n, r, m, nrq, xm, q) {
  const k = Math.abs(y - m);
  if (k <= 20 || k >= nrq / 2 - 1) {
    const s = r / q;
    const a = s * (n + 1);
    let f = 1;
    for (let i = m + 1; i <= y; i++) f *= a / i - s;
    for (let i = y + 1; i <= m; i++) f /= a / i - s;
    return v <= f;
  }
  const rho = (k / nrq) * ((k * (k / 3 + 0.625) + 1 / 6) / nrq + 0.5);
  const t = (-k * k) / (2 * nrq);
  const log = Math.log(v);
  if (log < t - rho) return true;
  if (log > t + rho) return false;
  const [x1, f1, z, w] = [y + 1, m + 1, n + 1 - m, n - y + 1];
  return (
    log <=
    xm * Math.log(f1 / x1) + (n - m + 0.5) * Math.log(z / w) + (y - m) * Math.log((w * r) / (x1 * q)) +
      stirling(f1) + stirling(z) + stirling(x1) + stirling(w)
  );
}

/** @param {number} x */
function stirling(x) {
  const square = x * x;
  return (13860 - (462 - (132 - (99 - 140 / square) / square) / square) / square) / x / 166320;
}
