// What one turn costs: δ at a given ε, rounded up, from the laws of the noise that honest users add to every batch.
//
// A batch is a list of pairs [p, q]: the probabilities of one observation under a value and under its neighbour;
// several batches are products of pairs. Doubles will do, since nothing is drawn from these numbers: a table is right
// up to a factor 1 ± error, so p is taken that much larger and q smaller. What a table leaves out counts as lost.

import { compare, divide, fraction, plus, times, toDouble } from "./numbers.js";
import { breathe, compose, hockeyStick } from "./composition.js";
import { demand } from "./problems.js";
import { vectorDelta } from "./divergence.js";

const ROUNDING = 8e-16; // of one step of a table: three operations, and a parameter that was rounded
const NEGLIGIBLE = 1e-25; // a mass this small is left out, and all beyond it
const MOST_LEVELS = 2 ** 16;
const MOST_TERMS = 2 ** 20; // of one table: what a page computes in a moment, whoever named the parameters
const MOST_PAIRS = 2 ** 22; // of all batches together
const affordable = (size, most) => demand(size <= most, "unsupported", "noise that takes too long to compute with");

// A law with one peak, from there outwards and divided by its sum: {first, table, cut, error}. `growth(k)` is
// P(k + 1)/P(k); it falls beyond the peak, or rises towards `limit`.
function tabulate(mode, growth, last = Infinity, limit = 0) {
  const up = [1];
  const down = [1];
  for (let k = mode; k < last && up.at(-1) > NEGLIGIBLE; k += 1) {
    affordable(up.push(up.at(-1) * growth(k)), MOST_TERMS);
  }
  for (let k = mode; k > 0 && down.at(-1) > NEGLIGIBLE; k -= 1) {
    affordable(down.push(down.at(-1) / growth(k - 1)), MOST_TERMS);
  }
  const end = mode + up.length - 1;
  const ratio = end < last ? Math.max(growth(end), limit) : 0;
  const first = mode - down.length + 1;
  const table = [...down.slice(1).reverse(), ...up];
  const sum = table.reduce((total, mass) => total + mass, 0);
  const cut = (up.at(-1) * ratio) / (1 - ratio) + first * down.at(-1);
  return { first, table: table.map((mass) => mass / sum), cut, error: ROUNDING * (table.length + 8) };
}

export function binomial(trials, p) {
  if (p === 1) return { first: trials, table: [1], cut: 0, error: 0 };
  const odds = p / (1 - p);
  return tabulate(Math.min(trials, Math.floor((trials + 1) * p)), (k) => ((trials - k) * odds) / (k + 1), trials);
}

function poisson(rate) {
  return tabulate(Math.floor(rate), (k) => rate / (k + 1));
}

function polya(r, beta) {
  const mode = Math.max(0, Math.floor(((r - 1) * beta) / (1 - beta)));
  return tabulate(mode, (k) => (beta * (r + k)) / (k + 1), Infinity, beta);
}

// The noise of so many parties in one count.
export function counted({ family, rate, r, beta, scale }, parties) {
  const all = (parameter) => toDouble(times(fraction(parameter), parties));
  if (family === "Poisson") return poisson(all(rate));
  return polya(all(r), scale === undefined ? toDouble(fraction(beta)) : Math.exp(-1 / toDouble(fraction(scale))));
}

function shifted({ table, cut, error }, by) {
  const pairs = [];
  for (let x = 0; x < table.length + by; x += 1) pairs.push([table[x] ?? 0, table[x - by] ?? 0]);
  return { pairs, cut, error };
}

const turned = ({ pairs, ...rest }) => ({ pairs: pairs.map(([p, q]) => [q, p]), ...rest });

// A server's noise is whole by itself; shares of devices must add up to one.
const isLaplace = ({ family, r }, honest) =>
  family === "DiscreteLaplace" ||
  (family !== "Skellam" && compare(times(fraction(r), honest), { over: 1n, under: 1n }) >= 0);

// Laplace noise e^(-|x|/b): beyond the two values all observations say the same, so only those between are listed.
// Pólya shares that add up to more than one are Laplace noise plus more, which tells no more than Laplace alone.
function laplacePairs({ share, honest, precision }) {
  demand(isLaplace(share, honest), "too-little-noise", "the shares do not add up to Laplace noise");
  demand(precision <= MOST_LEVELS, "unsupported", `${precision} levels in several batches`);
  const beta = Math.exp(-1 / toDouble(fraction(share.scale)));
  const [outside, inside] = [1 / (1 + beta), (1 - beta) / (1 + beta)];
  const pairs = [[outside, outside * beta ** precision], [outside * beta ** precision, outside]];
  for (let x = 1; x < precision; x += 1) pairs.push([inside * beta ** x, inside * beta ** (precision - x)]);
  return { pairs, cut: 0, error: ROUNDING * (precision + 8) };
}

// The number of fair bits among the noise is public, so the pairs are a mixture over it.
function sparsePairs({ share, honest, precision }, allowed) {
  const sent = binomial(share.slots * honest, toDouble(fraction(share.rate)));
  affordable(sent.table.length * binomial(sent.first + sent.table.length, 0.5).table.length, allowed);
  const rows = sent.table.map((weight, at) => [weight, shifted(binomial(sent.first + at, 0.5), precision)]);
  const pairs = rows.flatMap(([weight, row]) => row.pairs.map(([p, q]) => [weight * p, weight * q]));
  const cut = sent.cut + rows.reduce((sum, [weight, row]) => sum + weight * row.cut, 0);
  return { pairs, cut, error: sent.error + rows.reduce((most, [, row]) => Math.max(most, row.error), 0) };
}

function bitsPairs(plan, most) {
  const { share, honest, precision } = plan;
  if (share.family === "SparseBits") return sparsePairs(plan, most);
  return shifted(binomial(share.trials * honest, toDouble(fraction(share.p))), precision);
}

// The lists of pairs of one batch, so many at most. In a histogram one count rises and another falls.
const LISTS = {
  pieces: (plan) => [laplacePairs(plan)],
  residues: (plan) => [laplacePairs(plan)],
  shares: (plan) => [laplacePairs(plan)],
  sharedCounts(plan) {
    const rise = laplacePairs({ ...plan, precision: 1 });
    return [rise, turned(rise)];
  },
  bits: (plan, most) => [bitsPairs(plan, most)],
  counts: ({ share, honest }) => [shifted(counted(share, honest), 1)],
  labels({ share, honest }) {
    const rise = shifted(counted(share, honest), 1);
    return [rise, turned(rise)];
  },
};

async function idealDelta(lists, epsilon) {
  const cut = lists.reduce((sum, list) => sum + list.cut, 0);
  const all = [];
  for (const { pairs, error } of lists) {
    await breathe();
    all.push(pairs.map(([p, q]) => [p * (1 + error), q * (1 - error)]));
  }
  return hockeyStick(await compose(all.slice(1)), all[0], epsilon) + cut;
}

// How far a value can move a sum with Laplace noise; in a histogram two counts move by one each, and in a vector of
// whole numbers all together by the largest sum of differences.
const MOVES = {
  vectors: ({ moments, precision }) => Math.floor(moments.reach(precision).l1),
  pieces: ({ precision }) => precision, residues: ({ precision }) => precision, shares: ({ precision }) => precision,
  sharedCounts: () => 2,
};

// Laplace noise in every batch is private with δ = 0 at the sum of its losses g/b, exactly: that sum, or null.
function pureLoss(plans) {
  if (!plans.every((plan) => plan.way in MOVES && isLaplace(plan.share, plan.honest))) return null;
  return plans.map((plan) => divide(fraction(MOVES[plan.way](plan)), fraction(plan.share.scale))).reduce(plus);
}

// How far what is really sent is from the ideal: residues in pieces, and noise that has a limit, of users and front.
const distanceOf = (plan) =>
  plan.way === "pieces" ? 2 ** -plan.carrier.security : plan.users * plan.excess + plan.frontExcess;

// The δ of a turn. All batches get the same value and err to the same side, so a neighbour moves all of them up or all
// of them down; a distance costs (1 + e^ε) times itself.
export async function turnDelta(batches, epsilon) {
  // Several sums of one report cost what each costs: their noises are independent, and both sides are alike.
  const plans = batches.flatMap((plan) => plan.parts ?? [plan]);
  const distance = plans.reduce((sum, plan) => sum + distanceOf(plan), 0);
  const charged = (at) => (1 + Math.exp(at)) * distance * (1 + 1e-9);
  const pure = pureLoss(plans);
  // What is private at a smaller ε is so at this one.
  if (pure !== null && compare(pure, fraction(epsilon)) <= 0) return charged(Math.min(epsilon, toDouble(pure)));
  if (plans.some(({ way }) => way === "vectors")) return vectorDelta(plans, epsilon);
  const up = [];
  let left = MOST_PAIRS;
  for (const plan of plans) {
    await breathe();
    const lists = LISTS[plan.way](plan, left);
    left -= lists.reduce((sum, { pairs }) => sum + pairs.length, 0);
    affordable(0, left);
    up.push(...lists);
  }
  const ideal = Math.max(await idealDelta(up, epsilon), await idealDelta(up.map(turned), epsilon));
  return Math.min(1, ideal * (1 + 1e-12) + charged(epsilon));
}
