/** A client of croupier's service for web pages: WebCrypto and fetch, nothing else. Times are in seconds. */

/** Both servers' signing keys in base64, as `croupier serve keys` prints them. */
export interface Keys {
  analyzer: string;
  front: string;
}

export type Trust = "two-servers" | "devices" | "shuffler" | "nobody";

/** What a turn's outcome may be: a number (or true, false) for sums, a user's vector for sums of these, an item or a
 * number for histograms. */
/** One value; a user's vector; or a number for each metric, by name, where a report has several. */
export type Outcome = number | boolean | string | readonly number[] | Readonly<Record<string, number | boolean>>;

/** What a device gives at most, whatever a server asks. */
export interface Limits {
  /** Of one turn. */
  epsilon: number;
  delta: number;
  /** The smallest batch, where its users hide each other. */
  users: number;
  /** The largest part of honest users that a promise may rest on. */
  honestFraction: number;
  /** Of all turns within any period. */
  epsilonPerPeriod: number;
  deltaPerPeriod: number;
  shortestPeriod: number;
  longestPeriod: number;
  suites: readonly string[];
  trust: readonly Trust[];
  admission: readonly ("everybody" | "tickets" | "tokens")[];
  /** Where users hide each other: only batches to which a server adds noise of its own. */
  frontNoise: boolean;
  sharedKeys: boolean;
  plainHttp: boolean;
}

export const LIMITS: Readonly<Limits>;

/** What an account is kept in; `change` reads, changes and writes as one step. */
export interface Store {
  read(): Promise<unknown>;
  change(update: (kept: any) => unknown): Promise<unknown>;
}

/** For as long as the page lives. */
export class Memory implements Store {
  read(): Promise<unknown>;
  change(update: (kept: any) => unknown): Promise<unknown>;
}

/** In IndexedDB, for as long as the browser keeps the site's data. */
export class Kept implements Store {
  constructor(name?: string);
  readonly name: string;
  read(): Promise<unknown>;
  change(update: (kept: any) => unknown): Promise<unknown>;
}

/** The device's own ledger, whom it trusts, turns to report, and reports on their way. */
export class Account {
  constructor(store?: Store, options?: { limits?: Partial<Limits>; clock?: () => number });
  readonly limits: Readonly<Limits>;
  readonly clock: () => number;
  /** How much may still be spent now, and when there will be more; null where nothing is spent. */
  left(): Promise<{ epsilon: number; delta: number; renews: number | null }>;
}

/** What both servers signed of an experiment. */
export interface Configuration {
  readonly experiment: string;
  readonly revision: number;
  readonly title: string;
  readonly arms: readonly string[];
  readonly retired?: readonly number[];
  /** The arm that everybody is shown once the experiment has ended with it. */
  readonly chosen?: number;
  readonly trust: Trust;
  readonly reports: {
    readonly within: number;
    readonly at: readonly [number, number];
    readonly default?: unknown;
    /** Whether a device may report more than once; where it is missing, it may. */
    readonly repeat?: boolean;
  };
  readonly privacy: {
    readonly epsilon: number;
    readonly delta: number;
    readonly honest_fraction: number;
    readonly unit: string;
    readonly period: number;
  };
  readonly program: { readonly kind: string; readonly [name: string]: unknown };
  readonly recipe: { readonly smallest: number; readonly front_noise: boolean; readonly [name: string]: unknown };
  readonly admission: { readonly kind: "everybody" | "tickets" | "tokens"; readonly issuer?: string };
  /** Whether reports prove that they are in range; `key`: the hash of the key that both servers check proofs with. */
  readonly validity: { readonly kind: "prio3" | "none"; readonly key?: string };
  readonly suite: string;
  readonly keys: Readonly<Record<"analyzer" | "front", { readonly seal: string; readonly verify: string }>>;
  readonly urls: Readonly<Record<"analyzer" | "front", string>>;
}

export interface Joined {
  readonly configuration: Configuration;
}

/** One play: show this arm, and tell the client what came of it, before `reportAt`. */
export class Turn {
  private constructor();
  /** The report's name at both servers, and the turn's in the account. */
  readonly id: string;
  readonly experiment: string;
  /** The arm's number; null where an experiment has no arms. */
  readonly arm: number | null;
  readonly armName: string;
  readonly isDefault: false;
  /** What the device chose by itself; null where the servers dealt the arm, or there is none. */
  readonly choice: Choice | null;
  readonly configuration: Configuration;
  readonly takenAt: number;
  /** When it is reported, whatever came of it: drawn with the turn. */
  readonly reportAt: number;
  /** When it is too late to report it. */
  readonly until: number;
  /** How many bytes its report has, whatever is in it. */
  readonly bytes: number;
  /** Throws a RangeError where it cannot be reported. */
  checkValue(outcome: Outcome): void;
  /** What is reported where this came of it: that itself, or the vector of a device that chose by itself. */
  reported(outcome: Outcome): Outcome;
  /** Where the device chose by itself it holds the choice and the user's vector: it must not leave the device. */
  toJSON(): object;
  /** A turn that `JSON.stringify` wrote, on the device that took it. */
  static fromJSON(text: string): Turn;
}

/** An arm to show without a turn: the app's default, or the one that this user has seen. Nothing is reported. */
export class Shown {
  constructor(experiment: string, armName: string, arm?: number | null, why?: NoTurn | null);
  readonly id: "";
  readonly experiment: string;
  readonly armName: string;
  readonly arm: number | null;
  readonly isDefault: boolean;
  /** Why it is the default. */
  readonly why: NoTurn | null;
}

/** There is no turn to take, whatever the reason. */
export class NoTurn extends Error {
  constructor(reason: string, detail?: string, options?: { cause?: unknown });
  readonly reason: string;
}

/** The device refuses, and nothing was sent. */
export class Refused extends NoTurn {}

/** A server refused, or did not answer ("no-answer"). */
export class Problem extends NoTurn {
  constructor(reason: string, status: number, detail?: string, retryAfter?: number);
  readonly status: number;
  readonly retryAfter: number | undefined;
  readonly named: boolean;
  /** Sending the same again may help. */
  readonly passing: boolean;
}

export interface ClientOptions {
  /** Experiments of trust "two-servers" need them; under other trusts the keys first seen are kept without them. */
  keys?: Keys;
  account?: Account;
  /** Whether reports are sent by themselves when they are due, while the page is open. Without it call `sendDue`. */
  background?: boolean;
  attempts?: number;
  /** For one answer. */
  answerTimeout?: number;
  fetch?: typeof globalThis.fetch;
}

export interface PlayOptions {
  /** After so long at most there is an arm to show, whatever servers do. */
  timeout?: number;
  /** The arm that the app shows where there is no turn; without it the reason is thrown. */
  default?: string;
  /** Whether a user who returns sees the same arm again, which takes no new turn. */
  sticky?: boolean;
  /** For how long to wait where nothing is open. */
  patience?: number;
  /** What a front wants to see that admits only those whom an issuer knows. */
  ticket?: Uint8Array | string;
  /** What describes the user, by name, where devices choose by themselves. It never leaves the device. */
  context?: Readonly<Record<string, number>>;
}

/** What a device chose by itself, and its user's vector for that; no server learns of it. */
export interface Choice {
  readonly action: number;
  /** Whether it is that of the control share. */
  readonly control: boolean;
  readonly vector: readonly number[];
}

export class Client {
  constructor(analyzer: string, options?: ClientOptions);
  readonly analyzer: string;
  readonly account: Account;
  /** Why a report still waits that was to be sent by now; null where none does. */
  readonly trouble: string | null;
  /** Fetches an experiment and checks that both servers signed it and that it is within the device's limits. */
  join(experiment: string, options?: { attempts?: number }): Promise<Joined>;
  /** Takes a turn. It is charged and kept at once, and reported at its `reportAt`, whatever comes of it. */
  play(experiment: string, options?: PlayOptions): Promise<Turn | Shown>;
  /** Records what came of a turn, until it is sent; false where nothing of it will be reported. Nothing is sent. */
  report(turn: Turn | Shown, outcome: Outcome): Promise<boolean>;
  /** Sends the reports that are due; the seconds until the next one is, null where there is none. */
  sendDue(): Promise<number | null>;
  /** The turns that are still to be reported, whichever page took them with this account. */
  turns(): Promise<Turn[]>;
  turn(id: string): Promise<Turn | null>;
  /** Stops the background. */
  close(): void;
}

export interface TokenRequest {
  readonly body: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
  finish(answer: Uint8Array): Promise<Uint8Array>;
}

/** Begins a blind token for an experiment that admits by tokens; `issuer`: its key in base64, if the app knows it. */
export function tokenRequest(joined: Joined, options?: { issuer?: string }): Promise<TokenRequest>;

/** A number that describes a user, with its public range: from 0 to 1 where nothing is said. */
export interface Feature {
  name: string;
  low?: number;
  high?: number;
}

/** The features of a personalised experiment, in order. Whatever cannot be used is a RangeError that names it. */
export class Context {
  constructor(features: readonly Feature[], options?: { clip?: boolean });
  readonly features: readonly Required<Readonly<Feature>>[];
  readonly names: readonly string[];
  /** Whether a value outside its range is moved to the nearer end; otherwise it is refused. */
  readonly clip: boolean;
  /** Of the vector: a number for each feature, and the constant. */
  readonly dimension: number;
  /** A user's vector, of norm at most one. */
  vector(context: Readonly<Record<string, number>>): number[];
}

/** (a, 1)/√2 for actions described by vectors of norm at most one. */
export function withConstant(actions: readonly (readonly number[])[]): number[][];

/** The context in the action's own block and zeros elsewhere. */
export function blocks(context: readonly number[], actions: number): number[][];

/** A vector, or one for each action where all actions share one parameter. */
export type Features = readonly number[] | readonly (readonly number[])[];

/** The published rule, by which a device chooses by itself. */
export class Rule {
  private constructor();
  static fromJSON(text: string): Rule;
  readonly dimension: number;
  /** Whether all actions share one parameter. */
  readonly shared: boolean;
  readonly exploration: number;
  /** The share of devices that choose optimistically. */
  readonly optimists: number;
  /** Whether nothing is known yet; then every action is as likely. */
  readonly blank: boolean;
  /** The share of users who play `single`; while `blank` they are drawn all the same, and play like the others. */
  readonly control: number;
  readonly single: number | null;
  /** What each action is worth at best; at worst for who is not hopeful. */
  scores(features: Features, hopeful?: boolean): number[];
  estimates(features: Features): number[];
  /** The number of the best action. */
  choose(features: Features): number;
  /** The same with the device's draws. */
  play(features: Features): { action: number; control: boolean };
}

/** What a device reports for a linear bandit: feature times reward, and the feature's outer product, as one vector. */
export class Moments {
  constructor(values: { features: number; places?: number; weight?: number; centred?: boolean; control?: number });
  readonly dimension: number;
  /** How far two users' vectors can be apart, and in the sum of absolute differences. */
  readonly diameter: number;
  readonly taxicab: number;
  /** How far two users' encoded vectors can be apart. */
  reach(precision: number): { l2: number; l1: number };
  /** The vector of a user: features, reward, place, and whether they are in the control share. */
  of(features: readonly number[], reward: number | boolean, place?: number, control?: boolean): number[];
  /** Each number moved from [-1, 1] to [0, 1]; what is no user's vector is a RangeError. */
  unit(vector: readonly number[]): number[];
}

/** One type of report of Prio3 (draft-irtf-cfrg-vdaf): shares, and shares of a proof that the measurement is valid. */
export interface Prio3<Measurement> {
  readonly proofs: number;
  readonly shares: number;
  /** Random bytes that one report takes. */
  readonly randSize: number;
  /** Bytes of each share. */
  readonly sizes: { readonly publicShare: number; readonly leader: number; readonly helper: number };
  /**
   * The public share, the leader's and every helper's. What is out of range is a RangeError: nothing would hide it.
   * The nonce has 16 bytes. Whatever the report is to be bound to belongs into the context.
   */
  shard(measurement: Measurement, nonce: Uint8Array, context: Uint8Array, rand?: Uint8Array): Uint8Array[];
}

/** Zero or one. */
export function prio3Count(options?: { shares?: number }): Prio3<number | bigint>;

/** A whole number from 0 to `maxMeasurement`. */
export function prio3Sum(maxMeasurement: number | bigint, options?: { shares?: number }): Prio3<number | bigint>;

/** `length` whole numbers from 0 to `maxMeasurement`; `proofs`: one, or three and more over the small field. */
export function prio3SumVec(
  length: number,
  maxMeasurement: number | bigint,
  options?: { chunkLength?: number; proofs?: number; shares?: number },
): Prio3<ArrayLike<number | bigint>>;

/** Whole numbers, each from 0 to its own of `most`; where all are alike it is `prio3SumVec`. */
export function prio3Ranges(most: readonly (number | bigint)[]): Prio3<ArrayLike<number | bigint>>;

/** The number of one of `length` buckets. */
export function prio3Histogram(length: number, options?: { chunkLength?: number; shares?: number }): Prio3<number>;
