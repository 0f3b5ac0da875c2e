// Exact numbers: fractions of BigInts, fixed-point numbers with BITS bits after the point, and residues.

export const BITS = 224n;
export const ONE = 1n << BITS;

// docs/format.md: a JSON number is the double that it denotes, a text "n/d" a fraction. A whole number beyond 2^53
// would have been rounded when the JSON was read, so it is no number here.
export function fraction(value) {
  if (typeof value === "string") {
    const [, over, under = "1"] = (value.length <= 1000 && /^([0-9]+)(?:\/([0-9]+))?$/.exec(value)) || [];
    if (over === undefined || BigInt(under) === 0n) throw new TypeError(`not a number: ${value.slice(0, 40)}`);
    return { over: BigInt(over), under: BigInt(under) };
  }
  if (!Number.isFinite(value) || Math.abs(value) > Number.MAX_SAFE_INTEGER) throw new TypeError(`not exact: ${value}`);
  let under = 1n;
  let rest = value;
  while (!Number.isInteger(rest)) {
    rest *= 2; // exact: only the exponent changes
    under *= 2n;
  }
  return { over: BigInt(rest), under };
}

export const plus = (a, b) => ({ over: a.over * b.under + b.over * a.under, under: a.under * b.under });
export const times = (a, whole) => ({ over: a.over * BigInt(whole), under: a.under });
export const divide = (a, b) => ({ over: a.over * b.under, under: a.under * b.over }); // b > 0
export const compare = (a, b) => {
  const difference = a.over * b.under - b.over * a.under;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
};

export const toFixed = ({ over, under }) => (over << BITS) / under;
export const toDouble = (value) => fixedToDouble(toFixed(value));

// The nearest double, also of numbers far below 2^-1000: shift before Number() so that nothing is lost.
export function fixedToDouble(value) {
  const negative = value < 0n;
  const size = negative ? -value : value;
  const excess = Math.max(0, size.toString(2).length - 64);
  const double = Number(size >> BigInt(excess)) * 2 ** (excess - Number(BITS));
  return negative ? -double : double;
}

export const multiply = (a, b) => (a * b) >> BITS;

// e^-x for x >= 0, with `further` bits more: halve x until it is small, Taylor's series, square back.
export function expMinus(x, further = 0n) {
  let halvings = 0n;
  while (x >> halvings > ONE >> 8n) halvings += 1n;
  const guard = 32n + halvings; // squaring doubles the error each time
  const one = ONE << (further + guard);
  const small = (x << (further + guard)) >> halvings;
  let term = one;
  let sum = one;
  for (let k = 1n; term !== 0n; k += 1n) {
    term = -((term * small) / (one * k));
    sum += term;
  }
  for (let k = 0n; k < halvings; k += 1n) sum = (sum * sum) / one;
  return sum >> guard;
}

// artanh(over/under) by its series, for a quotient of at most 1/3.
function artanh(over, under) {
  const t = (over << BITS) / under;
  const square = multiply(t, t);
  let power = t;
  let sum = 0n;
  for (let k = 1n; power !== 0n; k += 2n) {
    sum += power / k;
    power = multiply(power, square);
  }
  return sum;
}

const LOG_2 = 2n * artanh(1n, 3n);

// -ln(y) for 0 < y <= 1: y = 2^-k·z with z in (1/2, 1], and -ln z = 2·artanh((1 - z)/(1 + z)).
export function minusLog(y) {
  let doublings = 0n;
  let z = y;
  while (z <= ONE >> 1n) {
    z <<= 1n;
    doublings += 1n;
  }
  return 2n * artanh(ONE - z, ONE + z) + doublings * LOG_2;
}

export function power(base, exponent, modulus) {
  let [result, square] = [1n, base % modulus];
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % modulus;
    square = (square * square) % modulus;
  }
  return result;
}

// The inverse, or null where there is none.
export function inverse(value, modulus) {
  let [a, b, x, y] = [modulus, value % modulus, 0n, 1n];
  while (b > 0n) {
    const times = a / b;
    [a, b, x, y] = [b, a - times * b, y, x - times * y];
  }
  return a === 1n ? ((x % modulus) + modulus) % modulus : null;
}
