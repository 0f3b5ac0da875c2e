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

const PREFIX = "urn:croupier:error:";

// `retry_after` of the body goes first: the header knows whole seconds only.
export function problemOf({ status, body, retryAfter }) {
  if (status < 400) return new Problem("no-answer", status, "an answer that is not the server's");
  const { type, detail, title, retry_after: exact } = body ?? {};
  const named = typeof type === "string" && type.startsWith(PREFIX);
  const token = named ? type.slice(PREFIX.length) : `http-${status}`;
  const after = Number(exact ?? retryAfter ?? NaN);
  return new Problem(token, status, String(detail ?? title ?? ""), after >= 0 && after < Infinity ? after : undefined);
}
