/** Takes the steps of a rotation: the shared state as it should be afterwards. Writing it is somebody else's. */
import { createAuthority, issueServingPair, type ServerNames } from "./issue.ts";
import { certificateId, hostsOf, notAfterMsOf, splitBundle } from "./pem.ts";
import type { RotationPolicy, Step } from "./rotation-plan.ts";
import { signerId, type RotationState } from "./rotation-state.ts";
import { readPair, validityTrouble, type ServingPair } from "./serving-certificates.ts";

export interface StepContext {
  readonly nowMs: number;
  readonly replica: string;
  /** Id of the authority behind what this replica serves. */
  readonly serving: string;
  readonly names: ServerNames;
  readonly authorityName: string;
  readonly policy: RotationPolicy;
}

/** Authorities that may be trusted at once; an endless bundle would outgrow the objects that carry it. */
const maxAuthorities = 6;

export async function takeStep(
  state: RotationState,
  step: Step,
  context: StepContext,
): Promise<RotationState> {
  switch (step.kind) {
    case "announce":
      return announce(state, context);
    case "issue":
      return issue(state, context);
    case "retire":
      return { ...state, authorities: [state.authorities[0]] };
    case "noteTrust":
      return { ...state, note: { ...state.note, trusted: { ...step.trusted } } };
    default:
      return { ...state, note: { ...state.note, replicas: reports(state, context) } };
  }
}

async function announce(state: RotationState, context: StepContext): Promise<RotationState> {
  const authority = await newAuthority(context);
  const older = stillValid(state.authorities, context.nowMs);
  return {
    ...state,
    authorities: [authority.certificate, ...older],
    authorityKey: authority.privateKey,
  };
}

async function issue(state: RotationState, context: StepContext): Promise<RotationState> {
  const authority = { certificate: state.authorities[0], privateKey: state.authorityKey };
  const hosts = [...context.names.hosts, ...hostsOf(state.pair.certificate)];
  const pair = await newPair(authority, { ...context, names: { ...context.names, hosts } });
  return { ...state, pair, note: { ...state.note, issuedAtMs: context.nowMs } };
}

function reports(
  state: RotationState,
  { replica, serving, nowMs, policy }: StepContext,
): RotationState["note"]["replicas"] {
  const heard = Object.entries(state.note.replicas).filter(
    ([, { seenMs }]) => nowMs - seenMs < 2 * policy.replicaTtlMs,
  );
  return { ...Object.fromEntries(heard), [replica]: { authority: serving, seenMs: nowMs } };
}

export interface Heritage {
  /** What this process knew until the shared state went away. */
  readonly remembered: RotationState | undefined;
  /** What is trusted now at each place where our authorities will be. */
  readonly bundles: readonly string[];
}

/**
 * The first state, or a new one after the old was lost. There may be others who still serve what the old one held,
 * this process among them; so whoever was trusted stays trusted, and a pair that works stays in use, until the
 * ordinary rotation has brought everybody over.
 */
export async function found({ remembered, bundles }: Heritage, context: StepContext): Promise<RotationState> {
  const authority = await newAuthority(context);
  const placed = bundles.map(splitBundle);
  const known = [...placed.flat(), ...(remembered?.authorities ?? [])];
  const older = stillValid([...new Set(known)], context.nowMs);
  const held = older.filter((each) => placed.every((bundle) => bundle.includes(each)));
  const keep =
    remembered &&
    validityTrouble(remembered.pair, context.nowMs) === undefined &&
    signerId(held, remembered.pair) !== "";
  return {
    authorities: [authority.certificate, ...older],
    authorityKey: authority.privateKey,
    pair: keep ? remembered.pair : await newPair(authority, context),
    note: {
      issuedAtMs: context.nowMs,
      trusted: Object.fromEntries(
        held.map(certificateId).map((id) => [id, remembered?.note.trusted[id] ?? context.nowMs]),
      ),
      replicas: remembered?.note.replicas ?? {},
    },
  };
}

function stillValid(authorities: readonly string[], nowMs: number): string[] {
  return authorities.filter((each) => readableUntil(each) > nowMs).slice(0, maxAuthorities - 1);
}

/** A bundle may hold what somebody pasted into it. */
function readableUntil(pem: string): number {
  try {
    return notAfterMsOf(pem);
  } catch {
    return Number.NEGATIVE_INFINITY;
  }
}

function newAuthority({ authorityName, nowMs, policy }: StepContext): ReturnType<typeof createAuthority> {
  return createAuthority(authorityName, {
    nowMs,
    forMs: policy.authorityForMs,
    backdateMs: policy.backdateMs,
  });
}

async function newPair(
  authority: { readonly certificate: string; readonly privateKey: string },
  { names, nowMs, policy }: StepContext,
): Promise<ServingPair> {
  const forMs = Math.min(policy.servingForMs, notAfterMsOf(authority.certificate) - nowMs);
  const made = await issueServingPair(authority, names, { nowMs, forMs, backdateMs: policy.backdateMs });
  return readPair(made.certificate, made.privateKey);
}
