// Feature maps: from a user's context and the offered actions to vectors of norm at most one.

import { notAllowed } from "./problems.js";

const SLACK = 1e-9; // by how much rounding may leave a square above one

const isVector = (value) => Array.isArray(value) || value instanceof Float64Array;

export function product(x, y) {
  let sum = 0;
  for (let at = 0; at < x.length; at += 1) sum += x[at] * y[at];
  return sum;
}

// A vector of norm at most one, or a refusal.
export function checkFeatures(vector, dimension) {
  const wanted = `vectors of ${dimension ?? "d"} numbers`;
  const isSized = isVector(vector) && (dimension === undefined || vector.length === dimension);
  if (!isSized) throw notAllowed("features", isVector(vector) ? `${vector.length} numbers` : typeof vector, wanted);
  for (const number of vector) {
    const isNumber = Number.isFinite(number);
    if (!isNumber) throw notAllowed("features", number, "finite numbers: a missing one has to be filled in first");
  }
  const length = Math.sqrt(product(vector, vector));
  const isLong = length * length > 1 + SLACK;
  if (isLong) throw notAllowed("features", `a vector of norm ${length.toPrecision(6)}`, "vectors of norm at most 1");
  // Rounding may leave a norm a hair above one: what is sent must lie in the ball.
  return length <= 1 ? vector : vector.map((number) => number / length);
}

// (a, 1)/√2 for actions described by vectors of norm at most one: means then need not pass through zero.
export const withConstant = (actions) =>
  actions.map((action) => [...checkFeatures(action), 1].map((number) => number * Math.SQRT1_2));

// The context in the action's own block and zeros elsewhere: every action learns its own parameter.
export function blocks(context, actions) {
  const own = [...checkFeatures(context)];
  if (!(Number.isSafeInteger(actions) && actions >= 1)) throw notAllowed("actions", actions, "a whole number >= 1");
  const others = (count) => Array(count * own.length).fill(0);
  return Array.from({ length: actions }, (_, at) => [...others(at), ...own, ...others(actions - at - 1)]);
}
