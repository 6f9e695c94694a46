/**
 * The next step of a rotation, decided from the shared state alone. A step is one conditional write, so any replica may take it.
 *
 *   steady      [A]     tls.crt signed by A
 *   announced   [B, A]  signed by A: B is put wherever A is trusted; no replica serves it yet
 *   switched    [B, A]  signed by B: replicas take it over one by one and report it
 *   steady      [B]     signed by B: every replica serves B, so A is dropped
 *
 * Before `switched`, B must have been in place for `propagationMs`. Before A is dropped, every replica seen within `replicaTtlMs`
 * must have reported B; a replica that could not report is not ready and gets no requests.
 */
import { certificateId, isFor, readNotAfterMs } from "./pem.ts";
import { signerIndex, type RotationState } from "./rotation-state.ts";
import { findValidityProblem } from "./serving-certificates.ts";

export interface RotationPolicy {
  readonly authorityForMs: number;
  readonly authorityRenewBeforeMs: number;
  readonly servingForMs: number;
  readonly servingRenewBeforeMs: number;
  readonly backdateMs: number;
  /** How long a new authority is in place before a replica serves with it; generous, nothing waits for it. */
  readonly propagationMs: number;
  /** How long API servers take to learn of a change; a replica is not ready, and does not switch, within it. */
  readonly settleMs: number;
  /**
   * How long a silent replica counts. The old authority stays at least this long after the switch, even when no replica is
   * known to use it: the list may have been lost with the store.
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
  /** Ids of the authorities that every target holds; undefined when not every target could be read. */
  readonly held: ReadonlySet<string> | undefined;
  /** This replica, the authority behind what it serves, and the names that its clients call it by. */
  readonly replica: string;
  readonly serving: string;
  readonly hosts: readonly string[];
  readonly policy: RotationPolicy;
}

export type Step =
  | { readonly kind: "announce"; readonly why: string }
  | { readonly kind: "noteTrust"; readonly trusted: Readonly<Record<string, number>> }
  | { readonly kind: "issue"; readonly why: string }
  | { readonly kind: "retire" }
  | { readonly kind: "report" };

export function planRotation(observed: Observed): Step | undefined {
  const due = unusable(observed) ?? noteTrust(observed);
  return due ?? (announced(observed) ? whenAnnounced(observed) : whenSettled(observed)) ?? report(observed);
}

/** No client accepts this pair, so there is nothing to protect by going slowly. */
function unusable({ state, nowMs }: Observed): Step | undefined {
  const problem = findValidityProblem(state.pair, nowMs) ?? unsigned(state);
  if (problem === undefined) return undefined;
  const authorityGone = readNotAfterMs(state.authorities[0]) <= nowMs;
  return authorityGone ? { kind: "announce", why: "the authority expired" } : { kind: "issue", why: problem };
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
  const leftMs = readNotAfterMs(state.authorities[0]) - nowMs;
  const marginMs = policy.authorityRenewBeforeMs;
  return leftMs < (state.authorities.length === 1 ? marginMs : marginMs / 2);
}

/** A certificate cannot outlive its authority: where a new one would hardly last longer, a new authority is due. */
function renewalIsDue({ state, nowMs, policy }: Observed): boolean {
  const { servingForMs, servingRenewBeforeMs } = policy;
  if (state.pair.notAfterMs - nowMs >= servingRenewBeforeMs) return false;
  const newEndMs = Math.min(nowMs + servingForMs, readNotAfterMs(state.authorities[0]));
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
