/** The targets of one look, read together and brought up to date together. One that fails does not hold up the others. */
import { messageOf, type Abortable } from "@cocoon/core";
import type { BundleReading, BundleTarget } from "./bundle-target.ts";
import { isIssuedBy, splitBundle } from "./pem.ts";
import type { ServingPair } from "./serving-certificates.ts";

export interface TargetReading {
  readonly target: BundleTarget;
  readonly bundles: readonly string[];
  /** Absent when the target could not be read. */
  readonly reading: BundleReading | undefined;
  /** Why it could not be read or written. */
  readonly trouble: string | undefined;
}

export function readTargets(targets: readonly BundleTarget[], options: Abortable): Promise<TargetReading[]> {
  return Promise.all(
    targets.map(async (target): Promise<TargetReading> => {
      try {
        const reading = await target.read(options);
        return { target, reading, bundles: reading.bundles, trouble: undefined };
      } catch (error) {
        return { target, reading: undefined, bundles: [], trouble: messageOf(error) };
      }
    }),
  );
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
        return { ...before, trouble: messageOf(error) };
      }
    }),
  );
}

export function holdExactly(readings: readonly TargetReading[], bundle: string): boolean {
  return readings.every(
    ({ bundles, trouble }) => trouble === undefined && bundles.every((each) => each === bundle),
  );
}

/** Why a client that goes by one of the targets would refuse the pair; undefined when none would. */
export function distrust(readings: readonly TargetReading[], pair: ServingPair): string | undefined {
  for (const { target, bundles, trouble } of readings) {
    if (trouble !== undefined) return `${target.description}: ${trouble}`;
    if (!bundles.every((bundle) => trusts(bundle, pair)))
      return `${target.description} does not hold the authority of the serving certificate yet`;
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
