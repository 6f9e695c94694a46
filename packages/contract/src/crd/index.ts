/**
 * The CustomResourceDefinitions of the product, made from the same schemas that the programs read objects with.
 * `scripts/generate.ts` writes them to `deploy/crds/`; `cocoonctl up` applies these very objects.
 */
import { cocoonSetSchema } from "../cocoonset.ts";
import { cocoonHibernationSchema } from "../hibernation.ts";
import { apiGroup, legacyApiGroup } from "../keys.ts";
import { snapshotGrantSchema } from "../snapshot-grant.ts";
import { legacyCocoonSetSchema } from "../legacy/cocoonset.ts";
import { legacyHibernationSchema } from "../legacy/hibernation.ts";
import {
  ageColumn,
  customResourceDefinition,
  type CustomResourceDefinition,
  type ResourceDefinition,
} from "./definition.ts";

export type { CustomResourceDefinition, PrinterColumn } from "./definition.ts";
export { structuralSchema, type StructuralSchema } from "./structural-schema.ts";

const cocoonSets: ResourceDefinition = {
  group: apiGroup,
  version: "v1",
  kind: "CocoonSet",
  plural: "cocoonsets",
  singular: "cocoonset",
  // `cs` is upstream's, but kubectl takes it for componentstatuses.
  shortNames: ["cs", "cocoonsets", "cset"],
  categories: ["cocoon"],
  columns: [
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Ready", type: "integer", jsonPath: ".status.readyAgents" },
    { name: "Desired", type: "integer", jsonPath: ".status.desiredAgents" },
    ageColumn,
    { name: "Toolboxes", type: "integer", jsonPath: ".status.readyToolboxes", priority: 1 },
    { name: "Asleep", type: "integer", jsonPath: ".status.hibernatedMachines", priority: 1 },
    { name: "Suspend", type: "boolean", jsonPath: ".spec.suspend", priority: 1 },
    { name: "Pool", type: "string", jsonPath: ".spec.nodePool", priority: 1 },
    { name: "Node", type: "string", jsonPath: ".status.agents[?(@.slot==0)].nodeName", priority: 1 },
  ],
  scale: {
    specReplicasPath: ".spec.agent.replicas",
    statusReplicasPath: ".status.subAgents",
    labelSelectorPath: ".status.selector",
  },
  schema: cocoonSetSchema,
};

const cocoonHibernations: ResourceDefinition = {
  group: apiGroup,
  version: "v1",
  kind: "CocoonHibernation",
  plural: "cocoonhibernations",
  singular: "cocoonhibernation",
  shortNames: ["ch", "cocoonhibernations"],
  categories: ["cocoon"],
  columns: [
    { name: "Pod", type: "string", jsonPath: ".spec.podRef.name" },
    { name: "Desire", type: "string", jsonPath: ".spec.desire" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    ageColumn,
    { name: "VM", type: "string", jsonPath: ".status.vmName", priority: 1 },
    {
      name: "Message",
      type: "string",
      jsonPath: ".status.conditions[?(@.type=='Ready')].message",
      priority: 1,
    },
  ],
  schema: cocoonHibernationSchema,
};

const snapshotGrants: ResourceDefinition = {
  group: apiGroup,
  version: "v1",
  kind: "CocoonSnapshotGrant",
  plural: "cocoonsnapshotgrants",
  singular: "cocoonsnapshotgrant",
  shortNames: ["csg"],
  categories: ["cocoon"],
  columns: [ageColumn],
  schema: snapshotGrantSchema,
};

const legacyCocoonSets: ResourceDefinition = {
  group: legacyApiGroup,
  version: "v1alpha1",
  kind: "CocoonSet",
  plural: "cocoonsets",
  singular: "cocoonset",
  shortNames: ["cs"],
  categories: [],
  columns: [
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "Ready", type: "integer", jsonPath: ".status.readyAgents" },
    { name: "Desired", type: "integer", jsonPath: ".status.desiredAgents" },
    ageColumn,
  ],
  schema: legacyCocoonSetSchema,
};

const legacyHibernations: ResourceDefinition = {
  group: legacyApiGroup,
  version: "v1alpha1",
  kind: "Hibernation",
  plural: "hibernations",
  singular: "hibernation",
  shortNames: ["hib"],
  categories: [],
  columns: [
    { name: "Pod", type: "string", jsonPath: ".spec.podName" },
    { name: "Action", type: "string", jsonPath: ".spec.action" },
    { name: "Phase", type: "string", jsonPath: ".status.phase" },
    { name: "VM", type: "string", jsonPath: ".status.vmName", priority: 1 },
    ageColumn,
  ],
  schema: legacyHibernationSchema,
};

export function customResourceDefinitions(): readonly CustomResourceDefinition[] {
  return [cocoonSets, cocoonHibernations, snapshotGrants].map(customResourceDefinition);
}

/** Installed only on request: with both groups present, `kubectl get cocoonsets` means this one. */
export function legacyCustomResourceDefinitions(): readonly CustomResourceDefinition[] {
  return [legacyHibernations, legacyCocoonSets].map(customResourceDefinition);
}
