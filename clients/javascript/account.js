// The device's own account: its ledger with its period, whom it trusts, and reports that may not be lost.
//
// Every change reads the store anew and writes it whole, as one step among all tabs of a site. A charge and the sealed
// report it pays for are written together, before anything is sent: after a crash the same bytes go out again.

import { limitsOf } from "./limits.js";
import { fraction, plus, toDouble } from "./numbers.js";
import { Refused, demand } from "./problems.js";
import { SERVERS } from "./statements.js";
import { Memory } from "./storage.js";

const VERSION = 1;
const FORGIVEN = 1 + 1e-12; // the last rounding of a budget cut into equal parts, and no more

function steps(epsilon, turns) {
  let sum = 0;
  for (let k = 0; k < turns; k += 1) sum += Math.exp(k * epsilon);
  return sum;
}

// Added exactly and rounded once.
const total = (charges, name) => toDouble(charges.map((one) => fraction(one[name])).reduce(plus, fraction(0)));

export class Account {
  constructor(store = new Memory(), { limits = {}, clock = () => Date.now() / 1000 } = {}) {
    this.store = store;
    this.limits = limitsOf(limits);
    this.clock = clock;
  }

  // How much ε and δ the rest of this period may still cost, and when it ends, if it has begun.
  async left() {
    const { charges, started, period } = this.#current(await this.store.read());
    return {
      epsilon: Math.max(0, this.limits.epsilonPerPeriod - total(charges, "epsilon")),
      delta: Math.max(0, this.limits.deltaPerPeriod - total(charges, "delta")),
      renews: started === null ? null : started + period,
    };
  }

  // Refuses a turn that the rest of this period cannot pay for.
  async check(turn) {
    this.#charged(this.#current(await this.store.read()), turn);
  }

  // Believes the keys that are pinned, or those first seen of the experiment at this address, and no revision older than
  // the one before the newest seen.
  trust(experiment, { revision, privacy }, keys, pinned) {
    return this.#change((state) => {
      const known = Object.hasOwn(state.trusted, experiment) ? state.trusted[experiment] : null;
      const expected = pinned ?? known ?? keys;
      const same = SERVERS.every((server) => expected[server] === keys[server]);
      demand(same, "bad-signature", `${experiment} is signed by other keys than this device trusts`);
      const newest = Math.max(revision, known?.revision ?? 0);
      demand(revision >= newest - 1, "bad-signature", `revision ${revision} is stale: ${newest} has been seen`);
      const period = Math.max(state.period, privacy.period);
      return { ...state, period, trusted: { ...state.trusted, [experiment]: { ...keys, revision: newest } } };
    });
  }

  // Charges a turn {experiment, privacy, batches} and keeps its report, in one write: what it cost, or a refusal.
  async charge(turn, pending) {
    const keep = (state) => ({ ...this.#charged(state, turn), pending: [...state.pending, pending] });
    return (await this.#change(keep)).charges.at(-1);
  }

  // A report's fate is known: it need not be sent again. The charge stays.
  settle(report) {
    return this.#change((state) => ({ ...state, pending: state.pending.filter((one) => one.report !== report) }));
  }

  async pending() {
    return this.#current(await this.store.read()).pending;
  }

  // Turns that share a batch are steps from neighbour to neighbour: k of them cost (kε, δ(1 + e^ε + … + e^((k-1)ε))).
  #charged(state, { experiment, privacy, batches = [] }) {
    const shares = (group) => group.experiment === experiment && group.batches.some((one) => batches.includes(one));
    const joined = state.groups.filter(shares);
    const numbers = [...new Set([...batches, ...joined.flatMap((group) => group.batches)])];
    const group = { experiment, batches: numbers, turns: joined.reduce((sum, one) => sum + one.turns, 1) };
    const paid = joined.reduce((sum, one) => sum + steps(privacy.epsilon, one.turns), 0);
    const delta = privacy.delta * (steps(privacy.epsilon, group.turns) - paid);
    this.#afford(state.charges, experiment, privacy.epsilon, delta);
    return {
      ...state,
      charges: [...state.charges, { experiment, epsilon: privacy.epsilon, delta }],
      groups: [...state.groups.filter((one) => !joined.includes(one)), group],
      started: state.started ?? this.clock(),
    };
  }

  #afford(charges, experiment, epsilon, delta) {
    const { epsilonPerPeriod, deltaPerPeriod } = this.limits;
    const spent = total(charges, "epsilon");
    const fits = spent + epsilon <= epsilonPerPeriod * FORGIVEN;
    demand(fits, "budget-spent", `${experiment} costs ε = ${epsilon}, and ${spent} of ${epsilonPerPeriod} is spent`);
    const small = total(charges, "delta") + delta <= deltaPerPeriod * FORGIVEN;
    demand(small, "budget-spent", `${experiment} costs δ = ${delta}, more than is left of ${deltaPerPeriod}`);
  }

  #change(update) {
    return this.store.change((kept) => update(this.#current(kept)));
  }

  // What is kept, as it is now: checked, and renewed when its period is over.
  #current(kept) {
    const fresh = { version: VERSION, period: 1, started: null, charges: [], groups: [], trusted: {}, pending: [] };
    const state = kept === undefined ? fresh : checked(kept);
    const period = Math.max(state.period, this.limits.shortestPeriod);
    if (state.started === null) return { ...state, period };
    const now = this.clock();
    if (now >= state.started + period) return { ...state, period, started: null, charges: [], groups: [] };
    // A clock that was ahead and was set right must not lock the ledger for as long as it was ahead.
    return { ...state, period, started: Math.min(state.started, now) };
  }
}

// An account that cannot be read must not be taken for an empty one.
function checked(state) {
  try {
    const { version, period, started, charges, groups, trusted, pending } = state;
    const whole = version === VERSION && period >= 1 && (started === null || Number.isFinite(started));
    const spent = total(charges, "epsilon") >= 0 && total(charges, "delta") >= 0;
    const rest = typeof trusted === "object" && Array.isArray(pending) && groups.every((one) => one.turns >= 1);
    if (whole && spent && rest) return state;
    throw new TypeError("not an account");
  } catch {
    throw new Refused("bad-account", "this device's account cannot be read");
  }
}
