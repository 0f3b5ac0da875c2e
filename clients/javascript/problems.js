// What can go wrong, and who says so: the device itself, or a server.

// There is no turn to take, whatever the `reason`: the one error that an app catches to show its default.
export class NoTurn extends Error {
  constructor(reason, detail, options) {
    super(detail ? `${reason}: ${detail}` : reason, options);
    this.name = new.target.name;
    this.reason = reason;
  }
}

// The device refuses: a bad signature, a promise beyond its limits, a budget that is spent. Nothing was sent.
export class Refused extends NoTurn {}

export function demand(condition, reason, detail) {
  if (!condition) throw new Refused(reason, detail);
}

const LONGEST_SHOWN = 240; // characters of a value in a message

// A value in one line that is not too long, whatever it is.
function shown(value) {
  let text = typeof value;
  try {
    text = typeof value === "bigint" ? `${value}n` : String(value);
  } catch {
    // Some objects have no text: their type must do.
  }
  const line = text.replace(/\s+/g, " ");
  return line.length > LONGEST_SHOWN ? `${line.slice(0, LONGEST_SHOWN)}…` : line;
}

// What is wrong with something that an app gave: its name, its value, and what is allowed.
export const notAllowed = (name, value, wanted) =>
  new RangeError(`${name} = ${shown(value)} is not allowed: it must be ${wanted}`);

// A server refused, with an RFC 9457 document, or did not answer ("no-answer").
export class Problem extends NoTurn {
  // `reason`: http-STATUS where it has none of our names.
  constructor(reason, status, detail, retryAfter) {
    super(reason, detail);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  get named() {
    return !this.reason.startsWith("http-");
  }

  // Says nothing about the request itself: sending the same bytes again may help.
  get passing() {
    return this.reason === "no-answer" || [408, 429].includes(this.status) || this.status >= 500;
  }
}

const NAMED = /^urn:croupier:error:([a-z0-9-]{1,64})$/;
const LONGEST_DETAIL = 1000; // characters

// Whatever a server sends is words and a number, or nothing. `retry_after` of the body goes first: the header knows
// whole seconds only.
export function problemOf({ status, body, retryAfter }) {
  if (status < 400) return new Problem("no-answer", status, "an answer that is not the server's");
  const { type, detail, title, retry_after: exact } = body ?? {};
  const isText = (value) => typeof value === "string";
  const token = (isText(type) && NAMED.exec(type)?.[1]) || `http-${status}`;
  const said = [detail, title].find(isText) ?? "";
  const after = [exact, retryAfter].find((value) => typeof value === "number" || isText(value));
  const seconds = after === undefined ? NaN : Number(after);
  const known = seconds >= 0 && seconds < Infinity;
  return new Problem(token, status, said.slice(0, LONGEST_DETAIL), known ? seconds : undefined);
}
