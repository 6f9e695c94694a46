/** Objects that tell the API server which authorities to trust when it calls us, and how the bundle gets into them. */
import { type Abortable, isFault, getErrorMessage, toFault, type Fault } from "@cocoon/core";
import type { JsonPatchOperation } from "@cocoon/core/json-patch";
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from "../builtin.ts";
import type { WebhookClientConfig, WebhookConfiguration } from "../builtin-objects.ts";
import type { KubeClient } from "../client/client.ts";
import type { KubeObject, ResourceType } from "../object.ts";
import type { WatchedObject } from "./notices.ts";
import { certificateId, isIssuedBy, splitBundle } from "./pem.ts";
import type { ServingPair } from "./serving-certificates.ts";

export interface BundleTarget {
  readonly description: string;
  readonly object?: WatchedObject;
  read(options: Abortable): Promise<BundleReading>;
}

export interface BundleReading {
  readonly bundles: readonly string[];
  /** Puts the bundle everywhere in the object. An `invalid` or `conflict` fault means that the places changed since. */
  inject(bundle: string, options: Abortable): Promise<readonly string[]>;
}

interface Place {
  readonly config: WebhookClientConfig;
  readonly path: string;
  readonly unchanged: readonly JsonPatchOperation[];
}

interface TargetOptions {
  readonly client: KubeClient;
  readonly name: string;
}

export function validatingWebhooks(options: TargetOptions): BundleTarget {
  return target(validatingWebhookConfigurations, options, webhookPlaces);
}

export function mutatingWebhooks(options: TargetOptions): BundleTarget {
  return target(mutatingWebhookConfigurations, options, webhookPlaces);
}

function webhookPlaces({ webhooks = [] }: WebhookConfiguration): Place[] {
  return webhooks.map(({ name, clientConfig: config }, index) => {
    const path = `/webhooks/${index}/clientConfig`;
    const unchanged: JsonPatchOperation[] = [
      { op: "test", path: `/webhooks/${index}/name`, value: name },
      { op: "test", path, value: config },
    ];
    return { config, path, unchanged };
  });
}

function target<T extends KubeObject>(
  type: ResourceType<T>,
  { client, name }: TargetOptions,
  placesIn: (object: T) => Place[],
): BundleTarget {
  const bundlesIn = (object: T) => placesIn(object).map(({ config }) => decode(config.caBundle));
  return {
    description: `${type.kind} ${name}`,
    object: { type, key: { name } },
    async read({ signal }) {
      const object = await client.get(type, { name }, { signal });
      return {
        bundles: bundlesIn(object),
        async inject(bundle, { signal }) {
          const body = placesIn(object)
            .filter(({ config }) => decode(config.caBundle) !== bundle)
            .flatMap((place) => injection(place, bundle));
          if (body.length === 0) return bundlesIn(object);
          const patch = { type: "json", body } as const;
          return bundlesIn(await client.patch(type, { key: { name }, patch }, { signal }));
        },
      };
    },
  };
}

function injection({ path, unchanged }: Place, bundle: string): JsonPatchOperation[] {
  const value = Buffer.from(bundle).toString("base64");
  return [...unchanged, { op: "add", path: `${path}/caBundle`, value }];
}

function decode(caBundle: string | undefined): string {
  return caBundle === undefined ? "" : Buffer.from(caBundle, "base64").toString("utf8");
}

/** The targets of one look, read together and brought up to date together. One that fails does not hold up the others. */
export interface TargetReading {
  readonly target: BundleTarget;
  /** What is in it; what was in it last when it could not be read; nothing when it is not there. */
  readonly bundles: readonly string[];
  readonly reading: BundleReading | undefined;
  readonly problem: Fault | undefined;
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
        return { target, reading, bundles: reading.bundles, problem: undefined };
      } catch (error) {
        const last = isFault(error, "notFound") ? undefined : before.find((each) => each.target === target);
        return { target, reading: undefined, bundles: last?.bundles ?? [], problem: toFault(error) };
      }
    }),
  );
}

/** Throws when it is not certain what is in place: an answer that did not come is not an empty one. */
export function requireAnswers(readings: readonly TargetReading[]): void {
  for (const { target, problem } of readings)
    if (problem && !isFault(problem, "notFound")) throw toFault(problem, target.description);
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
        return { ...before, problem: toFault(error) };
      }
    }),
  );
}

export function holdExactly(readings: readonly TargetReading[], bundle: string): boolean {
  return readings.every(
    ({ bundles, problem }) => problem === undefined && bundles.every((each) => each === bundle),
  );
}

/** Ids of those authorities that are at every place; undefined when a target could not be read. */
export function heldEverywhere(
  readings: readonly TargetReading[],
  authorities: readonly string[],
): ReadonlySet<string> | undefined {
  if (readings.some(({ problem }) => problem !== undefined)) return undefined;
  const places = readings.flatMap(({ bundles }) => bundles.map((bundle) => new Set(splitBundle(bundle))));
  const held = authorities.filter((authority) => places.every((place) => place.has(authority)));
  return new Set(held.map(certificateId));
}

/** Why a client would refuse the pair; undefined when none would. A target that cannot be read counts as last seen. */
export function distrust(readings: readonly TargetReading[], pair: ServingPair): string | undefined {
  for (const { target, bundles, problem } of readings) {
    const trusted = bundles.every((bundle) => trusts(bundle, pair));
    if (trusted && (problem === undefined || bundles.length > 0)) continue;
    const why =
      problem === undefined
        ? " does not hold the authority of the serving certificate yet"
        : `: ${getErrorMessage(problem)}`;
    return `${target.description}${why}`;
  }
  return undefined;
}

function trusts(bundle: string, pair: ServingPair): boolean {
  return splitBundle(bundle).some((authority) => {
    try {
      return isIssuedBy(pair.certificate, authority);
    } catch {
      return false; // another writer's text between ours
    }
  });
}
