// One request and its answer, which may be neither endless, nor slow without end, nor somebody else's.

import { Problem } from "./problems.js";

const LARGEST = 4 * 2 ** 20; // bytes after unpacking: a statement has a text of 2^20 characters at most

// A redirection is some network's, never the servers' own: it must not be followed with a report in hand.
const COMMON = { redirect: "error", cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" };

// Calls after so many seconds. Browsers call at once where it is more than 2^31 milliseconds.
const LONGEST_TIMER = 2 ** 31 - 1;
export const after = (seconds, call) => setTimeout(call, Math.min(1000 * seconds, LONGEST_TIMER));

// {status, text, body, retryAfter}, where a body that is no JSON is null; "no-answer" when there was none, or one too
// large. The time holds for all of it: the head, and every byte of the body.
export async function ask(fetch, url, options, seconds) {
  const abort = new AbortController();
  const timer = after(seconds, () => abort.abort(new Error(`no answer in ${seconds} seconds`)));
  try {
    const response = await fetch(url, { ...COMMON, signal: abort.signal, ...options });
    const text = await bounded(response);
    return { status: response.status, text, body: parsed(text), retryAfter: response.headers.get("retry-after") };
  } catch (error) {
    throw new Problem("no-answer", 0, (abort.signal.reason ?? error).message);
  } finally {
    clearTimeout(timer);
    abort.abort(); // what was not read is not wanted
  }
}

async function bounded(response) {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let [text, size] = ["", 0];
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > LARGEST) throw new RangeError(`an answer of more than ${LARGEST} bytes`);
    text += decoder.decode(value, { stream: true });
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
