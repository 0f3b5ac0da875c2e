// A client of croupier's service in plain JavaScript: WebCrypto and fetch, nothing else.
//
//   const client = new Client("https://analyzer.example", { account: new Account(new Kept()), keys: KEYS });
//   const turn = await client.play("onboarding", { timeout: 0.5, default: "plain" });
//   show(turn.armName);
//   await client.report(turn, 1); // records it; it is sent when it is due

import { Account } from "./account.js";
import { after } from "./answers.js";
import { base64, concat, fromBase64, random, sha256, utf8 } from "./bytes.js";
import { checkName, checkOffer, readOffer, verifyKeys } from "./configuration.js";
import { Context } from "./context.js";
import { blocks, withConstant } from "./features.js";
import { Joining, addressOf } from "./joining.js";
import { LIMITS, checkAddress, checkLimits, checkUsers } from "./limits.js";
import { Moments } from "./moments.js";
import { Outbox } from "./outbox.js";
import { Personal, checkContext } from "./personal.js";
import { prio3Count, prio3Histogram, prio3Ranges, prio3Sum, prio3SumVec } from "./prio3.js";
import { NoTurn, Problem, Refused, demand } from "./problems.js";
import { FIRST_PAUSE, Requests, sleep } from "./requests.js";
import { Rule } from "./rule.js";
import { SERVERS, checkSigned, textOf } from "./statements.js";
import { Kept, Memory } from "./storage.js";
import { tokenRequest } from "./tokens.js";
import { Shown, Turn } from "./turns.js";
import { batchHash } from "./wire.js";

export { Account, Kept, LIMITS, Memory, NoTurn, Problem, Refused, Shown, Turn, tokenRequest };
export { Context, Moments, Rule, blocks, withConstant };
export { prio3Count, prio3Histogram, prio3Ranges, prio3Sum, prio3SumVec };

const LONGEST_HOLD = 10; // seconds
const [LONGEST_PATIENCE, ZERO] = [86_400, new Uint8Array(1)];
const MOST_RULES = 7; // that are kept beside a new one

const reportsUrl = ({ urls, experiment }) => `${addressOf(urls.front, experiment)}/reports`;

// Whether a device may report more than once.
const repeats = ({ reports }) => reports.repeat ?? true;

// The arm that an experiment has ended with, which everybody is shown without a turn; null where there is none.
const chosenOf = ({ configuration: { experiment, arms, chosen } }) =>
  chosen === undefined ? null : new Shown(experiment, arms[chosen], chosen);

// Uniform in [0, 1), with 53 bits.
function uniform() {
  const view = new DataView(random(8).buffer);
  return ((view.getUint32(0) >>> 11) * 2 ** 32 + view.getUint32(4)) / 2 ** 53;
}

// Whose sums a report changes together with others of this device: its batches, or, where no device can know them, all
// of the experiment's as one.
async function sharedWith({ experiment, trust, keys }, { batches }) {
  if (trust === "two-servers") {
    const said = [utf8("croupier/2 experiment"), ZERO, utf8(experiment), ZERO];
    const all = concat(...said, ...SERVERS.map((server) => fromBase64(keys[server].verify)));
    return { any: base64(await sha256(all)) };
  }
  const entries = batches.map(async (batch) => [batch.number, base64(await batchHash(batch))]);
  return Object.fromEntries(await Promise.all(entries));
}

// Silence would tell, where the default could not be reported.
function checkDefault(turn) {
  try {
    turn.checkValue(turn.configuration.reports.default);
  } catch (error) {
    throw new Refused("not-covered", `what is reported where nothing is recorded cannot be: ${error.message}`);
  }
}

// Turns that are kept, but for those that an older version kept in another form.
function readable(kept) {
  return kept.flatMap(({ turn }) => {
    try {
      return [Turn.fromJSON(turn)];
    } catch {
      return [];
    }
  });
}

function checkedKeys(keys) {
  const isKey = (server) => typeof keys?.[server] === "string" && /^[\w-]{43}$/.test(keys[server]);
  if (!SERVERS.every(isKey)) throw new TypeError("keys: both servers' signing keys, {analyzer, front}, in base64");
  return { analyzer: keys.analyzer, front: keys.front };
}

function checkPlay(patience, timeout, fallback) {
  if (!(patience >= 0 && patience <= LONGEST_PATIENCE)) throw new RangeError(`patience: ${patience} seconds`);
  if (!(timeout === undefined || timeout > 0)) throw new RangeError(`timeout: ${timeout} seconds`);
  const named = fallback === undefined || typeof fallback === "string";
  if (!named) throw new TypeError(`default: ${fallback} is not the name of an arm`);
}

export class Client {
  #joining;
  #requests;
  #outbox;
  #background;
  #rules = new Map(); // that were fetched last, by hash
  #warned = new Set();

  // `keys`: {analyzer, front}, the signing keys of the servers in base64, as their operators tell them. Experiments of
  // trust "two-servers" need them; under other trusts the keys first seen are kept without them. `background`: whether
  // reports are sent by themselves when they are due, while the page is open. `answerTimeout`: seconds for one answer.
  constructor(analyzer, { keys, account = new Account(), background = true, ...wire } = {}) {
    const { attempts = 8, answerTimeout = 30, fetch } = wire;
    demand(globalThis.crypto?.subtle, "unsupported", "WebCrypto needs a page that came by https or from localhost");
    checkAddress(analyzer, account.limits);
    this.analyzer = analyzer.replace(/\/+$/, "");
    this.account = account;
    this.keys = keys === undefined ? null : checkedKeys(keys);
    this.#requests = new Requests({ fetch, attempts, timeout: answerTimeout });
    this.#joining = new Joining({ ...this, requests: this.#requests });
    this.#outbox = new Outbox(account, this.#requests, (experiment, turn) => this.#reportsTo(experiment, turn));
    this.#background = background;
    if (background) this.#outbox.begin();
  }

  // Why a report still waits that was to be sent by now; null where none does.
  get trouble() {
    return this.#outbox.trouble;
  }

  // Fetches the experiment, checks its signatures and this device's limits, and remembers whom it trusts.
  join(name, { attempts } = {}) {
    return this.#joining.join(name, attempts);
  }

  // Takes a turn. It is charged and kept at once, and reported at its `reportAt`, whatever comes of it.
  //
  // timeout: after so many seconds at most there is an arm to show, whatever servers do. default: the arm that the app
  // shows where there is no turn: it is returned then, as `Shown`; without it the reason is thrown, a `NoTurn`. sticky:
  // whether a user who returns sees the same arm again, which takes no new turn; no server learns of it, and an arm
  // that was retired is drawn anew. patience: for how many seconds to wait where nothing is open. ticket: what a front
  // wants to see that admits only those whom an issuer knows. context: what describes the user, by name, where devices
  // choose by themselves; it never leaves the device.
  async play(name, { timeout, default: fallback, sticky = true, patience = 0, ticket, context } = {}) {
    checkName(name);
    checkPlay(patience, timeout, fallback);
    const way = { sticky, ticket, context, patience: Math.min(patience, timeout ?? patience), kept: null, late: false };
    try {
      const steps = this.#play(name, way);
      return await (timeout === undefined ? steps : this.#inTime(steps, timeout, way));
    } catch (reason) {
      // Nothing is read here: whoever gave a time does not wait for a disk either.
      const seen = way.kept && this.#seen(name, way.kept);
      if (seen) return seen;
      if (fallback === undefined) throw reason;
      if (reason.reason === "unknown-experiment") this.#warn(`${this.analyzer} knows no experiment called “${name}”`);
      const arm = this.#joining.known.get(name)?.configuration.arms.indexOf(fallback) ?? -1;
      return new Shown(name, fallback, arm < 0 ? null : arm, reason);
    } finally {
      const { arms = [] } = this.#joining.known.get(name)?.configuration ?? {};
      const odd = fallback !== undefined && arms.length && !arms.includes(fallback);
      if (odd) this.#warn(`default: “${fallback}” is no arm of ${name}, which has ${arms.join(", ")}`);
    }
  }

  // Says once what an app with a default would never show: a name that somebody has misspelt.
  #warn(message) {
    if (!this.#warned.has(message)) console.warn(`croupier: ${message}`);
    this.#warned.add(message);
  }

  // Records what came of a turn; again, as often as it changes, until it is sent. Nothing is sent by this. False where
  // nothing of it will be reported: an arm shown without a turn, or a report that is on its way already.
  async report(turn, outcome) {
    if (turn instanceof Shown) return false;
    turn.checkValue(outcome);
    if (await this.account.record(turn.id, outcome)) return true;
    const { pending } = await this.account.kept();
    const early = this.account.clock() < turn.reportAt && !Object.hasOwn(pending, turn.id);
    if (early) throw new RangeError("a turn that this device did not take");
    return false;
  }

  // Sends the reports that are due; the seconds until the next one is, null where there is none. The background does
  // this. A page without it calls this when it opens, and when the time has come: never because of an outcome.
  sendDue() {
    return this.#outbox.sendDue();
  }

  // The turns that are still to be reported, whichever page took them with this account.
  async turns() {
    return readable(Object.values((await this.account.kept()).taken));
  }

  // The turn of this id, if it is still to be reported; else null.
  async turn(id) {
    return (await this.turns()).find((turn) => turn.id === id) ?? null;
  }

  // Stops the background.
  close() {
    this.#outbox.close();
  }

  // Where the front is now, whatever address it had when the turn was taken.
  #reportsTo(experiment, turn) {
    const newest = [...this.#joining.known].find(([name]) => addressOf(this.analyzer, name) === experiment)?.[1];
    const { configuration } = newest ?? turn ?? {};
    return configuration ? reportsUrl(configuration) : null;
  }

  async #play(name, way) {
    try {
      if (way.sticky) way.kept = await this.account.kept();
      const again = way.sticky ? await this.#again(name, way.kept) : null;
      if (again) return again;
      const joined = this.#joining.known.get(name) ?? (await this.join(name));
      checkContext(joined.configuration, way.context);
      const ended = chosenOf(joined);
      if (ended) return ended;
      const turn = await this.#take(joined, way).catch((reason) => this.#meanwhile(name, reason));
      if (this.#background) this.#outbox.begin();
      return turn;
    } catch (error) {
      throw error instanceof NoTurn ? error : new Refused("unusable", error.message, { cause: error });
    }
  }

  // Two calls at once, in one page or in two, are one user: the second one gets what the first has got.
  // Where the experiment has ended it may say by now with which arm.
  async #meanwhile(name, reason) {
    if (reason.reason === "experiment-finished") {
      const newest = await this.join(name, { attempts: 1 }).catch(() => null);
      const ended = newest && chosenOf(newest);
      if (ended) return ended;
    }
    if (reason.reason !== "seen") throw reason;
    return this.#seen(name, await this.account.kept());
  }

  // What comes too late was shown to nobody, and would be reported as if it was.
  async #inTime(steps, seconds, way) {
    let timer;
    const end = new Promise((_, reject) => {
      timer = after(seconds, () => {
        way.late = true;
        reject(new Refused("timed-out", `there was no turn within ${seconds} seconds`));
      });
    });
    const forget = () => way.late && way.taken && this.account.drop(way.taken, { unseen: true });
    steps.then(forget).catch(() => {});
    return Promise.race([steps, end]).finally(() => clearTimeout(timer));
  }

  // The arm that was shown before; one look at the configuration, where there is a network, tells if it stays.
  async #again(name, kept) {
    const experiment = addressOf(this.analyzer, name);
    if (!Object.hasOwn(kept.seen, experiment)) return null;
    if (!this.#joining.known.has(name)) await this.join(name, { attempts: 1 }).catch(() => {});
    const found = this.#seen(name, kept);
    if (!found) await this.account.forget(experiment);
    return found;
  }

  // The arm that this user was shown, as a turn if its report is still to come; null: none, or it was retired.
  #seen(name, { seen, taken }) {
    const experiment = addressOf(this.analyzer, name);
    if (!Object.hasOwn(seen, experiment)) return null;
    const known = this.#joining.known.get(name);
    const ended = known && chosenOf(known);
    if (ended) return ended;
    const { arm, name: armName } = seen[experiment];
    if (this.#joining.known.get(name)?.configuration.retired?.includes(arm)) return null;
    const turns = Object.values(taken).filter((one) => one.experiment === experiment);
    const shown = readable(turns).find((turn) => turn.arm === arm);
    return shown ?? new Shown(name, armName, arm);
  }

  async #take(joined, way) {
    const { configuration } = joined;
    const { experiment: name, privacy } = configuration;
    checkLimits(configuration, this.account.limits);
    this.#checkPinned(configuration);
    const experiment = addressOf(this.analyzer, name); // names are each analyzer's own
    if (!repeats(configuration)) await this.account.checkFirst(experiment);
    await this.account.check({ experiment, privacy }); // a turn that cannot be paid for is better not taken
    const front = addressOf(configuration.urls.front, name);
    const answer = await this.#assignment(`${front}/assignments`, way);
    // Before it is read: what a mechanism's text makes a device compute must be the servers' own.
    await checkSigned("offer", answer.offer, verifyKeys(configuration));
    const offered = textOf("offer", answer.offer);
    const offer = readOffer(offered);
    const own = await this.#joining.offered(joined, offer.configuration, front);
    await checkOffer(offer, own.configuration);
    for (const { plan } of offer.batches) checkUsers(plan, this.account.limits);
    const pinned = await this.#joining.pinned(own, offer);
    const choice = offer.rule && (await this.#choice(own.configuration, offer, way.context));
    const [takenAt, [low, high]] = [this.account.clock(), own.configuration.reports.at];
    const times = { takenAt, reportAt: takenAt + low + (high - low) * uniform(), expires: answer.expires };
    const turn = new Turn({ ...own, offer, offered, pinned, token: fromBase64(answer.token), ...times, choice });
    checkDefault(turn);
    await this.#keep(turn, experiment, way);
    return turn;
  }

  // Chooses by the rule that an offer names by its hash, as the front serves it.
  async #choice({ urls, experiment, program }, { rule: wanted }, context) {
    if (!this.#rules.has(wanted)) {
      const url = `${addressOf(urls.front, experiment)}/rules/${wanted}`;
      const text = await this.#requests.send(url, {}, { wanted: "text" });
      const same = base64(await sha256(utf8(text))) === wanted;
      demand(same, "not-covered", "the front's rule is not the one that both servers signed");
      this.#rules = new Map([...this.#rules].slice(-MOST_RULES)).set(wanted, Rule.fromJSON(text));
    }
    return new Personal(program).choose(this.#rules.get(wanted), context);
  }

  async #keep(turn, experiment, way) {
    const batches = await sharedWith(turn.configuration, turn.offer);
    const taken = { id: turn.id, reportAt: turn.reportAt, until: turn.until, turn: JSON.stringify(turn) };
    const shown = turn.arm === null ? null : { arm: turn.arm, name: turn.armName };
    const conditions = { shown, wanted: () => !way.late, same: way.sticky, once: !repeats(turn.configuration) };
    way.taken = turn.id;
    await this.account.charge({ experiment, privacy: turn.configuration.privacy, batches }, taken, conditions);
  }

  #checkPinned({ experiment, trust }) {
    const why = `${experiment} is safe as long as one of two servers is honest, and without their keys this device ` +
      "cannot tell two from one: give the client keys: {analyzer, front}, as `croupier serve keys` prints them";
    demand(trust !== "two-servers" || this.keys, "not-pinned", why);
  }

  async #assignment(url, way) {
    const shown = way.ticket instanceof Uint8Array ? base64(way.ticket) : way.ticket;
    const began = performance.now(); // not the clock of the day, which may be set meanwhile
    const remaining = () => way.patience - (performance.now() - began) / 1000;
    for (;;) {
      demand(!way.late, "timed-out", "nobody waits for this turn any longer");
      const left = remaining();
      const hold = Math.min(Math.floor(left), LONGEST_HOLD); // the front may hold the request (RFC 7240)
      const headers = { ...(hold > 0 && { prefer: `wait=${hold}` }), ...(shown && { "croupier-ticket": shown }) };
      try {
        return await this.#requests.send(url, { method: "POST", headers });
      } catch (problem) {
        const remains = remaining();
        if (problem.reason !== "nothing-open" || remains <= 0) throw problem;
        await sleep(Math.min(Math.max(problem.retryAfter ?? 1, FIRST_PAUSE), remains));
      }
    }
  }
}
