// What comes as JSON, from whomever: bounded, and checked to the last key.

import { Refused, demand } from "./problems.js";

export const LONGEST_TEXT = 2 ** 20;
const DEEPEST = 32; // objects within objects

export const isWhole = (value, least, most = Number.MAX_SAFE_INTEGER) =>
  Number.isSafeInteger(value) && value >= least && value <= most;

// Every key must be there and be known; those with a question mark may be missing.
export function checkKeys(what, object, names) {
  const isObject = typeof object === "object" && object !== null && !Array.isArray(object);
  demand(isObject, "malformed", `${what} is no object`);
  const known = names.split(" ");
  const missing = known.find((name) => !name.endsWith("?") && !Object.hasOwn(object, name));
  demand(missing === undefined, "malformed", `${what}: no ${missing}`);
  const unknown = Object.keys(object).find((name) => !known.includes(name) && !known.includes(`${name}?`));
  demand(unknown === undefined, "malformed", `${what}: unknown ${unknown}`);
}

export function readJson(what, text, longest = LONGEST_TEXT) {
  demand(typeof text === "string" && text.length <= longest, "malformed", `${what} is no text, or too long a one`);
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Refused("malformed", `${what} is no JSON`);
  }
  demand(isShallow(found, DEEPEST), "malformed", `${what} has no bottom`);
  return found;
}

// Whoever walks through it comes to an end.
const isShallow = (value, most) =>
  typeof value !== "object" || value === null ||
  (most > 0 && Object.values(value).every((one) => isShallow(one, most - 1)));

export const isSame = (a, b) => {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) return a === b;
  const names = Object.keys(a);
  const alike = Array.isArray(a) === Array.isArray(b) && names.length === Object.keys(b).length;
  return alike && names.every((name) => Object.hasOwn(b, name) && isSame(a[name], b[name]));
};
