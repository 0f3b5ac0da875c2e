// A client of croupier's service in plain JavaScript: WebCrypto and fetch, nothing else.
//
//   const client = new Client("https://analyzer.example", { account: new Account(new Kept()), trust: KEYS });
//   await client.resume(); // what an earlier crash left unsent
//   const turn = await client.play("onboarding", { patience: 10 });
//   await client.report(turn, show(turn.armName) ? 1 : 0);

import { Account } from "./account.js";
import { ask } from "./answers.js";
import { base64, fromBase64, random } from "./bytes.js";
import { checkName, checkOffer, promiseOf, readConfiguration, readOffer, verifyKeys } from "./configuration.js";
import { LIMITS, checkAddress, checkLimits, checkUsers } from "./limits.js";
import { Problem, Refused, demand, problemOf } from "./problems.js";
import { checkPublic } from "./sealing.js";
import { SERVERS, checkSigned, hashOf, textOf } from "./statements.js";
import { Kept } from "./storage.js";
import { tokenRequest } from "./tokens.js";
import { batchHash, sealReport } from "./wire.js";

export { Account, Kept, LIMITS, Problem, Refused, tokenRequest };

const REPORT = "application/vnd.croupier.report";
const [FIRST_PAUSE, LONGEST_PAUSE, LONGEST_HOLD] = [0.1, 5, 10]; // seconds

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

async function hashesOf({ batches }) {
  const entries = batches.map(async (batch) => [batch.number, base64(await batchHash(batch))]);
  return Object.fromEntries(await Promise.all(entries));
}

const unanswered = ({ status, message }) => new Problem("no-answer", status, message);
const addressOf = (server, name) => `${server.replace(/\/+$/, "")}/experiments/${name}`;

function checkedKeys(trust) {
  const isKey = (server) => typeof trust?.[server] === "string" && fromBase64(trust[server]).length === 32;
  demand(SERVERS.every(isKey), "malformed", 'trust: the signing keys of both servers, or "first-seen"');
  return trust;
}

export class Client {
  #joined = new Map();

  // `trust`: {analyzer, front}, the signing keys of the servers in base64, as their operators tell them; or
  // "first-seen", to believe those that the analyzer shows first. `timeout`: seconds for one answer.
  constructor(analyzer, { trust, account = new Account(), attempts = 8, timeout = 30, fetch } = {}) {
    demand(globalThis.crypto?.subtle, "unsupported", "WebCrypto needs a page that came by https or from localhost");
    checkAddress(analyzer, account.limits);
    this.analyzer = analyzer.replace(/\/+$/, "");
    this.account = account;
    this.trust = trust === "first-seen" ? null : checkedKeys(trust);
    this.attempts = attempts;
    this.timeout = timeout;
    this.fetch = fetch ?? ((...request) => globalThis.fetch(...request));
  }

  // Fetches the experiment, checks its signatures and this device's limits, and remembers whom it trusts.
  async join(name) {
    checkName(name);
    const joined = await this.#believe(name, await this.#request(addressOf(this.analyzer, name)));
    this.#joined.set(name, joined);
    return joined;
  }

  // Takes a turn, waiting for one at most `patience` seconds: {armName, arm, offer, expires, configuration, ...}.
  async play(name, { patience = 0, ticket } = {}) {
    const joined = this.#joined.get(name) ?? (await this.join(name));
    checkLimits(joined.configuration, this.account.limits);
    const { privacy } = joined.configuration;
    const experiment = addressOf(this.analyzer, name); // names are each analyzer's own
    await this.account.check({ experiment, privacy }); // a turn that cannot be reported is better not taken
    const front = addressOf(joined.configuration.urls.front, name);
    const answer = await this.#assignment(`${front}/assignments`, patience, ticket);
    // Before it is read: what a mechanism's text makes a device compute must be the servers' own.
    await checkSigned("offer", answer.offer, verifyKeys(joined.configuration));
    const offer = readOffer(textOf("offer", answer.offer));
    const own = await this.#offered(name, joined, offer.configuration, front);
    checkOffer(offer, own.configuration);
    for (const { plan } of offer.batches) checkUsers(plan.users, this.account.limits);
    const pinned = await this.#pinned(own, offer);
    await this.account.check({ experiment, privacy, batches: await hashesOf(offer) });
    const token = fromBase64(answer.token);
    demand(token.length === 56 && Number.isSafeInteger(answer.expires), "malformed", "the token");
    const armName = offer.arm === null ? "" : own.configuration.arms[offer.arm];
    return { ...own, pinned, offer, token, expires: answer.expires, arm: offer.arm, armName, reported: false };
  }

  // Randomizes, seals, charges, keeps, sends: in this order. What was sent and charged: {bytes, epsilon, delta}.
  async report(turn, value) {
    demand(!turn.reported, "already-reported", "a turn is reported once; resume() sends it again");
    turn.reported = true; // before anything is awaited: two calls at once would seal two reports
    const { experiment: name, privacy } = turn.configuration;
    const experiment = addressOf(this.analyzer, name);
    // Where the front is now, whatever address the batch was begun under.
    const { urls } = (this.#joined.get(name) ?? turn).configuration;
    let pending;
    let cost;
    try {
      const url = `${addressOf(urls.front, name)}/reports`;
      pending = { experiment, url, ...(await sealReport(turn, value)), expires: turn.expires };
      cost = await this.account.charge({ experiment, privacy, batches: await hashesOf(turn.offer) }, pending);
    } catch (error) {
      turn.reported = false; // nothing was charged or sent: a value outside the range can be mended
      throw error;
    }
    await this.#send(pending);
    return { bytes: fromBase64(pending.body), epsilon: cost.epsilon, delta: cost.delta };
  }

  // Sends again what a crash may have left unsent; returns how many reports were accepted, now or before.
  async resume() {
    let [accepted, unreachable] = [0, null];
    for (const pending of await this.account.pending()) {
      try {
        await this.#send(pending);
        accepted += 1;
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (problem.passing) unreachable = problem;
      }
    }
    if (unreachable) throw unreachable;
    return accepted;
  }

  async #send(pending) {
    const options = { method: "POST", headers: { "content-type": REPORT }, body: fromBase64(pending.body) };
    try {
      await this.#request(pending.url, options, (body) => ["accepted", "repeated"].includes(body?.status));
    } catch (problem) {
      // Without an answer the report is kept for resume(); a refusal is one, and the charge stays.
      if (problem instanceof Problem && !problem.passing) await this.account.settle(pending.report);
      throw problem;
    }
    await this.account.settle(pending.report);
  }

  async #believe(name, statement) {
    const configuration = readConfiguration(textOf("configuration", statement));
    demand(configuration.experiment === name, "malformed", `${configuration.experiment} instead of ${name}`);
    checkLimits(configuration, this.account.limits);
    const keys = verifyKeys(configuration);
    await checkSigned("configuration", statement, keys);
    for (const server of SERVERS) await checkPublic(fromBase64(configuration.keys[server].seal));
    const experiment = addressOf(this.analyzer, name);
    await this.account.trust(experiment, configuration, keys, promiseOf(configuration), this.trust);
    return { configuration, hash: await hashOf("configuration", statement) };
  }

  // The configuration that an offer belongs to: another one than that joined while keys or addresses change.
  async #offered(name, joined, wanted, front) {
    if (wanted === base64(joined.hash)) return joined;
    const found = await this.#believe(name, await this.#byHash(front, wanted));
    if (found.configuration.revision > joined.configuration.revision) this.#joined.set(name, found);
    return found;
  }

  // The configurations that an offer's batches were first opened under, by hash: its own one, or earlier ones of the
  // same servers with the same promise.
  async #pinned({ configuration, hash }, offer) {
    const { experiment, revision, urls } = configuration;
    const pinned = new Map([[base64(hash), configuration]]);
    for (const { pin } of offer.batches) {
      if (pinned.has(pin)) continue;
      const statement = await this.#byHash(addressOf(urls.front, experiment), pin);
      await checkSigned("configuration", statement, verifyKeys(configuration));
      const found = readConfiguration(textOf("configuration", statement));
      const earlier = found.experiment === experiment && found.revision < revision;
      demand(earlier, "not-covered", `a batch is pinned to revision ${found.revision} of ${found.experiment}`);
      const same = promiseOf(found) === promiseOf(configuration);
      demand(same, "broken-promise", "a batch was opened under another promise");
      checkLimits(found, this.account.limits);
      await checkPublic(fromBase64(found.keys.analyzer.seal));
      pinned.set(pin, found);
    }
    return pinned;
  }

  // A configuration as the front keeps it.
  async #byHash(front, wanted) {
    const statement = await this.#request(`${front}/configurations/${wanted}`);
    const same = wanted === base64(await hashOf("configuration", statement));
    demand(same, "not-covered", "another configuration than the one offered");
    return statement;
  }

  async #assignment(url, patience, ticket) {
    const shown = ticket instanceof Uint8Array ? base64(ticket) : ticket;
    const end = this.account.clock() + patience;
    for (;;) {
      const left = end - this.account.clock();
      const hold = Math.min(Math.floor(left), LONGEST_HOLD); // the front may hold the request (RFC 7240)
      const headers = { ...(hold > 0 && { prefer: `wait=${hold}` }), ...(shown && { "croupier-ticket": shown }) };
      try {
        return await this.#request(url, { method: "POST", headers });
      } catch (problem) {
        const remains = end - this.account.clock();
        if (problem.token !== "nothing-open" || remains <= 0) throw problem;
        await sleep(Math.min(problem.retryAfter ?? 1, Math.max(remains, 0.01)));
      }
    }
  }

  // Sends until there is an answer that says something; later and later, and not all devices at once. With `taken`,
  // which knows an acceptance, nothing but the front's own words end it: a network's page settles nothing.
  async #request(url, options = {}, taken = null) {
    for (let attempt = 1, pause = FIRST_PAUSE; ; attempt += 1, pause *= 2) {
      try {
        return await this.#once(url, options, taken ?? ((body) => typeof body === "object" && body !== null));
      } catch (problem) {
        const again = problem instanceof Problem && (problem.passing || (taken && !problem.named));
        if (!again) throw problem;
        if (attempt >= this.attempts) throw problem.token === "no-answer" ? problem : unanswered(problem);
        const spread = 1 + random(1)[0] / 256;
        await sleep(Math.min(Math.max(pause, problem.retryAfter ?? 0) * spread, LONGEST_PAUSE));
      }
    }
  }

  async #once(url, options, meant) {
    const answer = await ask(this.fetch, url, options, this.timeout);
    if (answer.status < 200 || answer.status > 299) throw problemOf(answer);
    if (!meant(answer.body)) throw new Problem("no-answer", answer.status, "an answer that is not the server's");
    return answer.body;
  }
}
