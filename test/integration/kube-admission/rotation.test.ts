/** Certificates and authorities change while a real API server calls us all the time; no request fails. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import tls from "node:tls";
import { sleep, systemClock, type Clock } from "@cocoon/core";
import { configMaps, secrets, type KubeClient, type KubeConnection } from "@cocoon/kube";
import { allow, startAdmissionServer, type AdmissionServer } from "@cocoon/kube/admission";
import {
  createAuthority,
  issueServingPair,
  secretStore,
  type BuiltInCertificates,
  type BundleTarget,
  type RotationPolicy,
} from "@cocoon/kube/certificates";
import { count, eventually, sharedControlPlane } from "@cocoon/testkit";
import { startRoundRobinProxy } from "./round-robin-proxy.ts";
import { register, openTestClient, startCertificates, testLog } from "./webhooks.ts";

const signal = new AbortController().signal;
const hourMs = 3_600_000;
const authoritiesIn = (bundle: string) => bundle.match(/BEGIN CERTIFICATE/g)?.length ?? 0;

/** Real time, moved on by hand. What is issued in that future must be valid now: hence the long backdating. */
class ShiftedClock implements Clock {
  readonly now = () => systemClock.now();
  readonly schedule = (ms: number, callback: () => void) => systemClock.schedule(ms, callback);
  #offsetMs = 0;
  wallNow(): number {
    return Date.now() + this.#offsetMs;
  }
  advance(ms: number): void {
    this.#offsetMs += ms;
  }
}

const policy: Partial<RotationPolicy> = {
  backdateMs: 2_000 * hourMs, // beyond what all rounds of the full tier move the clock on
  servingForMs: 100 * hourMs,
  servingRenewBeforeMs: 50 * hourMs,
  authorityForMs: 400 * hourMs,
  authorityRenewBeforeMs: 200 * hourMs,
  propagationMs: 3_000,
  settleMs: 2_000,
  replicaTtlMs: 20_000,
  heartbeatMs: 1_000,
};

interface Replica {
  readonly certificates: BuiltInCertificates;
  readonly server: AdmissionServer;
  reviewed: number;
}

interface ReplicaOptions {
  readonly client: KubeConnection;
  readonly namespace: string;
  readonly targets: readonly BundleTarget[];
  readonly clock: Clock;
  readonly stack: AsyncDisposableStack;
}

async function startReplica({ stack, ...options }: ReplicaOptions): Promise<Replica> {
  const certificates = stack.use(await startCertificates({ ...options, policy, syncMs: 400 }));
  const replica = { reviewed: 0 };
  const server = await startAdmissionServer({
    host: "127.0.0.1",
    port: 0,
    certificates,
    log: testLog,
    lameDuckMs: 0,
    endpoints: {
      "/count": {
        name: "count",
        handler: async () => {
          replica.reviewed += 1;
          return allow();
        },
      },
    },
  });
  stack.use(server);
  return Object.assign(replica, { certificates, server });
}

/** Admission requests without end: dry runs of a create, so that nothing but admission happens. */
function startTraffic(client: KubeClient, namespace: string, concurrency: number) {
  const stopping = new AbortController();
  const failures: string[] = [];
  const counts = { done: 0 };
  const loops = Array.from({ length: concurrency }, async () => {
    while (!stopping.signal.aborted) {
      try {
        const object = { metadata: { generateName: "traffic-", namespace } };
        await client.create(configMaps, object, { signal, dryRun: true });
        counts.done += 1;
      } catch (error) {
        failures.push(`${new Date().toISOString()} after ${counts.done}: ${String(error)}`);
        await sleep(50, { signal });
      }
    }
  });
  const stop = async () => {
    stopping.abort();
    await Promise.all(loops);
  };
  return { counts, failures, stop };
}

/** New connections without end, by the bundle that the API server has at that time. */
function startHandshakes(ports: readonly number[], bundle: () => Promise<string | undefined>) {
  const stopping = new AbortController();
  const failures: string[] = [];
  const fingerprints = new Set<string>();
  const loops = ports.map(async (port) => {
    while (!stopping.signal.aborted) {
      const ca = await bundle();
      const socket = tls.connect({ port, host: "127.0.0.1", ...(ca === undefined ? {} : { ca }) });
      try {
        await once(socket, "secureConnect");
        fingerprints.add(socket.getPeerCertificate().fingerprint256);
      } catch (error) {
        failures.push(`${new Date().toISOString()}: ${String(error)}`);
      } finally {
        socket.destroy();
      }
      await sleep(20, { signal });
    }
  });
  const stop = async () => {
    stopping.abort();
    await Promise.all(loops);
  };
  return { fingerprints, failures, stop };
}

test(
  "serving certificates and authorities rotate under traffic without a failed request",
  { timeout: 900_000 },
  async (t) => {
    const cluster = await sharedControlPlane();
    const stack = new AsyncDisposableStack();
    t.after(() => stack.disposeAsync());
    const namespace = stack.use(await cluster.newNamespace()).name;
    const client = stack.use(await openTestClient(cluster));
    const clock = new ShiftedClock();
    const proxy = stack.use(await startRoundRobinProxy());
    const urls = { count: `${proxy.url}/count` };
    const registrations = [
      stack.use(await register({ client, kind: "validating", namespace, urls })),
      stack.use(await register({ client, kind: "mutating", namespace, urls })),
    ];
    const targets = registrations.map(({ target }) => target);
    const replicas = [
      await startReplica({ client, namespace, targets, clock, stack }),
      await startReplica({ client, namespace, targets, clock, stack }),
    ];
    const ports = replicas.map(({ server }) => server.port);
    for (const port of ports) proxy.addServer(port);
    const bundle = async () => (await registrations[0]?.bundles())?.[0];
    const everyone = async (check: (certificates: BuiltInCertificates) => void) =>
      eventually(
        () => {
          for (const { certificates } of replicas) check(certificates);
        },
        { timeoutMs: 120_000 },
      );
    await everyone((certificates) => assert.equal(certificates.readiness(), undefined));

    const traffic = startTraffic(client, namespace, 4);
    const handshakes = startHandshakes(ports, bundle);
    stack.defer(() => Promise.all([traffic.stop(), handshakes.stop()]).then(() => undefined));
    const enough = async () => {
      const from = traffic.counts.done;
      await eventually(
        () => assert.ok(traffic.counts.done >= from + 20, traffic.failures.slice(-3).join("\n")),
        { timeoutMs: 120_000 },
      );
    };
    await enough();

    for (let round = 0; round < count({ small: 1, full: 5 }); round += 1) {
      const before = replicas.map(({ certificates }) => certificates.current().fingerprint);
      const authority = await bundle();
      clock.advance(60 * hourMs);
      await everyone((certificates) => assert.ok(!before.includes(certificates.current().fingerprint)));
      assert.equal(await bundle(), authority, "only the serving certificate was renewed");
      await enough();

      clock.advance(40 * hourMs); // and renewed once more
      clock.advance(180 * hourMs);
      await eventually(async () => assert.equal(authoritiesIn((await bundle()) ?? ""), 2), {
        timeoutMs: 120_000,
      });
      await enough();
      await eventually(
        async () => {
          const now = (await bundle()) ?? "";
          assert.equal(authoritiesIn(now), 1);
          assert.notEqual(now, authority);
        },
        { timeoutMs: 240_000 },
      );
      for (const registration of registrations)
        assert.deepEqual(await registration.bundles(), [await bundle()]);
      await enough();
    }
    await Promise.all([traffic.stop(), handshakes.stop()]);
    t.diagnostic(
      `${traffic.counts.done} requests, ${handshakes.fingerprints.size} certificates, connections ${[...proxy.handedOut.values()].join(" and ")}`,
    );
    assert.deepEqual(traffic.failures, []);
    assert.deepEqual(handshakes.failures, []);
    for (const replica of replicas) assert.ok(replica.reviewed > 0, "both replicas were asked");
    assert.ok(handshakes.fingerprints.size >= 3);
  },
);

test("replicas that start together make one authority, inject every target, and then write nothing", async (t) => {
  const cluster = await sharedControlPlane();
  const stack = new AsyncDisposableStack();
  t.after(() => stack.disposeAsync());
  const namespace = stack.use(await cluster.newNamespace()).name;
  const client = stack.use(await openTestClient(cluster));
  const url = "https://127.0.0.1:9/x";
  const urls = { one: url, two: url };
  const validating = stack.use(
    await register({ client, kind: "validating", namespace, urls, failurePolicy: "Ignore" }),
  );
  const mutating = stack.use(
    await register({ client, kind: "mutating", namespace, urls, failurePolicy: "Ignore" }),
  );
  const targets = [validating.target, mutating.target];
  const replicas = await Promise.all(
    [1, 2, 3, 4].map(() => startCertificates({ client, namespace, targets })),
  );
  for (const replica of replicas) stack.use(replica);
  await eventually(
    () => {
      for (const replica of replicas) assert.equal(replica.readiness(), undefined);
    },
    { timeoutMs: 60_000 },
  );
  assert.equal(new Set(replicas.map((replica) => replica.current().fingerprint)).size, 1);
  const [bundle = ""] = await validating.bundles();
  assert.equal(authoritiesIn(bundle), 1);
  assert.deepEqual(await validating.bundles(), [bundle, bundle]);
  assert.deepEqual(await mutating.bundles(), [bundle, bundle]);

  const versions = async () => {
    const objects = [
      "secret/webhook-certs",
      `validatingwebhookconfiguration/${validating.name}`,
      `mutatingwebhookconfiguration/${mutating.name}`,
    ];
    const path = "jsonpath={range .items[*]}{.metadata.resourceVersion} {end}";
    return (await cluster.kubectl(["-n", namespace, "get", ...objects, "-o", path])).stdout;
  };
  const before = await versions();
  for (const replica of replicas) await replica.sync({ signal });
  assert.equal(await versions(), before, "looking again changed something");

  // A bundle that is removed comes back.
  const patch = [{ op: "remove", path: "/webhooks/1/clientConfig/caBundle" }];
  await cluster.kubectl([
    "patch",
    "validatingwebhookconfiguration",
    validating.name,
    "--type=json",
    "-p",
    JSON.stringify(patch),
  ]);
  await eventually(async () => assert.deepEqual(await validating.bundles(), [bundle, bundle]), {
    timeoutMs: 60_000,
  });

  // The Secret is deleted: a new authority is phased in beside the old one.
  await cluster.kubectl(["-n", namespace, "delete", "secret", "webhook-certs"]);
  await eventually(
    async () => {
      const [now = ""] = await mutating.bundles();
      assert.equal(authoritiesIn(now), 2);
      assert.ok(now.endsWith(bundle));
    },
    { timeoutMs: 60_000 },
  );
});

test("a Secret that another program keeps is refused and left alone", async (t) => {
  const cluster = await sharedControlPlane();
  const stack = new AsyncDisposableStack();
  t.after(() => stack.disposeAsync());
  const namespace = stack.use(await cluster.newNamespace()).name;
  const client = stack.use(await openTestClient(cluster));
  const made = await cluster.kubectl([
    "-n",
    namespace,
    "create",
    "secret",
    "generic",
    "webhook-certs",
    "--from-literal=tls.crt=x",
    "--from-literal=tls.key=y",
  ]);
  assert.equal(made.code, 0, made.stderr);
  await assert.rejects(startCertificates({ client, namespace, targets: [] }), {
    code: "invalid",
    message: new RegExp(`Secret ${namespace}/webhook-certs holds a certificate without its authority's key`),
  });
});

test("a Secret in another program's layout is taken over as it is, with what else is in it", async (t) => {
  const cluster = await sharedControlPlane();
  const stack = new AsyncDisposableStack();
  t.after(() => stack.disposeAsync());
  const namespace = stack.use(await cluster.newNamespace()).name;
  const client = stack.use(await openTestClient(cluster));
  const validity = { nowMs: Date.now(), forMs: 9 * 365 * 24 * hourMs, backdateMs: hourMs };
  const authority = await createAuthority("other", validity);
  const pair = await issueServingPair(authority, { commonName: "x", hosts: ["127.0.0.1"] }, validity);
  const stringData = {
    "ca-cert.pem": authority.certificate,
    "ca-key.pem": authority.privateKey,
    "tls.crt": pair.certificate,
    "tls.key": pair.privateKey,
    "cert.pem": "kept",
  };
  const key = { namespace, name: "others-certs" };
  await client.create(secrets, { metadata: { ...key, labels: { app: "other" } }, stringData }, { signal });
  const rename = { "ca.crt": "ca-cert.pem", "ca.key": "ca-key.pem" };
  const store = secretStore({ client, key, rename });
  const certificates = stack.use(await startCertificates({ client, namespace, targets: [], store }));
  assert.equal(certificates.current().certificate, pair.certificate);
  assert.equal(certificates.caBundle(), authority.certificate);
  const { data = {}, metadata } = await client.get(secrets, key, { signal });
  assert.equal(Buffer.from(data["cert.pem"] ?? "", "base64").toString(), "kept");
  assert.deepEqual(metadata.labels, { app: "other" });
  assert.deepEqual(Object.keys(data).toSorted(), Object.keys(stringData).toSorted());
});
