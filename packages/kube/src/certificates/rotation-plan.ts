/**
 * The next step of a rotation, decided from what is shared and nothing else. Every replica runs this; a step is one
 * conditional write, so it does not matter who takes it, and a replica that stops in the middle is simply overtaken.
 *
 *   steady      [A]     tls.crt signed by A
 *   announced   [B, A]  signed by A: B is put wherever A is trusted; nobody serves it yet
 *   switched    [B, A]  signed by B: replicas take it over one by one and say so
 *   steady      [B]     signed by B: every replica serves B, so A is dropped
 *
 * Before `switched` the new authority must have been seen in place for `propagationMs`, because API servers learn of
 * it with a delay. Before A is dropped, every replica that was heard of within `replicaTtlMs` must have said that it
 * serves B. A replica says what it serves before it takes requests, and calls itself not ready when it could not say
 * so for long; so one that is not heard of gets no requests.
 */
import { certificateId, isFor, notAfterMsOf } from "./pem.ts";
import { signerIndex, type RotationState } from "./rotation-state.ts";
import { validityTrouble } from "./serving-certificates.ts";

export interface RotationPolicy {
  readonly authorityForMs: number;
  readonly authorityRenewBeforeMs: number;
  readonly servingForMs: number;
  readonly servingRenewBeforeMs: number;
  readonly backdateMs: number;
  /** How long a new authority is in place before anybody serves by it; generous, nothing waits for it. */
  readonly propagationMs: number;
  /** How long API servers take to learn of a change; a replica is not ready, and does not switch, within it. */
  readonly settleMs: number;
  /**
   * How long a replica counts that is not heard of. The old authority stays at least this long after the switch, even
   * if nobody is known to use it: the list may have been lost with the store, and whoever was on it is by then either
   * heard of again or no longer ready.
   */
  readonly replicaTtlMs: number;
  /** How often a replica repeats what it serves; well below `replicaTtlMs`. */
  readonly heartbeatMs: number;
}

const minuteMs = 60_000;
const dayMs = 24 * 60 * minuteMs;

export const defaultPolicy: RotationPolicy = {
  authorityForMs: 10 * 365 * dayMs,
  authorityRenewBeforeMs: 2 * 365 * dayMs,
  servingForMs: 365 * dayMs,
  servingRenewBeforeMs: 120 * dayMs,
  backdateMs: 60 * minuteMs,
  propagationMs: minuteMs,
  settleMs: 2_000,
  replicaTtlMs: 30 * minuteMs,
  heartbeatMs: 10 * minuteMs,
};

export interface Observed {
  readonly state: RotationState;
  readonly nowMs: number;
  /** Ids of the authorities that every target holds; undefined when not every target could be asked. */
  readonly held: ReadonlySet<string> | undefined;
  /** This replica, the authority behind what it serves, and the names that its clients call it by. */
  readonly replica: string;
  readonly serving: string;
  readonly hosts: readonly string[];
  readonly policy: RotationPolicy;
}

export type Step =
  /** A new authority at the head of the bundle; the pair stays. */
  | { readonly kind: "announce"; readonly why: string }
  /** Note which authorities are in place, and since when. */
  | { readonly kind: "noteTrust"; readonly trusted: Readonly<Record<string, number>> }
  /** A new pair signed by the newest authority. */
  | { readonly kind: "issue"; readonly why: string }
  /** Only the newest authority stays. */
  | { readonly kind: "retire" }
  /** Say what this replica serves; replicas not heard of for long are forgotten. */
  | { readonly kind: "report" };

export function planRotation(observed: Observed): Step | undefined {
  const due = unusable(observed) ?? noteTrust(observed);
  return due ?? (announced(observed) ? whenAnnounced(observed) : whenSettled(observed)) ?? report(observed);
}

/** Nobody can be served with this pair, so there is nothing to protect by going slowly. */
function unusable({ state, nowMs }: Observed): Step | undefined {
  const trouble = validityTrouble(state.pair, nowMs) ?? unsigned(state);
  if (trouble === undefined) return undefined;
  const authorityGone = notAfterMsOf(state.authorities[0]) <= nowMs;
  return authorityGone ? { kind: "announce", why: "the authority expired" } : { kind: "issue", why: trouble };
}

function unsigned(state: RotationState): string | undefined {
  return signerIndex(state.authorities, state.pair) < 0
    ? "no known authority signed the serving certificate"
    : undefined;
}

function noteTrust({ state, nowMs, held }: Observed): Step | undefined {
  if (!held) return undefined;
  const { trusted } = state.note;
  const ids = state.authorities.map(certificateId).filter((id) => held.has(id));
  const same = ids.length === Object.keys(trusted).length && ids.every((id) => trusted[id] !== undefined);
  if (same) return undefined;
  return { kind: "noteTrust", trusted: Object.fromEntries(ids.map((id) => [id, trusted[id] ?? nowMs])) };
}

function announced({ state }: Observed): boolean {
  return signerIndex(state.authorities, state.pair) > 0;
}

function whenAnnounced({ state, nowMs, held, policy }: Observed): Step | undefined {
  const newest = certificateId(state.authorities[0]);
  const sinceMs = state.note.trusted[newest];
  if (!held?.has(newest) || sinceMs === undefined || nowMs - sinceMs < policy.propagationMs) return undefined;
  return { kind: "issue", why: "the new authority is trusted everywhere" };
}

function whenSettled(observed: Observed): Step | undefined {
  const { state } = observed;
  if (authorityIsDue(observed)) return { kind: "announce", why: "the authority expires soon" };
  if (renewalIsDue(observed)) return { kind: "issue", why: "the serving certificate expires soon" };
  const missing = missingHosts(observed);
  if (missing.length > 0)
    return { kind: "issue", why: `the serving certificate is not for ${missing.join(", ")}` };
  return state.authorities.length > 1 && oldIsUnused(observed) ? { kind: "retire" } : undefined;
}

/** One rotation at a time, unless the last one drags on until the next is overdue. */
function authorityIsDue({ state, nowMs, policy }: Observed): boolean {
  const leftMs = notAfterMsOf(state.authorities[0]) - nowMs;
  const marginMs = policy.authorityRenewBeforeMs;
  return leftMs < (state.authorities.length === 1 ? marginMs : marginMs / 2);
}

/** A certificate cannot outlive its authority: where a new one would hardly last longer, a new authority is due. */
function renewalIsDue({ state, nowMs, policy }: Observed): boolean {
  const { servingForMs, servingRenewBeforeMs } = policy;
  if (state.pair.notAfterMs - nowMs >= servingRenewBeforeMs) return false;
  const newEndMs = Math.min(nowMs + servingForMs, notAfterMsOf(state.authorities[0]));
  return newEndMs - state.pair.notAfterMs >= (servingForMs - servingRenewBeforeMs) / 2;
}

function missingHosts({ state, hosts }: Observed): string[] {
  return hosts.filter((host) => !isFor(state.pair.certificate, host));
}

function oldIsUnused({ state, nowMs, policy }: Observed): boolean {
  if (nowMs - state.note.issuedAtMs < policy.replicaTtlMs) return false;
  const newest = certificateId(state.authorities[0]);
  return Object.values(state.note.replicas)
    .filter(({ seenMs }) => nowMs - seenMs < policy.replicaTtlMs)
    .every(({ authority }) => authority === newest);
}

function report({ state, nowMs, replica, serving, policy }: Observed): Step | undefined {
  const own = state.note.replicas[replica];
  const current = own && own.authority === serving && nowMs - own.seenMs < policy.heartbeatMs;
  return current ? undefined : { kind: "report" };
}
