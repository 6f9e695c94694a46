/** The admission webhook. The API server of this machine calls it by address instead of by a Service. */
import { readFile } from "node:fs/promises";
import type { Component } from "@cocoon/controlplane";
import { applyManifests, readManifests, type Manifest } from "./apply.ts";
import { account, partKubeconfig } from "./identity.ts";
import {
  loopback,
  programArguments,
  programEnvironment,
  registryAccess,
  sourceFile,
  type PartContext,
} from "./part.ts";
import { probeHealth } from "./probe-health.ts";

export function webhookPart(context: PartContext): Component {
  const { ports, pki } = context;
  const registry = registryAccess(context);
  const { certificate, key } = pki.leaf.components;
  return {
    name: "webhook",
    summary: "gives machines their names and nodes, checks what is asked for",
    needs: ["kube-apiserver", "registry", "operator"], // the operator's definitions are what it watches
    command: process.execPath,
    args: programArguments("webhook"),
    env: {
      ...programEnvironment(context),
      KUBECONFIG: partKubeconfig(context, account.webhook),
      LISTEN_ADDR: `${loopback}:${ports.webhook}`,
      METRICS_ADDR: `${loopback}:${ports.webhookHealth}`,
      TLS_CERT: certificate,
      TLS_KEY: key,
      ...registry.env,
    },
    ...(registry.secrets ? { secrets: registry.secrets } : {}),
    prepare: async (options) => {
      const [rights, webhooks] = ["rbac", "webhooks"].map((name) =>
        sourceFile("deploy", "webhook", "base", `${name}.yaml`),
      ) as [string, string];
      const authority = (await readFile(pki.ca.certificate)).toString("base64");
      const registered = (await readManifests(webhooks)).map((each) =>
        calledByAddress(each, ports.webhook, authority),
      );
      await applyManifests(context, [...(await readManifests(rights)), ...registered], options);
    },
    probe: (options) => probeHealth(ports.webhookHealth, options),
    stopGraceMs: 20_000,
  };
}

interface Registration {
  readonly clientConfig: { readonly service?: { readonly path?: string } };
}

function calledByAddress(manifest: Manifest, port: number, caBundle: string): Manifest {
  const webhooks = (manifest["webhooks"] as readonly Registration[]).map((webhook) => ({
    ...webhook,
    clientConfig: {
      url: `https://${loopback}:${port}${webhook.clientConfig.service?.path ?? "/"}`,
      caBundle,
    },
  }));
  return { ...manifest, webhooks };
}
