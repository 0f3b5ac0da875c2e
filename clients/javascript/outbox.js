// Reports that are sent when they are due, and never because of what is in them: the moment was drawn with the turn,
// and what was not recorded by then is reported as the experiment's default.

import { base64, fromBase64 } from "./bytes.js";
import { NoTurn, Problem } from "./problems.js";
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
      if (one.reportAt <= this.#now()) await this.#prepare(one);
    }
    const { pending } = await this.account.kept();
    for (const one of Object.values(pending)) await this.#sendOnce(one);
    return this.nextDue();
  }

  async nextDue() {
    const { taken, pending } = await this.account.kept();
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
  async #prepare({ id, until }) {
    if (this.#now() >= until) return this.account.drop(id);
    if (this.#retryAt(id, 0) > this.#now()) return;
    try {
      await this.#seal(id);
    } catch (error) {
      this.#later(id, error);
    }
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
    if (this.#now() >= until) return this.account.settle(report);
    if (this.#retryAt(report, 0) > this.#now()) return;
    this.#onTheirWay.add(report);
    try {
      await this.#send(pending);
    } catch (problem) {
      if (!(problem instanceof NoTurn)) throw problem;
      const over = problem instanceof Problem && !problem.passing;
      // A refusal is an answer: the report is over, and the charge stays.
      if (!over) return this.#later(report, problem);
    } finally {
      this.#onTheirWay.delete(report);
    }
    await this.account.settle(report);
    this.#retries.delete(report);
    if (!this.#retries.size) this.trouble = null;
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

  #retryAt(report, due) {
    if (this.#onTheirWay.has(report)) return this.#now() + FIRST_RETRY;
    return Math.max(due, this.#retries.get(report)?.at ?? 0);
  }
}
