// Privacy losses of several releases together: lists of pairs [p, q] multiplied, and δ of two such lists.

import { demand } from "./problems.js";

const FINEST = 8e-4; // the step of the grid for one list; smaller for more, so that what it adds stays the same
const MOST_PLACES = 2 ** 22; // of a grid
const MOST_WORK = 2 ** 31; // products, of all convolutions
const LONGEST_BREATH = 30; // milliseconds
const TAIL = 1e-17; // mass at either end of a list that a grid does not resolve

// Pairs that can happen, with their loss ln(p/q), in rising order.
function ranked(pairs) {
  const found = pairs.filter(([p]) => p > 0).map(([p, q]) => ({ p, q, loss: Math.log(p / q) }));
  return found.sort((a, b) => a.loss - b.loss);
}

// A release that shows nothing, one release as it is, or several on a grid.
export async function compose(lists) {
  if (lists.length < 2) return lists[0] ?? [[1, 1]];
  const step = FINEST / Math.sqrt(lists.length);
  let [found, work] = [onGrid(lists[0], step), 0];
  for (const list of lists.slice(1)) {
    const next = onGrid(list, step);
    const places = filled(next);
    affordable((work += found.masses.length * places.length), MOST_WORK);
    found = trimmed(await convolved(found, next, places));
  }
  return pairsOf(found, step);
}

let rested = 0;

// Whoever computes for long lets the page live meanwhile: its clicks and its timers.
export async function breathe() {
  if (performance.now() - rested < LONGEST_BREATH) return;
  await new Promise((resolve) => setTimeout(resolve));
  rested = performance.now();
}

const affordable = (size, most) => demand(size <= most, "unsupported", "losses that take too long to add up");

// Losses on the multiples of `step`: {start, masses, infinite}. Each pair is split between two neighbours so that both
// its probabilities stay, which can only make the two laws easier to tell apart.
function onGrid(pairs, step) {
  const known = pairs.filter(([p, q]) => p > 0 && q > 0);
  const losses = Float64Array.from(known, ([p, q]) => Math.log(p / q));
  const start = Math.floor(losses.reduce((least, loss) => Math.min(least, loss), Infinity) / step);
  const size = Math.floor(losses.reduce((most, loss) => Math.max(most, loss), -Infinity) / step) - start + 2;
  affordable(size, MOST_PLACES);
  const masses = new Float64Array(Math.max(size, 1));
  known.forEach(([p], i) => {
    const at = Math.floor(losses[i] / step);
    const upper = p * Math.min(1, Math.max(0, Math.expm1(at * step - losses[i]) / Math.expm1(-step)));
    masses[at - start] += p - upper;
    masses[at - start + 1] += upper;
  });
  const infinite = pairs.reduce((sum, [p, q]) => (q > 0 ? sum : sum + p), 0);
  return trimmed({ start, masses, infinite });
}

// Few large losses become infinite, few small ones larger: that, too, can only make the laws easier to tell apart.
function trimmed({ start, masses, infinite }) {
  let [low, high, below, beyond] = [0, masses.length, 0, infinite];
  while (high > 1 && beyond - infinite + masses[high - 1] <= TAIL) beyond += masses[(high -= 1)];
  while (low < high - 1 && below + masses[low] <= TAIL) below += masses[(low += 1) - 1];
  const kept = masses.slice(low, high);
  kept[0] += below;
  return { start: start + low, masses: kept, infinite: beyond };
}

// Lists may be long and have few masses.
const filled = ({ masses }) => Uint32Array.from(masses.keys()).filter((at) => masses[at] > 0);

async function convolved(a, b, places) {
  const masses = new Float64Array(a.masses.length + b.masses.length - 1);
  const others = Float64Array.from(places, (at) => b.masses[at]);
  for (let at = 0; at < a.masses.length; at += 1) {
    const mass = a.masses[at];
    if (at % 64 === 0) await breathe();
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
