/**
 * Everything that one cluster keeps, drawn once:
 *
 *   <dir>/
 *     cluster.json    ports, versions, settings: kept across down and up
 *     kubeconfig      administrator
 *     pki/            see pki/cluster-pki.ts
 *     kubeconfigs/    of the components
 *     etcd/           the data
 *     run/  logs/     see components/
 *     audit/          policy and log, when enabled
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { tryReadJson, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";

const portNames = ["etcd", "etcdPeer", "apiserver", "controllerManager", "scheduler"] as const;
export type PortName = (typeof portNames)[number];
export type ClusterPorts = Readonly<Record<PortName, number>>;

/** Settings of `up`; later commands and the next `up` keep them. */
const settingsSchema = z.object({
  durable: z.boolean().default(true),
  controllers: z.boolean().default(true),
  aggregation: z.boolean().default(false),
  auditLog: z.boolean().default(false),
  /** Where pods reach the API server; empty where they have no way to it. */
  advertiseAddress: z.union([z.literal(""), z.ipv4()]).default(""),
});
export type ControlPlaneSettings = Readonly<z.infer<typeof settingsSchema>>;
export const defaultSettings: ControlPlaneSettings = settingsSchema.parse({});

const clusterSchema = z.object({
  version: z.literal(1),
  kubernetes: z.string(),
  settings: settingsSchema.default(defaultSettings),
  ports: z.object(
    Object.fromEntries(portNames.map((name) => [name, z.int().min(1).max(65_535)])) as Record<
      PortName,
      z.ZodInt
    >,
  ),
});
export type ClusterState = Readonly<z.infer<typeof clusterSchema>>;

export interface ClusterLayout {
  readonly directory: string;
  readonly state: string;
  readonly kubeconfig: string;
  readonly pki: string;
  readonly kubeconfigs: string;
  readonly etcd: string;
  readonly audit: string;
}

export function clusterLayout(directory: string): ClusterLayout {
  const at = (name: string) => join(directory, name);
  return {
    directory,
    state: at("cluster.json"),
    kubeconfig: at("kubeconfig"),
    pki: at("pki"),
    kubeconfigs: at("kubeconfigs"),
    etcd: at("etcd"),
    audit: at("audit"),
  };
}

export const damagedStateFix = "remove that one file and run the command again (ports are then chosen anew)";

export function readClusterState(layout: ClusterLayout): Promise<ClusterState | undefined> {
  return tryReadJson(layout.state, clusterSchema, damagedStateFix);
}

export async function writeClusterState(layout: ClusterLayout, state: ClusterState): Promise<void> {
  await mkdir(layout.directory, { recursive: true, mode: 0o700 });
  await writeFileAtomically(layout.state, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
}
