/** Keeps our webhook configurations as the gates want them, and never touches somebody else's. */
import { Fault, isFault, messageOf, sleep, type Abortable, type Logger } from "@cocoon/core";
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
  type ClientConfigOf,
  type WebhookDefinition,
} from "./registration.ts";
import type { Gates } from "../gates.ts";

const holderLabel = "app.kubernetes.io/managed-by";
const holder = "cocoon-colocation";

export interface ConfigurationOptions {
  readonly client: KubeClient;
  readonly names: Readonly<Record<WebhookDefinition["type"], string>>;
  readonly gates: Gates;
  readonly clientConfig: ClientConfigOf;
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
    const found = await tryGet(client, { type: types[kind], name }, signal);
    if (!found) {
      await createEmpty(client, { type: types[kind], name }, signal);
      continue;
    }
    const held = found.metadata.labels?.[holderLabel];
    if (held !== holder)
      throw new Fault(
        "invalid",
        `${types[kind].kind} ${name} belongs to ${held ?? "somebody else"}; remove it, or choose another name with --${kind}-webhook-name`,
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
    let tries = 1;
    while (!(await tryWrite(kind, options, signal)) && tries < maxTries) tries += 1;
  }
}

const maxTries = 10;

/** False when another replica, or the injection of a bundle, was faster. */
async function tryWrite(
  kind: WebhookDefinition["type"],
  options: WriteOptions,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await writeOne(kind, options, signal);
    return true;
  } catch (error) {
    if (isFault(error, "conflict")) return false;
    throw error;
  }
}

async function writeOne(
  kind: WebhookDefinition["type"],
  { client, names, gates, clientConfig, caBundle, ownsBundle, log }: WriteOptions,
  signal: AbortSignal,
): Promise<void> {
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
  if (holdsAll(found.webhooks ?? [], wanted)) return;
  const bundles = new Map((found.webhooks ?? []).map((each) => [each.name, each.clientConfig.caBundle]));
  const webhooks = wanted.map((each) => ({
    ...each,
    clientConfig: { caBundle: bundles.get(each.name) ?? bundle, ...(each["clientConfig"] as object) },
  }));
  await client.update(types[kind], { ...found, webhooks }, { signal });
  log.info({ configuration: names[kind], webhooks: wanted.map(({ name }) => name) }, "webhooks registered");
}

const lookMs = 60_000;

export interface KeepOptions extends ConfigurationOptions {
  readonly caBundle: () => string;
  readonly ownsBundle: boolean;
  /** Calls back when the bundle may be another one. */
  readonly onChange: (listener: () => void) => Disposable;
}

/** Puts back what somebody took away or changed, until the signal aborts. Never rejects. */
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
        options.log.warn({ error: messageOf(error) }, "webhook configurations not confirmed");
    }
  }
}

interface Target {
  readonly type: ResourceType<WebhookConfiguration>;
  readonly name: string;
}

async function tryGet(
  client: KubeClient,
  { type, name }: Target,
  signal: AbortSignal,
): Promise<WebhookConfiguration | undefined> {
  try {
    return await client.get(type, { name }, { signal });
  } catch (error) {
    if (isFault(error, "notFound")) return undefined;
    throw error;
  }
}

async function createEmpty(client: KubeClient, { type, name }: Target, signal: AbortSignal): Promise<void> {
  try {
    await client.create(
      type,
      { metadata: { name, labels: { [holderLabel]: holder } }, webhooks: [] },
      { signal },
    );
  } catch (error) {
    if (!isFault(error, "alreadyExists")) throw error; // another replica was first
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
