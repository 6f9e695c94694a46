/** Keeps our webhook configurations as the gates want them, and never touches those of others. */
import { Fault, getErrorMessage, ignoreFault, sleep, type Abortable, type Logger } from "@cocoon/core";
import {
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
  type KubeClient,
  type ResourceType,
  type WebhookConfiguration,
} from "@cocoon/kube";
import { isRecord } from "../json.ts";
import {
  activeDefinitions,
  webhookEntry,
  type BuildClientConfig,
  type WebhookDefinition,
} from "./registration.ts";
import type { Gates } from "../gates.ts";

const holderLabel = "app.kubernetes.io/managed-by";
const holder = "cocoon-colocation";

export interface ConfigurationOptions {
  readonly client: KubeClient;
  readonly names: Readonly<Record<WebhookDefinition["type"], string>>;
  readonly gates: Gates;
  readonly clientConfig: BuildClientConfig;
  readonly log: Logger;
}

const types: Readonly<Record<WebhookDefinition["type"], ResourceType<WebhookConfiguration>>> = {
  mutating: mutatingWebhookConfigurations,
  validating: validatingWebhookConfigurations,
};

const kinds = ["mutating", "validating"] as const;

/** Makes sure that both are there and ours; new ones are still empty, so nothing is sent to us yet. */
export async function claimConfigurations(
  { client, names }: ConfigurationOptions,
  { signal }: Abortable,
): Promise<void> {
  for (const kind of kinds) {
    const name = names[kind];
    const found = await ignoreFault("notFound", client.get(types[kind], { name }, { signal }));
    if (!found) {
      const metadata = { name, labels: { [holderLabel]: holder } };
      const creating = client.create(types[kind], { metadata, webhooks: [] }, { signal });
      await ignoreFault("alreadyExists", creating); // another replica was first
      continue;
    }
    const held = found.metadata.labels?.[holderLabel];
    if (held !== holder)
      throw new Fault(
        "invalid",
        `${types[kind].kind} ${name} belongs to ${held ?? "another program"}; remove it, or choose another name with --${kind}-webhook-name`,
      );
  }
}

export interface WriteOptions extends ConfigurationOptions {
  /** PEM; for webhooks that have no bundle yet, or for all. */
  readonly caBundle: string;
  /** The bundle is ours to keep current: replaced where it is another. */
  readonly ownsBundle: boolean;
}

/** Brings the lists of webhooks up to date. Their bundles are kept, and given to new ones. */
export async function writeConfigurations(options: WriteOptions, { signal }: Abortable): Promise<void> {
  for (const kind of kinds) {
    let written = false;
    // A conflict: another replica, or the injection of a bundle, was faster.
    for (let tries = 0; !written && tries < maxTries; tries += 1)
      written = (await ignoreFault("conflict", writeOne(kind, options, signal))) ?? false;
  }
}

const maxTries = 10;

async function writeOne(
  kind: WebhookDefinition["type"],
  { client, names, gates, clientConfig, caBundle, ownsBundle, log }: WriteOptions,
  signal: AbortSignal,
): Promise<true> {
  const bundle = Buffer.from(caBundle).toString("base64");
  const wanted = activeDefinitions(gates)
    .filter(({ type }) => type === kind)
    .map((definition) =>
      webhookEntry(definition, (path) => ({
        ...clientConfig(path),
        ...(ownsBundle ? { caBundle: bundle } : {}),
      })),
    );
  const found = await client.get(types[kind], { name: names[kind] }, { signal });
  if (holdsAll(found.webhooks ?? [], wanted)) return true;
  const bundles = new Map((found.webhooks ?? []).map((each) => [each.name, each.clientConfig.caBundle]));
  const webhooks = wanted.map((each) => ({
    ...each,
    clientConfig: { caBundle: bundles.get(each.name) ?? bundle, ...each.clientConfig },
  }));
  await client.update(types[kind], { ...found, webhooks }, { signal });
  log.info({ configuration: names[kind], webhooks: wanted.map(({ name }) => name) }, "webhooks registered");
  return true;
}

const lookMs = 60_000;

export interface KeepOptions extends ConfigurationOptions {
  readonly caBundle: () => string;
  readonly ownsBundle: boolean;
  readonly onChange: (listener: () => void) => Disposable;
}

/** Restores what was removed or changed, until the signal aborts. Never rejects. */
export async function keepConfigurations(options: KeepOptions, { signal }: Abortable): Promise<void> {
  let nap = new AbortController();
  using _waking = options.onChange(() => nap.abort());
  while (!signal.aborted) {
    await sleep(lookMs * (0.9 + 0.2 * Math.random()), { signal: AbortSignal.any([signal, nap.signal]) });
    if (signal.aborted) return;
    nap = new AbortController();
    try {
      await claimConfigurations(options, { signal });
      await writeConfigurations({ ...options, caBundle: options.caBundle() }, { signal });
    } catch (error) {
      if (!signal.aborted)
        options.log.warn({ error: getErrorMessage(error) }, "webhook configurations not confirmed");
    }
  }
}

/** The server fills in defaults: everything we want must be there, more may be. */
function holdsAll(found: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted))
    return (
      Array.isArray(found) &&
      found.length === wanted.length &&
      wanted.every((each, index) => holdsAll(found[index], each))
    );
  if (isRecord(wanted))
    return isRecord(found) && Object.entries(wanted).every(([key, value]) => holdsAll(found[key], value));
  return found === wanted;
}
