// The device's own account: its ledger over time, whom it trusts and for what, turns to report, and reports on their
// way.
//
// Every change reads the store anew and writes it whole, as one step among all tabs of a site. A charge is written
// together with the turn that it pays for, and a sealed report in place of its turn, before anything is sent: after a
// crash the same bytes go out again under the same report id, so nothing is charged or counted twice.

import { limitsOf } from "./limits.js";
import { fraction, plus, toDouble } from "./numbers.js";
import { Refused, demand } from "./problems.js";
import { isSame } from "./reading.js";
import { SERVERS } from "./statements.js";
import { Memory } from "./storage.js";

const VERSION = 3;
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
    const state = await this.#read();
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
    this.#paid(await this.#read(), turn);
  }

  // Refuses a turn of an experiment that this device has reported, or has a turn of.
  async checkFirst(experiment) {
    demandFirst(this.#current(await this.store.read()), experiment);
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

  // Charges a turn and keeps it, {id, reportAt, until, turn}, and the arm {arm, name} that it shows, in one write: what
  // it cost, or a refusal. Its batches are hashes by number. One that is not `wanted` any longer costs nothing, nor one
  // for a user who is to see the `same` arm again, if another page has shown one meanwhile; nor a second one where a
  // device has one turn, `once`.
  async charge(turn, taken, { shown, wanted = () => true, same = false, once = false } = {}) {
    let cost;
    await this.#change((state) => {
      demand(wanted(), "timed-out", "the turn came too late");
      demand(!same || !Object.hasOwn(state.seen, turn.experiment), "seen", "an arm was shown meanwhile");
      if (once) demandFirst(state, turn.experiment);
      const paid = this.#paid(state, turn);
      cost = paid.cost;
      // Only here is anything forgotten, and by the time of the turn before: a clock that is wrong while nothing is
      // charged, or during one charge, does no harm.
      const { at } = paid.turn;
      const before = state.turns.reduce((latest, one) => Math.max(latest, since(one, at)), state.turns.length ? 0 : at);
      const oldest = Math.min(at, before) - Math.max(this.limits.longestPeriod, state.period);
      const kept = state.turns.filter((one) => since(one, at) > oldest);
      const { experiment } = turn;
      return {
        ...state,
        turns: [...kept, paid.turn],
        taken: { ...state.taken, [taken.id]: { ...taken, experiment, outcome: [] } },
        seen: shown ? { ...state.seen, [experiment]: shown } : state.seen,
      };
    });
    return cost;
  }

  // Keeps what came of a turn; false where it is on its way already, or over.
  async record(id, outcome) {
    let known;
    await this.#change((state) => {
      known = Object.hasOwn(state.taken, id);
      if (!known) return state;
      return { ...state, taken: { ...state.taken, [id]: { ...state.taken[id], outcome: [outcome] } } };
    });
    return known;
  }

  // Puts a sealed report in the place of its turn, if nothing else was recorded since it was sealed; false where there
  // was. Of several that seal a turn at once, one comes first, and the others' bytes are never sent.
  async seal(id, outcome, pending) {
    let done;
    await this.#change((state) => {
      const known = Object.hasOwn(state.taken, id) ? state.taken[id] : null;
      done = known === null || isSame(known.outcome, outcome);
      if (known === null || !done) return state;
      const reported = { ...state.reported, [known.experiment]: true };
      return { ...without(state, "taken", id), pending: { ...state.pending, [pending.report]: pending }, reported };
    });
    return done;
  }

  // Forgets a turn that will not be reported, and its arm too if nobody saw it. The charge stays.
  drop(id, { unseen = false } = {}) {
    return this.#change((state) => {
      if (!Object.hasOwn(state.taken, id)) return state;
      const rest = without(state, "taken", id);
      return unseen ? without(rest, "seen", state.taken[id].experiment) : rest;
    });
  }

  // Forgets which arm of an experiment this user was shown.
  forget(experiment) {
    return this.#change((state) => without(state, "seen", experiment));
  }

  // A report's fate is known: it need not be sent again. The charge stays.
  settle(report) {
    return this.#change((state) => without(state, "pending", report));
  }

  // What is kept now: turns that are to be reported, by id, reports on their way, and arms that were shown.
  async kept() {
    const { taken, pending, seen } = await this.#read();
    return { taken, pending, seen };
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

  async #read() {
    return this.#current(await stored(() => this.store.read()));
  }

  #change(update) {
    return stored(() => this.store.change((kept) => update(this.#current(kept))));
  }

  // What is kept, checked, with what this look at the clock tells of its turns.
  #current(kept) {
    const fresh = { version: VERSION, period: 1, turns: [], trusted: {}, taken: {}, pending: {}, seen: {}, reported: {} };
    const state = kept === undefined ? fresh : checked({ reported: {}, ...kept }); // earlier versions kept none
    const now = this.clock();
    const seen = (turn) => (turn.at <= now ? turn : { ...turn, noticed: since(turn, now) });
    return { ...state, period: Math.max(state.period, this.limits.shortestPeriod), turns: state.turns.map(seen) };
  }
}

// What a store cannot do is a reason like any other: a disk may be full, and a private window may have none.
async function stored(step) {
  try {
    return await step();
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new Refused("unusable", `this device's account: ${error?.message ?? "no reason"}`, { cause: error });
  }
}

const isPaid = ({ epsilon, delta, batches, at, noticed }) =>
  epsilon > 0 && delta >= 0 && isObject(batches) && Number.isFinite(at) && Number.isFinite(noticed ?? at);
const isTaken = ({ reportAt, until, outcome }) =>
  Number.isFinite(reportAt) && Number.isFinite(until) && Array.isArray(outcome) && outcome.length <= 1;
const without = (state, part, key) => {
  const { [key]: _, ...rest } = state[part];
  return { ...state, [part]: rest };
};
const demandFirst = ({ reported, taken }, experiment) => {
  const had = Object.hasOwn(reported, experiment) || Object.values(taken).some((one) => one.experiment === experiment);
  demand(!had, "reported", `${experiment} takes one report of a device, and this one has had its turn`);
};
const isObject = (value) => typeof value === "object" && value !== null;

// An account that cannot be read must not be taken for an empty one.
function checked(state) {
  try {
    const { version, period, turns, trusted, taken, pending, seen, reported } = state;
    const whole = version === VERSION && period >= 1 && [trusted, taken, pending, seen, reported].every(isObject);
    if (whole && turns.every(isPaid) && Object.values(taken).every(isTaken)) return state;
    throw new TypeError("not an account");
  } catch {
    throw new Refused("bad-account", "this device's account cannot be read");
  }
}
