/** The variables of the process that decide which cluster is meant: the only place here that reads them. */
import { homedir } from "node:os";
import { join } from "node:path";
import * as z from "zod";

export interface KubeEnvironment {
  readonly kubeconfig?: string | undefined;
  readonly homeKubeconfig: string;
  readonly serviceHost?: string | undefined;
  readonly servicePort?: string | undefined;
  readonly serviceAccountDirectory: string;
}

export function readKubeEnvironment(): KubeEnvironment {
  return {
    kubeconfig: process.env["KUBECONFIG"] || undefined,
    homeKubeconfig: join(homedir(), ".kube", "config"),
    serviceHost: process.env["KUBERNETES_SERVICE_HOST"] || undefined,
    servicePort: process.env["KUBERNETES_SERVICE_PORT"] || undefined,
    serviceAccountDirectory: "/var/run/secrets/kubernetes.io/serviceaccount",
  };
}

export const kubeClientOptions = {
  kubeconfig: {
    schema: z.string().min(1).optional(),
    description: "kubeconfig file, or several separated by ':'; default ~/.kube/config, then in-cluster",
    env: ["KUBECONFIG"],
  },
  context: {
    schema: z.string().min(1).optional(),
    description: "context of the kubeconfig; default its current-context",
  },
} as const;
