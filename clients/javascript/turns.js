// What an app holds of an experiment: the turn that it took, or an arm to show without a turn.

import { base64, fromBase64, random } from "./bytes.js";
import { readConfiguration, readOffer } from "./configuration.js";
import { Personal, readChoice } from "./personal.js";
import { Refused, demand } from "./problems.js";
import { checkValue } from "./randomizing.js";
import { checkKeys } from "./reading.js";
import { textOf } from "./statements.js";
import { uploadLength } from "./wire.js";

const VERSION = 1;
const [TOKEN, REPORT_ID] = [56, 16]; // bytes

// One play: show this arm, and tell the client what came of it, before `reportAt` (seconds of Unix time). It is
// reported at that moment, which was drawn with it, whatever came of it. `id` is the report's name at both servers;
// `pinned` are the configurations that its batches were first opened under, by hash. `choice` is what the device chose
// by itself, {action, control, vector}, where it did; no server learns of it.
export class Turn {
  isDefault = false;

  constructor({ statement, configuration, offer, offered, pinned, token, expires, takenAt, reportAt, report, choice }) {
    const whole = token.length === TOKEN && Number.isSafeInteger(expires);
    demand(whole, "malformed", "the token");
    Object.assign(this, { statement, configuration, offer, offered, pinned, token, expires, takenAt, reportAt });
    this.choice = choice ?? null;
    this.report = report ?? random(REPORT_ID);
    this.id = base64(this.report);
    Object.freeze(this);
  }

  get experiment() {
    return this.configuration.experiment;
  }

  // The arm's number; null where an experiment has no arms.
  get arm() {
    return this.choice?.action ?? this.offer.arm;
  }

  get armName() {
    return this.arm === null ? "" : this.configuration.arms[this.arm];
  }

  // When it is too late to report it.
  get until() {
    return this.takenAt + this.configuration.reports.within;
  }

  // How many bytes its report has, whatever is in it.
  get bytes() {
    return uploadLength(this.offer, this.configuration);
  }

  // Refuses what cannot be reported, with a RangeError.
  checkValue(value) {
    const reported = this.reported(value);
    for (const { plan } of this.offer.batches) checkValue(plan, reported);
  }

  // What is reported where this came of it: that itself, or the vector of a device that chose by itself.
  reported(outcome) {
    if (this.choice === null) return outcome;
    return new Personal(this.configuration.program).report(this.choice, outcome, this.offer.batches[0].plan.moments);
  }

  // For whoever is to record what came of it later; it holds nothing of that. Where the device chose by itself it holds
  // the choice and the user's vector: it must not leave the device.
  toJSON() {
    const pinned = [...this.pinned].filter(([pin]) => pin !== this.offer.configuration);
    return {
      version: VERSION,
      configuration: this.statement,
      offer: this.offered,
      token: base64(this.token),
      expires: this.expires,
      pinned: Object.fromEntries(pinned.map(([pin, { text }]) => [pin, text])),
      id: this.id,
      taken_at: this.takenAt,
      report_at: this.reportAt,
      ...(this.choice && { choice: this.choice }),
    };
  }

  // A turn as this device kept it: signatures were checked when it was taken.
  static fromJSON(text) {
    try {
      const body = JSON.parse(text);
      checkKeys("a turn", body, "version configuration offer token expires pinned id taken_at report_at choice?");
      const { version, configuration: statement, offer: offered, expires } = body;
      const { taken_at: takenAt, report_at: reportAt } = body;
      const [token, report] = [fromBase64(body.token), fromBase64(body.id)];
      const isTimed = Number.isFinite(takenAt) && Number.isFinite(reportAt);
      demand(version === VERSION && isTimed && report.length === REPORT_ID, "malformed", "a turn");
      const configuration = readConfiguration(textOf("configuration", statement));
      const offer = readOffer(offered);
      const earlier = Object.entries(body.pinned).map(([pin, one]) => [pin, pinnedOf(one)]);
      const pinned = new Map([[offer.configuration, pinnedOf(statement.body)], ...earlier]);
      const choice = body.choice && readChoice(body.choice);
      const times = { expires, takenAt, reportAt };
      return new Turn({ statement, configuration, offer, offered, pinned, token, ...times, report, choice });
    } catch (error) {
      throw new Refused("malformed", `not a turn as it was kept: ${error.message}`, { cause: error });
    }
  }
}

// What messages are sealed to that go to a batch which was opened under this text.
export const pinnedOf = (text) => ({ text, seal: readConfiguration(text).keys.analyzer.seal });

// An arm to show without a turn: the app's default, or the one that this user has seen. Nothing is reported. `why` says
// why it is the default.
export class Shown {
  id = "";

  constructor(experiment, armName, arm = null, why = null) {
    Object.assign(this, { experiment, armName, arm, why, isDefault: why !== null });
    Object.freeze(this);
  }
}
