// A conversation with a server: a request is sent until there is an answer that says something.

import { after, ask } from "./answers.js";
import { random } from "./bytes.js";
import { Problem, problemOf } from "./problems.js";

export const FIRST_PAUSE = 0.1; // seconds
const LONGEST_PAUSE = 5;

export const sleep = (seconds) => new Promise((resolve) => after(seconds, resolve));
const unanswered = ({ status, message }) => new Problem("no-answer", status, message);
const isObject = (body) => typeof body === "object" && body !== null;

export class Requests {
  constructor({ fetch, attempts, timeout }) {
    this.fetch = fetch ?? ((...request) => globalThis.fetch(...request));
    this.attempts = attempts;
    this.timeout = timeout;
  }

  // Later and later, and not all devices at once. With `taken`, which knows an acceptance, nothing but the front's own
  // words end it: a network's page settles nothing. `wanted`: what of the answer, its body as JSON or its text.
  async send(url, options = {}, { taken = null, attempts = this.attempts, wanted = "body" } = {}) {
    for (let attempt = 1, pause = FIRST_PAUSE; ; attempt += 1, pause *= 2) {
      try {
        return (await this.#once(url, options, taken ?? isObject))[wanted];
      } catch (problem) {
        const again = problem instanceof Problem && (problem.passing || (taken && !problem.named));
        if (!again) throw problem;
        if (attempt >= attempts) throw problem.reason === "no-answer" ? problem : unanswered(problem);
        const spread = 1 + random(1)[0] / 256;
        await sleep(Math.min(Math.max(pause, problem.retryAfter ?? 0) * spread, LONGEST_PAUSE));
      }
    }
  }

  async #once(url, options, meant) {
    const answer = await ask(this.fetch, url, options, this.timeout);
    if (answer.status < 200 || answer.status > 299) throw problemOf(answer);
    if (!meant(answer.body)) throw new Problem("no-answer", answer.status, "an answer that is not the server's");
    return answer;
  }
}
