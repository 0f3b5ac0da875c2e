// Reports that are sent when they are due, and never because of what is in them: the moment was drawn with the turn,
// and what was not recorded by then is reported as the experiment's default.

import { base64, fromBase64 } from "./bytes.js";
import { Problem } from "./problems.js";
import { Turn } from "./turns.js";
import { sealReport } from "./wire.js";

const REPORT = "application/vnd.croupier.report";
const [FIRST_RETRY, LONGEST_RETRY] = [60, 3600]; // seconds, twice as many each time
const LONGEST_SLEEP = 60; // the clock is looked at so often: a machine may sleep meanwhile

export class Outbox {
  trouble = null; // why a report still waits that was to be sent by now
  #retries = new Map();
  #onTheirWay = new Set();
  #wake = () => {};
  #woken = false;
  #running = false;
  #closed = false;

  // `urlOf`: where reports of a configuration go, or null; a function of the experiment's address and the turn's own.
  constructor(account, requests, urlOf) {
    Object.assign(this, { account, requests, urlOf });
  }

  // Sends what is due: what was recorded, or else the default. The seconds until the next report is due, null where
  // there is none. One that meets no answer is kept, and due again later and later.
  async sendDue() {
    const { taken } = await this.account.kept();
    for (const one of Object.values(taken).sort((a, b) => a.reportAt - b.reportAt)) {
      if (one.reportAt <= this.#now()) await this.#tried(one.id, () => this.#prepare(one));
    }
    const { pending } = await this.account.kept();
    for (const one of Object.values(pending)) await this.#tried(one.report, () => this.#sendOnce(one));
    return this.nextDue();
  }

  // Whatever goes wrong with one report, the others are sent.
  async #tried(id, step) {
    if (this.#retryAt(id, 0) > this.#now()) return;
    try {
      await step();
    } catch (error) {
      this.#later(id, error);
    }
  }

  async nextDue() {
    const { taken, pending } = await this.account.kept();
    this.#forget((id) => Object.hasOwn(taken, id) || Object.hasOwn(pending, id));
    const turns = Object.values(taken).map(({ id, reportAt }) => this.#retryAt(id, reportAt));
    const due = [...turns, ...Object.keys(pending).map((report) => this.#retryAt(report, 0))];
    return due.length ? Math.max(0, Math.min(...due) - this.#now()) : null;
  }

  // Sends in the background while the page is open, for as long as anything is to be sent.
  begin() {
    this.#woken = true;
    this.#wake();
    if (!this.#running && !this.#closed) this.#run();
  }

  close() {
    this.#closed = true;
    this.#wake();
  }

  async #run() {
    this.#running = true;
    while (!this.#closed) {
      this.#woken = false;
      const due = await this.sendDue().catch((error) => ((this.trouble = error.message), LONGEST_SLEEP));
      if (this.#woken) continue;
      if (due === null) break;
      await this.#sleep(Math.min(due, LONGEST_SLEEP));
    }
    this.#running = false;
  }

  #sleep(seconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 1000 * seconds);
      this.#wake = () => (clearTimeout(timer), resolve());
    });
  }

  #now() {
    return this.account.clock();
  }

  // Seals a turn whose report is due, or drops it where it is too late.
  #prepare({ id, until }) {
    return this.#now() >= until ? this.account.drop(id) : this.#seal(id);
  }

  // What is recorded while it is sealed is sealed instead.
  async #seal(id) {
    for (;;) {
      const known = (await this.account.kept()).taken[id];
      if (!known) return;
      const turn = Turn.fromJSON(known.turn);
      const [value] = known.outcome.length ? known.outcome : [turn.configuration.reports.default];
      const body = base64(await sealReport(turn, value));
      const { experiment, until } = known;
      const pending = { experiment, url: this.urlOf(experiment, turn), report: id, body, until };
      if (await this.account.seal(id, known.outcome, pending)) return;
    }
  }

  async #sendOnce(pending) {
    const { report, until } = pending;
    this.#onTheirWay.add(report);
    try {
      if (this.#now() < until) await this.#send(pending);
    } catch (problem) {
      // A refusal is an answer: the report is over, and the charge stays.
      if (!(problem instanceof Problem) || problem.passing) throw problem;
    } finally {
      this.#onTheirWay.delete(report);
    }
    await this.account.settle(report);
  }

  async #send({ experiment, url, body }) {
    const options = { method: "POST", headers: { "content-type": REPORT }, body: fromBase64(body) };
    const taken = (answer) => ["accepted", "repeated"].includes(answer?.status);
    await this.requests.send(this.urlOf(experiment) ?? url, options, { taken });
  }

  #later(report, why) {
    const failures = (this.#retries.get(report)?.failures ?? 0) + 1;
    const wait = Math.min(FIRST_RETRY * 2 ** (failures - 1), LONGEST_RETRY);
    this.#retries.set(report, { failures, at: this.#now() + wait });
    this.trouble = why.message;
  }

  // No later than the longest wait from now: the clock may have been set back.
  #retryAt(report, due) {
    const now = this.#now();
    if (this.#onTheirWay.has(report)) return now + FIRST_RETRY;
    const at = this.#retries.get(report)?.at ?? 0;
    return at <= now + LONGEST_RETRY ? Math.max(due, at) : due;
  }

  // What is no longer kept is no trouble any more, whichever tab has sent it.
  #forget(isKept) {
    for (const id of this.#retries.keys()) if (!isKept(id)) this.#retries.delete(id);
    if (!this.#retries.size) this.trouble = null;
  }
}
