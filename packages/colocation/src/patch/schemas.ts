/** Which lists of pods and Reservations merge, and by which key: the patch tags of the Kubernetes API. */
import type { MergeSchema } from "./strategic-merge.ts";

const metadata: MergeSchema = { lists: { ownerReferences: { mergeKey: "uid" }, finalizers: {} } };

const container: MergeSchema = {
  lists: {
    ports: { mergeKey: "containerPort" },
    env: { mergeKey: "name" },
    volumeMounts: { mergeKey: "mountPath" },
    volumeDevices: { mergeKey: "devicePath" },
  },
};

const containers = { mergeKey: "name", of: container };

const podSpec: MergeSchema = {
  lists: {
    volumes: {
      mergeKey: "name",
      of: { objects: { ephemeral: { objects: { volumeClaimTemplate: { objects: { metadata } } } } } },
    },
    containers,
    initContainers: containers,
    ephemeralContainers: containers,
    imagePullSecrets: { mergeKey: "name" },
    hostAliases: { mergeKey: "ip" },
    topologySpreadConstraints: { mergeKey: "topologyKey" },
    schedulingGates: { mergeKey: "name" },
    resourceClaims: { mergeKey: "name" },
  },
};

const podStatus: MergeSchema = {
  lists: {
    conditions: { mergeKey: "type" },
    hostIPs: { mergeKey: "ip" },
    podIPs: { mergeKey: "ip" },
    resourceClaimStatuses: { mergeKey: "name" },
  },
};

export const podTemplateSchema: MergeSchema = { objects: { metadata, spec: podSpec } };
export const podSchema: MergeSchema = { objects: { metadata, spec: podSpec, status: podStatus } };
export const reservationSchema: MergeSchema = {
  objects: { metadata, spec: { objects: { template: podTemplateSchema } } },
};
