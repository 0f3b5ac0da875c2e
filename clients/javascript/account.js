// The device's own account: its ledger over time, whom it trusts and for what, and reports that may not be lost.
//
// Every change reads the store anew and writes it whole, as one step among all tabs of a site. A charge and the sealed
// report it pays for are written together, before anything is sent: after a crash the same bytes go out again.

import { limitsOf } from "./limits.js";
import { fraction, plus, toDouble } from "./numbers.js";
import { Refused, demand } from "./problems.js";
import { SERVERS } from "./statements.js";
import { Memory } from "./storage.js";

const VERSION = 2;
const FORGIVEN = 1 + 1e-12; // the last rounding of a budget cut into equal parts, and no more

function steps(epsilon, turns) {
  let sum = 0;
  for (let k = 0; k < turns; k += 1) sum += Math.exp(k * epsilon);
  return sum;
}

// Added exactly and rounded once.
function total(costs, name) {
  if (!costs.every((cost) => cost[name] < Infinity)) return Infinity;
  return toDouble(costs.map((cost) => fraction(cost[name])).reduce(plus, fraction(0)));
}

// From when a turn counts. A clock that was set back makes it a turn of the future. Until its own time comes (again) it
// counts from when this was noticed: neither is the ledger locked for as long as the clock was ahead, nor does a clock
// that is wrong for a while make it forget.
const since = ({ at, noticed }, now) => (at <= now ? at : Math.min(now, noticed ?? now));

// What each turn costs after those before it. Turns that share a batch are steps from neighbour to neighbour: k of them
// cost (kε, δ(1 + e^ε + … + e^((k-1)ε))). A batch is known by its hash.
function costsOf(turns) {
  const groups = new Map();
  return turns.map(({ epsilon, delta, batches }) => {
    const hashes = Object.values(batches);
    const joined = [...new Set(hashes.map((hash) => groups.get(hash)).filter(Boolean))];
    const group = {
      hashes: [...hashes, ...joined.flatMap((one) => one.hashes)],
      turns: joined.reduce((sum, one) => sum + one.turns, 1),
    };
    for (const hash of group.hashes) groups.set(hash, group);
    const due = steps(epsilon, group.turns);
    const paid = joined.reduce((sum, one) => sum + steps(epsilon, one.turns), 0);
    return { epsilon, delta: delta && delta * (due < Infinity ? due - paid : due) };
  });
}

// A turn at time t is paid for only when all turns of (t - period, t] together stay within the budget, where `period`
// is the longest of any experiment that was joined. Turns are kept as long as the longest that may ever be joined.
export class Account {
  constructor(store = new Memory(), { limits = {}, clock = () => Date.now() / 1000 } = {}) {
    this.store = store;
    this.limits = limitsOf(limits);
    this.clock = clock;
  }

  // How much ε and δ may still be spent now, and when there will be more, if any is spent.
  async left() {
    const state = this.#current(await this.store.read());
    const counted = this.#counted(state);
    const costs = costsOf(counted);
    return {
      epsilon: Math.max(0, this.limits.epsilonPerPeriod - total(costs, "epsilon")),
      delta: Math.max(0, this.limits.deltaPerPeriod - total(costs, "delta")),
      renews: counted.length ? since(counted[0], this.clock()) + state.period : null,
    };
  }

  // Refuses a turn {experiment, privacy, batches} that cannot be paid for now, or whose batches are known as others.
  async check(turn) {
    this.#paid(this.#current(await this.store.read()), turn);
  }

  // Believes the keys that are pinned, or those first seen of the experiment at this address, no other promise than the
  // one first seen, and no revision older than the one before the newest seen.
  trust(experiment, { revision, privacy }, keys, promise, pinned) {
    return this.#change((state) => {
      const known = Object.hasOwn(state.trusted, experiment) ? state.trusted[experiment] : null;
      const expected = pinned ?? known ?? keys;
      const same = SERVERS.every((server) => expected[server] === keys[server]);
      demand(same, "bad-signature", `${experiment} is signed by other keys than this device trusts`);
      const kept = (known?.promise ?? promise) === promise;
      demand(kept, "broken-promise", `${experiment} promises something else than before`);
      const newest = Math.max(revision, known?.revision ?? 0);
      demand(revision >= newest - 1, "bad-signature", `revision ${revision} is stale: ${newest} has been seen`);
      const period = Math.max(state.period, privacy.period);
      return { ...state, period, trusted: { ...state.trusted, [experiment]: { ...keys, revision: newest, promise } } };
    });
  }

  // Charges a turn and keeps its report, in one write: what it cost, or a refusal. Its batches are hashes by number.
  async charge(turn, pending) {
    let cost;
    await this.#change((state) => {
      const paid = this.#paid(state, turn);
      cost = paid.cost;
      const oldest = this.clock() - Math.max(this.limits.longestPeriod, state.period);
      const kept = state.turns.filter((one) => since(one, paid.turn.at) > oldest);
      return { ...state, turns: [...kept, paid.turn], pending: [...state.pending, pending] };
    });
    return cost;
  }

  // A report's fate is known: it need not be sent again. The charge stays.
  settle(report) {
    return this.#change((state) => ({ ...state, pending: state.pending.filter((one) => one.report !== report) }));
  }

  async pending() {
    return this.#current(await this.store.read()).pending;
  }

  // The turn as it would be kept, and its cost.
  #paid(state, { experiment, privacy: { epsilon, delta }, batches = {} }) {
    for (const known of state.turns.filter((one) => one.experiment === experiment)) {
      const isOther = (number) => (known.batches[number] ?? batches[number]) !== batches[number];
      const other = Object.keys(batches).find(isOther);
      demand(other === undefined, "broken-promise", `batch ${other} is another one than before`);
    }
    const turn = { experiment, epsilon, delta, batches, at: this.clock(), noticed: null };
    const costs = costsOf([...this.#counted(state), turn]);
    const cost = costs.pop();
    this.#afford(costs, cost, experiment);
    return { turn, cost };
  }

  #afford(costs, { epsilon, delta }, experiment) {
    const { epsilonPerPeriod, deltaPerPeriod } = this.limits;
    const spent = total(costs, "epsilon");
    const fits = spent + epsilon <= epsilonPerPeriod * FORGIVEN;
    demand(fits, "budget-spent", `${experiment} costs ε = ${epsilon}, and ${spent} of ${epsilonPerPeriod} is spent`);
    const small = total(costs, "delta") + delta <= deltaPerPeriod * FORGIVEN;
    demand(small, "budget-spent", `${experiment} costs δ = ${delta}, more than is left of ${deltaPerPeriod}`);
  }

  // The turns within the period before now, the oldest first.
  #counted({ turns, period }) {
    const now = this.clock();
    const counted = turns.filter((turn) => since(turn, now) > now - period);
    return counted.sort((a, b) => since(a, now) - since(b, now));
  }

  #change(update) {
    return this.store.change((kept) => update(this.#current(kept)));
  }

  // What is kept, checked, with what this look at the clock tells of its turns.
  #current(kept) {
    const fresh = { version: VERSION, period: 1, turns: [], trusted: {}, pending: [] };
    const state = kept === undefined ? fresh : checked(kept);
    const now = this.clock();
    const seen = (turn) => (turn.at <= now ? turn : { ...turn, noticed: since(turn, now) });
    return { ...state, period: Math.max(state.period, this.limits.shortestPeriod), turns: state.turns.map(seen) };
  }
}

const isPaid = ({ epsilon, delta, batches, at, noticed }) =>
  epsilon > 0 && delta >= 0 && isObject(batches) && Number.isFinite(at) && Number.isFinite(noticed ?? at);
const isObject = (value) => typeof value === "object" && value !== null;

// An account that cannot be read must not be taken for an empty one.
function checked(state) {
  try {
    const { version, period, turns, trusted, pending } = state;
    const whole = version === VERSION && period >= 1 && isObject(trusted) && Array.isArray(pending);
    if (whole && turns.every(isPaid)) return state;
    throw new TypeError("not an account");
  } catch {
    throw new Refused("bad-account", "this device's account cannot be read");
  }
}
