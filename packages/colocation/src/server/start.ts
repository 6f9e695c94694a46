/** A whole replica: caches, certificates, the admission server, and its registration with the API server. */
import {
  createRegistry,
  Fault,
  silentLogger,
  withDeadline,
  type Abortable,
  type Logger,
  type Registry,
} from "@cocoon/core";
import type { KubeConnection } from "@cocoon/kube";
import { startAdmissionServer, type AdmissionServer, type ReviewEvent } from "@cocoon/kube/admission";
import { exportCertificateMetrics, type ServingCertificates } from "@cocoon/kube/certificates";
import { kubeUsageStore, kubeChangeStore } from "../quota/kube-stores.ts";
import { podAdmission } from "../quota/pod-admission.ts";
import { auditor, type AuditLevel } from "./middleware.ts";
import { openCertificates, type CertificateSettings } from "./certificates.ts";
import { openClusterView, type ClusterCaches } from "./cluster-view.ts";
import {
  claimConfigurations,
  keepConfigurations,
  writeConfigurations,
  type ConfigurationOptions,
} from "./configurations.ts";
import { debugRoutes } from "./debug.ts";
import { colocationEndpoints, type RuleSettings } from "./endpoints.ts";
import { createColocationMetrics, type ColocationMetrics } from "./metrics.ts";
import { rateLimit } from "./middleware.ts";
import { isLenient } from "./registration.ts";
import { safety } from "./middleware.ts";
import { koordinatorWire, maxBodyBytes } from "./wire.ts";

export interface ColocationSettings extends RuleSettings {
  readonly host: string;
  readonly port: number;
  readonly namespace: string;
  readonly serviceName: string;
  readonly url: { readonly host: string; readonly port: number } | undefined;
  readonly configurationNames: ConfigurationOptions["names"];
  readonly certificates: CertificateSettings;
  readonly rateLimit: { readonly perSecond: number; readonly burst: number };
  readonly auditLevel: AuditLevel;
  readonly lameDuckMs?: number;
}

export interface ColocationOptions extends Abortable {
  readonly client: KubeConnection;
  readonly settings: ColocationSettings;
  readonly log?: Logger;
  readonly metrics?: Registry;
}

export interface RunningColocation extends AsyncDisposable {
  readonly server: AdmissionServer;
  readonly certificates: ServingCertificates;
  readiness(): Promise<string | undefined>;
}

/** Waits of a pod for room in its quota: less than the 80% of its 5 s. */
const quotaWaitMs = 2_500;
const changesName = "cocoon-colocation-quota-ledger";

export async function startColocation(options: ColocationOptions): Promise<RunningColocation> {
  const { client, settings, log = silentLogger, signal } = options;
  await using stack = new AsyncDisposableStack();
  const registry = options.metrics ?? createRegistry("cocoon-colocation");
  const metrics = createColocationMetrics(registry);
  const caches = stack.use(
    await openClusterView({
      client,
      log,
      configNamespaces: [settings.configNamespace, settings.enhanced.namespace],
      signal,
    }),
  );
  await firstLists(caches, signal);
  const registration = buildRegistration(options, log);
  await claimConfigurations(registration, { signal });
  const certificates = stack.use(await openCertificates({ client, settings, log, signal }));
  exportCertificateMetrics(registry, certificates.serving, "cocoon_colocation_certificate");
  const server = stack.use(
    await startServer({ options, caches, metrics, registry, log, certificates: certificates.serving }),
  );
  const actual = settings.url?.port === 0 ? { ...settings.url, port: server.port } : settings.url;
  const written = { ...registration, clientConfig: buildClientConfig({ ...settings, url: actual }) };
  const { ownsBundle } = certificates;
  await writeConfigurations({ ...written, caBundle: certificates.caBundle(), ownsBundle }, { signal });
  const stopping = new AbortController();
  const keeping = keepConfigurations(
    {
      ...written,
      caBundle: () => certificates.caBundle(),
      ownsBundle,
      onChange: (listener) => certificates.onChange(listener),
    },
    { signal: AbortSignal.any([signal, stopping.signal]) },
  );
  stack.defer(async () => {
    stopping.abort();
    await keeping;
  });
  const parts = stack.move();
  return {
    server,
    certificates: certificates.serving,
    readiness: () => server.readiness(),
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

const firstListsMs = 60_000;

/** Not for ever: a missing right is reported, not waited for. */
async function firstLists(caches: ClusterCaches, signal: AbortSignal): Promise<void> {
  try {
    await caches.synced({ signal: withDeadline(signal, firstListsMs) });
  } catch (error) {
    signal.throwIfAborted();
    const kinds = caches.pending().join(", ");
    throw new Fault(
      "unavailable",
      `could not list ${kinds} within a minute; may this service account list them?`,
      {
        cause: error,
      },
    );
  }
}

interface ServerParts {
  readonly options: ColocationOptions;
  readonly caches: ClusterCaches;
  readonly metrics: ColocationMetrics;
  readonly registry: Registry;
  readonly certificates: ServingCertificates;
  readonly log: Logger;
}

function startServer({
  options,
  caches,
  metrics,
  registry,
  certificates,
  log,
}: ServerParts): Promise<AdmissionServer> {
  const { client, settings } = options;
  const { view } = caches;
  const { gates, namespace } = settings;
  const audit = auditor(log, settings.auditLevel);
  return startAdmissionServer({
    host: settings.host,
    port: settings.port,
    certificates,
    endpoints: colocationEndpoints({
      settings,
      view,
      metrics,
      log,
      changeStore: kubeChangeStore({ client, namespace, name: changesName, wasStored: caches.wasStored }),
      admission: podAdmission({
        view,
        store: kubeUsageStore({ client, gates, wasStored: caches.wasStored }),
        maxWaitMs: quotaWaitMs,
      }),
    }),
    middleware: [
      metrics.inFlight,
      safety({ isLenient, failed: metrics.failed }),
      rateLimit({ ...settings.rateLimit, isLenient, limited: metrics.limited }),
    ],
    routes: debugRoutes({ client, view, configuration: { ...settings, gates } }),
    ready: () => {
      const pending = caches.pending();
      return pending.length === 0 ? undefined : `not listed yet: ${pending.join(", ")}`;
    },
    readyNote: () => {
      const missing = caches.missing();
      return missing.length === 0 ? undefined : `not served yet, taken as empty: ${missing.join(", ")}`;
    },
    limits: { bodyBytes: maxBodyBytes - 1 },
    registry,
    metricPrefix: "cocoon_colocation_admission",
    observe: (event: ReviewEvent) => {
      metrics.observe(event);
      audit(event);
    },
    wire: koordinatorWire,
    log,
    ...(settings.lameDuckMs === undefined ? {} : { lameDuckMs: settings.lameDuckMs }),
  });
}

function buildRegistration({ client, settings }: ColocationOptions, log: Logger): ConfigurationOptions {
  return {
    client,
    names: settings.configurationNames,
    gates: settings.gates,
    clientConfig: buildClientConfig(settings),
    log,
  };
}

function buildClientConfig({
  url,
  namespace,
  serviceName,
}: Pick<ColocationSettings, "url" | "namespace" | "serviceName">): ConfigurationOptions["clientConfig"] {
  if (url) return (path) => ({ url: `https://${url.host}:${url.port}${path}` });
  return (path) => ({ service: { namespace, name: serviceName, path, port: 443 } });
}
