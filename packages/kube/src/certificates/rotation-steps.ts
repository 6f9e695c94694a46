/** Takes the steps of a rotation: the shared state as it should be afterwards. The caller writes it. */
import { createAuthority, issueServingPair, type ServerNames } from "./issue.ts";
import { certificateId, readHosts, readNotAfterMs, splitBundle } from "./pem.ts";
import type { RotationPolicy, Step } from "./rotation-plan.ts";
import { signerId, type RotationState } from "./rotation-state.ts";
import { readPair, findValidityProblem, type ServingPair } from "./serving-certificates.ts";

export interface StepContext {
  readonly nowMs: number;
  readonly replica: string;
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
  const hosts = [...context.names.hosts, ...readHosts(state.pair.certificate)];
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
  readonly remembered: RotationState | undefined;
  readonly bundles: readonly string[];
}

/**
 * The first state, or a new one after the old was lost. Other replicas may still serve the old pair: its authority stays
 * trusted, and a pair that works stays in use, until the rotation has moved all replicas over.
 */
export async function found({ remembered, bundles }: Heritage, context: StepContext): Promise<RotationState> {
  const authority = await newAuthority(context);
  const placed = bundles.map(splitBundle);
  const known = [...placed.flat(), ...(remembered?.authorities ?? [])];
  const older = stillValid([...new Set(known)], context.nowMs);
  const held = older.filter((each) => placed.every((bundle) => bundle.includes(each)));
  const keep =
    remembered &&
    findValidityProblem(remembered.pair, context.nowMs) === undefined &&
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

/** A bundle may hold certificates that were added by hand. */
function readableUntil(pem: string): number {
  try {
    return readNotAfterMs(pem);
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
  const forMs = Math.min(policy.servingForMs, readNotAfterMs(authority.certificate) - nowMs);
  const made = await issueServingPair(authority, names, { nowMs, forMs, backdateMs: policy.backdateMs });
  return readPair(made.certificate, made.privateKey);
}
