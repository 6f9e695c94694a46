/** The admission webhook. The API server of this machine calls it by address instead of by a Service. */
import { readFile } from "node:fs/promises";
import type { Component } from "@cocoon/controlplane";
import { applyManifests, readManifests, type Manifest } from "./apply.ts";
import { account } from "./identity.ts";
import { loopback, programPart, type PartContext } from "./part.ts";

export function webhookPart(context: PartContext): Component {
  const { ports, pki } = context;
  const { certificate, key } = pki.leaf.components;
  return programPart(context, {
    name: "webhook",
    summary: "gives machines their names and nodes, validates sets",
    needs: ["kube-apiserver", "registry", "operator"], // the operator's definitions are what it watches
    program: "webhook",
    account: account.webhook,
    usesRegistry: true,
    env: {
      LISTEN_ADDR: `${loopback}:${ports.webhook}`,
      METRICS_ADDR: `${loopback}:${ports.webhookHealth}`,
      TLS_CERT: certificate,
      TLS_KEY: key,
    },
    prepare: async (options) => {
      const authority = (await readFile(pki.ca.certificate)).toString("base64");
      const registered = (await readManifests("webhook/base/webhooks.yaml")).map((each) =>
        callByAddress(each, ports.webhook, authority),
      );
      const rest = await readManifests("webhook/base/rbac.yaml", "webhook/base/identity-policy.yaml");
      await applyManifests(context, [...rest, ...registered], options);
    },
    healthPort: ports.webhookHealth,
    stopGraceMs: 20_000,
  });
}

interface Registration {
  readonly clientConfig: { readonly service?: { readonly path?: string } };
}

function callByAddress(manifest: Manifest, port: number, caBundle: string): Manifest {
  const webhooks = (manifest["webhooks"] as readonly Registration[]).map((webhook) => ({
    ...webhook,
    clientConfig: {
      url: `https://${loopback}:${port}${webhook.clientConfig.service?.path ?? "/"}`,
      caBundle,
    },
  }));
  return { ...manifest, webhooks };
}
