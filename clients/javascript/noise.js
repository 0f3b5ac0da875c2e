// Laws of noise, and samples of them from the system's cryptographic source.
//
// How exact: uniform numbers, coins and biased coins are exact, by rejection. Counts are drawn by inversion of a law in
// fixed point with 224 bits, whose error is relative to its largest terms: the law drawn is within 2^-180 of the law
// stated, in statistical distance. Distance d per draw costs at most (1 + e^ε)·d·draws in δ, so even 2^40 draws at
// ε = 20 cost less than 2^-110, far below the last digit of any δ. A double's 2^-53 would not do.

import { random } from "./bytes.js";
import {
  BITS, ONE, compare, expMinus, fixedToDouble, fraction, minusLog, multiply, times, toDouble, toFixed,
} from "./numbers.js";
import { demand } from "./problems.js";

// Nobody plans laws beyond these, and to tabulate them would keep a page busy for hours. What a device draws itself it
// draws step by step, up to some twenty times the scale.
const LARGEST_SCALE = 2n ** 32n;
const LARGEST_DRAWN = 2n ** 18n;
const LARGEST_SURPRISE = ONE << 13n;

const bitsOf = (bytes) => random(bytes).reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);

// Uniform on 0..bound-1, by rejection.
export function below(bound) {
  const bits = bound.toString(2).length;
  const mask = (1n << BigInt(bits)) - 1n;
  for (;;) {
    const drawn = bitsOf(Math.ceil(bits / 8)) & mask;
    if (drawn < bound) return drawn;
  }
}

// True with probability over/under, exactly.
export const happens = ({ over, under }) => below(under) < over;

const coin = () => (random(1)[0] & 1) === 1;

// Laws on 0, 1, 2, ...: the probability of 0, then each from the one before, as fixed-point numbers.
// The first may be far smaller than those in the middle, e^-4000, say: further bits keep it from vanishing.
function* masses(surprise, next) {
  demand(surprise <= LARGEST_SURPRISE, "unsupported", "noise of so large a rate");
  const further = (3n * surprise) / (2n * ONE) + 8n; // 2^-further is below e^-surprise
  let mass = expMinus(surprise, further);
  for (let k = 0n; ; k += 1n) {
    yield mass >> further;
    mass = next(mass, k);
  }
}

const poisson = (rate) => masses(toFixed(rate), (mass, k) => (mass * rate.over) / (rate.under * (k + 1n)));

// Γ(r + k)/(k! Γ(r)) β^k (1 - β)^r
const polya = (r, beta) =>
  masses(
    (minusLog(ONE - beta) * r.over) / r.under,
    (mass, k) => (multiply(mass, beta) * (r.over + k * r.under)) / (r.under * (k + 1n)),
  );

function betaOf({ beta, scale }) {
  if (scale === undefined) return toFixed(fraction(beta));
  const { over, under } = fraction(scale);
  return expMinus((under << BITS) / over);
}

// `parties` shares add up to a law of the same family, with the first parameter multiplied. Of a difference of two
// Pólya variables this is the law of either.
const LAWS = {
  Poisson: ({ rate }, parties) => poisson(times(fraction(rate), parties)),
  Polya: (share, parties) => polya(times(fraction(share.r), parties), betaOf(share)),
  PolyaDifference: (share, parties) => LAWS.Polya(share, parties),
};

// How a share is sent: as a whole number added to the value, as bits, or as counted messages.
const SENT = { PolyaDifference: "number", SparseBits: "bits", Binomial: "bits", Poisson: "counts", Polya: "counts" };

export const sentAs = ({ family }) => SENT[family];

// The most bits that a share is.
export const mostBits = ({ slots, trials }) => slots ?? trials;

export const law = (share, parties = 1) => LAWS[share.family](share, parties);

// The mean of one share of counted noise: rounded, for what only has to be about right.
export function meanOf(share) {
  if (share.family === "Poisson") return toDouble(fraction(share.rate));
  const beta = fixedToDouble(betaOf(share));
  return (toDouble(fraction(share.r)) * beta) / (1 - beta);
}

// The least k whose cumulative probability is above a uniform number. What rounding takes from the sum of all
// probabilities goes to the largest k reached.
function invert(probabilities) {
  const uniform = bitsOf(Number(BITS) / 8);
  let cumulative = 0n;
  let k = 0n;
  for (const probability of probabilities) {
    cumulative += probability;
    if (uniform < cumulative || (probability === 0n && cumulative > ONE >> 1n)) return k;
    k += 1n;
  }
  throw new Error("a law has no end");
}

// The sum of so many parties' shares of whole-number noise.
export function sample(share, parties = 1) {
  const drawn = invert(law(share, parties));
  return share.family === "PolyaDifference" ? drawn - invert(law(share, parties)) : drawn;
}

// Independent shares for each of `size` labels, given their total: uniform labels for Poisson, and for Pólya an urn,
// where a message keeps its own label with probability R/(R + k) and else repeats one of the k before it.
export function spread(share, size, total) {
  const urn = share.family === "Polya" ? times(fraction(share.r), size) : null;
  const labels = [];
  for (let k = 0n; k < total; k += 1n) {
    const fresh = !urn || happens({ over: urn.over, under: urn.over + k * urn.under });
    labels.push(fresh ? Number(below(BigInt(size))) : labels[Number(below(k))]);
  }
  return labels;
}

// One party's noise bits, [zeros, ones].
export function sampleBits({ family, slots, rate, trials, p }) {
  const bits = [0, 0];
  const bias = fraction(family === "Binomial" ? p : rate);
  if (family === "Binomial") for (let i = 0; i < trials; i += 1) bits[happens(bias) ? 1 : 0] += 1;
  else for (let i = 0; i < slots; i += 1) if (happens(bias)) bits[coin() ? 1 : 0] += 1;
  return bits;
}

const whole = (value) => Number.isSafeInteger(value) && value >= 1;
const positive = (value) => fraction(value).over > 0n;
const belowOne = (value) => positive(value) && compare(fraction(value), { over: 1n, under: 1n }) < 0;
const upTo = (most) => (value) => positive(value) && compare(fraction(value), { over: most, under: 1n }) <= 0;
const [scale, drawn] = [upTo(LARGEST_SCALE), upTo(LARGEST_DRAWN)];

const FAMILIES = {
  Poisson: [{ rate: positive }],
  Polya: [{ r: positive, beta: belowOne }, { r: positive, scale: drawn }],
  PolyaDifference: [{ r: positive, scale: drawn }],
  DiscreteLaplace: [{ scale }], // no device draws these: the servers do
  Skellam: [{ sigma2: upTo(LARGEST_SCALE ** 2n) }],
  SparseBits: [{ slots: whole, rate: upTo(1n) }],
  Binomial: [{ trials: whole, p: belowOne }],
};

// Refuses what is no noise that a client of the service draws.
export function checkNoise({ family, ...parameters }) {
  const forms = Object.hasOwn(FAMILIES, family) ? FAMILIES[family] : [];
  const names = Object.keys(parameters).sort().join();
  const form = forms.find((one) => Object.keys(one).sort().join() === names);
  demand(form, "unsupported", `noise ${family} with ${names}`);
  for (const [name, allowed] of Object.entries(form)) {
    demand(allowed(parameters[name]), "malformed", `${name} of ${family}`);
  }
}
