// What a user is described by: named numbers with public ranges, and the vector that a device makes of them.
//
//   const context = new Context([{ name: "age", low: 0, high: 100 }, { name: "visits", low: 0, high: 20 }]);
//   context.vector({ age: 75, visits: 10 }); // [0.25, 0, 0.707…]
//
// Each number is moved from its range to [-1, 1]. Divided by √m they have a norm of at most one, and with a constant
// they are (c/√m, 1)/√2: a vector of norm at most one.

import { notAllowed } from "./problems.js";

const [NARROWEST, FARTHEST] = [1e-200, 1e200]; // how near ends of a range may be to each other, and how far from zero
const LEVEL = "(level)"; // what the constant's coefficient is called, beside those of the features

function checkFeature({ name, low, high }) {
  if (typeof name !== "string" || !name) throw notAllowed("name", name, "the name of a feature");
  for (const [end, value] of Object.entries({ low, high })) {
    const isNear = Number.isFinite(value) && Math.abs(value) <= FARTHEST;
    if (!isNear) throw notAllowed(`${name}.${end}`, value, `a number in [-${FARTHEST}, ${FARTHEST}]`);
  }
  const apart = high - low >= NARROWEST;
  if (!apart) throw notAllowed(`${name}.high`, high, `above low = ${low}, by ${NARROWEST} at least`);
}

// The value, moved to its range where that was asked for; else anything outside is refused by name.
function checked({ name, low, high }, value, clip) {
  const inside = Number.isFinite(value) && (clip || (value >= low && value <= high));
  if (!inside) throw notAllowed(name, value, `a number in [${low}, ${high}]`);
  return Math.min(Math.max(value, low), high);
}

// The features of an experiment, in order: [{name, low, high}], from 0 to 1 where nothing is said. With none every user
// is alike. `clip`: whether a value outside its range is moved to the nearer end; otherwise it is refused.
export class Context {
  constructor(features, { clip = false } = {}) {
    const known = features.map(({ name, low = 0, high = 1 }) => Object.freeze({ name, low, high }));
    known.forEach(checkFeature);
    this.features = Object.freeze(known);
    this.names = Object.freeze(known.map(({ name }) => name));
    this.clip = clip;
    if (typeof clip !== "boolean") throw notAllowed("clip", clip, "true or false");
    const twice = new Set([...this.names, LEVEL]).size <= this.names.length;
    if (twice) throw notAllowed("features", this.names, `names of which no two are alike, and none is ${LEVEL}`);
    Object.freeze(this);
  }

  // Of the vector: a number for each feature, and the constant.
  get dimension() {
    return this.features.length + 1;
  }

  // A user's vector; whatever is missing, unknown or out of range is refused by its name.
  vector(given) {
    const isGiven = typeof given === "object" && given !== null && !Array.isArray(given);
    if (!isGiven) throw notAllowed("context", given, "numbers by their names");
    const unknown = Object.keys(given).find((name) => !this.names.includes(name));
    if (unknown !== undefined) throw notAllowed("context", unknown, `one of ${this.names.join(", ") || "none"}`);
    const width = Math.sqrt(Math.max(1, this.features.length));
    const described = this.features.map((feature) => {
      const value = checked(feature, Object.hasOwn(given, feature.name) ? given[feature.name] : undefined, this.clip);
      const [middle, half] = [(feature.low + feature.high) / 2, (feature.high - feature.low) / 2];
      return Math.min(Math.max((value - middle) / half, -1), 1) / width;
    });
    return [...described, 1].map((number) => number / Math.SQRT2);
  }
}
