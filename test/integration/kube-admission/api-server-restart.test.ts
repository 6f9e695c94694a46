/** The API server goes away and comes back: certificates and webhooks go on as if nothing had been. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { allowWithPatch, startAdmissionServer } from "@cocoon/kube/admission";
import { sleep } from "@cocoon/core";
import { eventually, ownControlPlane } from "@cocoon/testkit";
import { startRoundRobinProxy } from "./round-robin-proxy.ts";
import { assertDone, labelPatch, register, openTestClient, startCertificates, testLog } from "./webhooks.ts";

test(
  "after a restart of the API server kubectl is admitted again, and certificates still rotate",
  { timeout: 600_000 },
  async (t) => {
    await using cluster = await ownControlPlane();
    await using stack = new AsyncDisposableStack();
    const namespace = stack.use(await cluster.newNamespace()).name;
    const client = stack.use(await openTestClient(cluster));
    const proxy = stack.use(await startRoundRobinProxy());
    const urls = { label: `${proxy.url}/label` };
    const { target } = await register({ client, kind: "mutating", namespace, urls });
    const policy = { propagationMs: 2_000, settleMs: 1_500 };
    const certificates = stack.use(await startCertificates({ client, namespace, targets: [target], policy }));
    const server = stack.use(
      await startAdmissionServer({
        host: "127.0.0.1",
        port: 0,
        certificates,
        log: testLog,
        lameDuckMs: 0,
        endpoints: {
          "/label": {
            name: "label",
            handler: ({ object }) => allowWithPatch(labelPatch(object, { seen: "yes" })),
          },
        },
      }),
    );
    proxy.addServer(server.port);
    const ready = () =>
      eventually(() => assert.equal(certificates.readiness(), undefined), { timeoutMs: 60_000 });
    const labelled = async (name: string) => {
      assertDone(await cluster.kubectl(["-n", namespace, "create", "configmap", name]));
      const path = "jsonpath={.metadata.labels.seen}";
      const stored = await cluster.kubectl(["-n", namespace, "get", "configmap", name, "-o", path]);
      assert.equal(stored.stdout, "yes");
    };
    await ready();
    await labelled("before");

    await cluster.stop("kube-apiserver", { hard: true });
    await sleep(1_500, { signal: t.signal }); // several looks that cannot succeed
    assert.equal(certificates.readiness(), undefined, "what was in place before is still");
    await cluster.start();
    await labelled("after");

    const fingerprint = certificates.current().fingerprint;
    assertDone(await cluster.kubectl(["-n", namespace, "delete", "secret", "webhook-certs"]));
    await eventually(() => assert.notEqual(certificates.current().fingerprint, fingerprint), {
      timeoutMs: 60_000,
    });
    await labelled("rotated");
  },
);
