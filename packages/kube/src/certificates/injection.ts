/** The targets of one look, read together and brought up to date together. One that fails does not hold up the others. */
import { isFault, messageOf, toFault, type Abortable, type Fault } from "@cocoon/core";
import type { BundleReading, BundleTarget } from "./bundle-target.ts";
import { certificateId, isIssuedBy, splitBundle } from "./pem.ts";
import type { ServingPair } from "./serving-certificates.ts";

export interface TargetReading {
  readonly target: BundleTarget;
  /** What is in it; what was in it last when it could not be asked; nothing when it is not there. */
  readonly bundles: readonly string[];
  /** Absent when the target could not be read. */
  readonly reading: BundleReading | undefined;
  /** Why it could not be read or written. */
  readonly trouble: Fault | undefined;
}

export function readTargets(
  targets: readonly BundleTarget[],
  before: readonly TargetReading[],
  options: Abortable,
): Promise<TargetReading[]> {
  return Promise.all(
    targets.map(async (target): Promise<TargetReading> => {
      try {
        const reading = await target.read(options);
        return { target, reading, bundles: reading.bundles, trouble: undefined };
      } catch (error) {
        const last = isFault(error, "notFound") ? undefined : before.find((each) => each.target === target);
        return { target, reading: undefined, bundles: last?.bundles ?? [], trouble: toFault(error) };
      }
    }),
  );
}

/** Throws when it is not certain what is in place: an answer that did not come is not an empty one. */
export function requireAnswers(readings: readonly TargetReading[]): void {
  for (const { target, trouble } of readings)
    if (trouble && !isFault(trouble, "notFound")) throw toFault(trouble, target.description);
}

export function injectTargets(
  readings: readonly TargetReading[],
  bundle: string,
  options: Abortable,
): Promise<TargetReading[]> {
  return Promise.all(
    readings.map(async (before): Promise<TargetReading> => {
      if (!before.reading) return before;
      try {
        return { ...before, bundles: await before.reading.inject(bundle, options) };
      } catch (error) {
        return { ...before, trouble: toFault(error) };
      }
    }),
  );
}

export function holdExactly(readings: readonly TargetReading[], bundle: string): boolean {
  return readings.every(
    ({ bundles, trouble }) => trouble === undefined && bundles.every((each) => each === bundle),
  );
}

/** Ids of those authorities that are at every place; undefined when a target could not be asked. */
export function heldEverywhere(
  readings: readonly TargetReading[],
  authorities: readonly string[],
): ReadonlySet<string> | undefined {
  if (readings.some(({ trouble }) => trouble !== undefined)) return undefined;
  const places = readings.flatMap(({ bundles }) => bundles.map((bundle) => new Set(splitBundle(bundle))));
  const held = authorities.filter((authority) => places.every((place) => place.has(authority)));
  return new Set(held.map(certificateId));
}

/**
 * Why a client that goes by one of the targets would refuse the pair; undefined when none would. A target that cannot
 * be asked counts as it was last seen: while the API server is away nobody can have changed it.
 */
export function distrust(readings: readonly TargetReading[], pair: ServingPair): string | undefined {
  for (const { target, bundles, trouble } of readings) {
    const trusted = bundles.every((bundle) => trusts(bundle, pair));
    if (trusted && (trouble === undefined || bundles.length > 0)) continue;
    const why =
      trouble === undefined
        ? " does not hold the authority of the serving certificate yet"
        : `: ${messageOf(trouble)}`;
    return `${target.description}${why}`;
  }
  return undefined;
}

function trusts(bundle: string, pair: ServingPair): boolean {
  return splitBundle(bundle).some((authority) => {
    try {
      return isIssuedBy(pair.certificate, authority);
    } catch {
      return false; // somebody else's text between ours
    }
  });
}
