// Privacy losses of several releases together: lists of pairs [p, q] multiplied, and δ of two such lists.

import { demand } from "./problems.js";

const FINEST = 8e-4; // the step of the grid for one list; smaller for more, so that what it adds stays the same
const MOST_PLACES = 2 ** 22; // of a grid
const TAIL = 1e-17; // mass at either end of a list that a grid does not resolve

// Pairs that can happen, with their loss ln(p/q), in rising order.
function ranked(pairs) {
  const found = pairs.filter(([p]) => p > 0).map(([p, q]) => ({ p, q, loss: Math.log(p / q) }));
  return found.sort((a, b) => a.loss - b.loss);
}

// A release that shows nothing, one release as it is, or several on a grid.
export function compose(lists) {
  if (lists.length < 2) return lists[0] ?? [[1, 1]];
  const step = FINEST / Math.sqrt(lists.length);
  return pairsOf(lists.map((list) => onGrid(ranked(list), step)).reduce(convolved), step);
}

// Losses on the multiples of `step`: {start, masses, infinite}. Each pair is split between two neighbours so that both
// its probabilities stay, which can only make the two laws easier to tell apart. So does what happens to the ends: few
// large losses become infinite, few small ones larger.
function onGrid(pairs, step) {
  let infinite = 0;
  while (pairs.length > 1 && (pairs.at(-1).q === 0 || infinite + pairs.at(-1).p <= TAIL)) infinite += pairs.pop().p;
  let below = 0;
  const lowest = (pairs.find(({ p }) => (below += p) > TAIL) ?? pairs[0]).loss;
  const start = Math.floor(lowest / step);
  const size = Math.floor(pairs.at(-1).loss / step) - start + 2;
  demand(size <= MOST_PLACES, "unsupported", "losses too far apart to be added up");
  const masses = new Float64Array(size);
  for (const { p, loss } of pairs) {
    const raised = Math.max(lowest, loss);
    const at = Math.floor(raised / step);
    const upper = p * Math.min(1, Math.max(0, Math.expm1(at * step - raised) / Math.expm1(-step)));
    masses[at - start] += p - upper;
    masses[at - start + 1] += upper;
  }
  return { start, masses, infinite };
}

function convolved(a, b) {
  const masses = new Float64Array(a.masses.length + b.masses.length - 1);
  const places = Uint32Array.from(b.masses.keys()).filter((at) => b.masses[at] > 0);
  const others = b.masses.filter((mass) => mass > 0);
  for (let at = 0; at < a.masses.length; at += 1) {
    const mass = a.masses[at];
    if (mass > 0) for (let i = 0; i < places.length; i += 1) masses[at + places[i]] += mass * others[i];
  }
  return { start: a.start + b.start, masses, infinite: a.infinite + b.infinite };
}

function pairsOf({ start, masses, infinite }, step) {
  const pairs = [[infinite, 0]];
  masses.forEach((mass, at) => mass > 0 && pairs.push([mass, mass * Math.exp(-step * (start + at))]));
  return pairs;
}

// Σ max(0, p - e^ε q) over all products of two lists: with each of one list go those of the other whose loss together
// with its own exceeds ε, and the larger its own, the more they are.
export function hockeyStick(first, second, epsilon) {
  const others = ranked(second).reverse();
  let [sum, next, p, q] = [0, 0, 0, 0];
  for (const one of ranked(first)) {
    for (; next < others.length && one.loss + others[next].loss > epsilon; next += 1) {
      p += others[next].p;
      q += others[next].q;
    }
    sum += Math.max(0, one.p * p - Math.exp(epsilon) * one.q * q);
  }
  return sum;
}
