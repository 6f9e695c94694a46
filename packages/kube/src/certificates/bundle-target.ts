/** Objects that tell the API server which authorities to trust when it calls us, and how the bundle gets into them. */
import type { Abortable } from "@cocoon/core";
import type { JsonPatchOperation } from "@cocoon/core/json-patch";
import {
  customResourceDefinitions,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from "../builtin.ts";
import type { WebhookClientConfig, WebhookConfiguration } from "../builtin-objects.ts";
import type { KubeClient } from "../client.ts";
import type { KubeObject, ResourceType } from "../object.ts";
import type { WatchedObject } from "./watch-object.ts";

/** One such object. */
export interface BundleTarget {
  /** For people: `ValidatingWebhookConfiguration name`. */
  readonly description: string;
  /** Which object it is, where it can be watched. */
  readonly object?: WatchedObject;
  /** Throws when the object is not there or cannot be asked for. */
  read(options: Abortable): Promise<BundleReading>;
}

export interface BundleReading {
  /** PEM text at each place of the object; empty where nothing is set. */
  readonly bundles: readonly string[];
  /**
   * Puts the bundle everywhere in the object, and gives what is there then. Writes only what differs, and only if the
   * places are still as they were read: an `invalid` or `conflict` fault says that they are not.
   */
  inject(bundle: string, options: Abortable): Promise<readonly string[]>;
}

/** A place for the bundle: what must still hold when it is written, and where it goes. */
interface Place {
  readonly config: WebhookClientConfig;
  readonly path: string;
  readonly unchanged: readonly JsonPatchOperation[];
}

export interface TargetOptions {
  readonly client: KubeClient;
  readonly name: string;
}

export interface WebhookTargetOptions extends TargetOptions {
  /** Which of the configuration's webhooks are ours. Default: all. */
  readonly isOurs?: (webhookName: string) => boolean;
}

export function validatingWebhooks(options: WebhookTargetOptions): BundleTarget {
  return target(validatingWebhookConfigurations, options, webhookPlaces(options));
}

export function mutatingWebhooks(options: WebhookTargetOptions): BundleTarget {
  return target(mutatingWebhookConfigurations, options, webhookPlaces(options));
}

/** A definition that converts without a webhook has no place for a bundle and is left alone. */
export function conversionWebhook(options: TargetOptions): BundleTarget {
  return target(customResourceDefinitions, options, ({ spec }) => {
    const conversion = spec?.conversion;
    const config = conversion?.webhook?.clientConfig;
    if (conversion?.strategy !== "Webhook" || !config) return [];
    const path = "/spec/conversion/webhook/clientConfig";
    return [{ config, path, unchanged: [{ op: "test", path, value: config }] }];
  });
}

function webhookPlaces({ isOurs = () => true }: WebhookTargetOptions) {
  return ({ webhooks = [] }: WebhookConfiguration): Place[] =>
    webhooks.flatMap(({ name, clientConfig: config }, index) => {
      if (!isOurs(name)) return [];
      const path = `/webhooks/${index}/clientConfig`;
      const unchanged: JsonPatchOperation[] = [
        { op: "test", path: `/webhooks/${index}/name`, value: name },
        { op: "test", path, value: config },
      ];
      return [{ config, path, unchanged }];
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
