/** The CustomResourceDefinitions, from the schemas that the programs read objects with; also written to `deploy/crds/`. */
import type { Frozen } from "@cocoon/core/frozen";
import type * as apiextensions from "kubernetes-types/apiextensions/v1.d.ts";
import {
  sandboxClaimSchema,
  sandboxTemplateSchema,
  sandboxWarmPoolSchema,
} from "../agent-sandbox/extensions.ts";
import {
  podSnapshotGroup,
  sandboxExtensionsGroup,
  sandboxGroup,
  sandboxVersion,
} from "../agent-sandbox/keys.ts";
import { podSnapshotSchema, podSnapshotTriggerSchema } from "../agent-sandbox/pod-snapshot.ts";
import { sandboxSchema } from "../agent-sandbox/sandbox.ts";
import { cocoonSetSchema } from "../cocoonset.ts";
import { cocoonHibernationSchema } from "../hibernation.ts";
import { apiGroup, legacyApiGroup } from "../keys.ts";
import { snapshotGrantSchema } from "../snapshot-grant.ts";
import { legacyCocoonSetSchema } from "../legacy/cocoonset.ts";
import { legacyHibernationSchema } from "../legacy/hibernation.ts";
import type * as z from "zod";
import { structuralSchema, type StructuralSchema } from "./structural-schema.ts";

export { structuralSchema, type StructuralSchema } from "./structural-schema.ts";

type PrinterColumn = Frozen<apiextensions.CustomResourceColumnDefinition>;

interface ResourceDefinition {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural?: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly columns: readonly PrinterColumn[];
  readonly scale?: Frozen<apiextensions.CustomResourceSubresourceScale>;
  readonly schema: z.ZodType;
  /** False: the kind has no status. */
  readonly status?: false;
}

export interface CustomResourceDefinition {
  readonly apiVersion: "apiextensions.k8s.io/v1";
  readonly kind: "CustomResourceDefinition";
  readonly metadata: { readonly name: string };
  readonly spec: Readonly<Record<string, unknown>> & {
    readonly versions: readonly (Readonly<Record<string, unknown>> & {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: StructuralSchema };
    })[];
  };
}

const column = (
  name: string,
  jsonPath: string,
  type: "string" | "integer" | "boolean" | "date" = "string",
): PrinterColumn => ({ name, type, jsonPath });
/** Shown by `kubectl get -o wide` only. */
const wide = (...given: Parameters<typeof column>): PrinterColumn => ({ ...column(...given), priority: 1 });

const ageColumn = column("Age", ".metadata.creationTimestamp", "date");

const cocoonSets: ResourceDefinition = {
  group: apiGroup,
  version: "v1",
  kind: "CocoonSet",
  // `cs` is upstream's, but kubectl takes it for componentstatuses.
  shortNames: ["cs", "cocoonsets", "cset"],
  categories: ["cocoon"],
  columns: [
    column("Phase", ".status.phase"),
    column("Ready", ".status.readyAgents", "integer"),
    column("Desired", ".status.desiredAgents", "integer"),
    ageColumn,
    wide("Toolboxes", ".status.readyToolboxes", "integer"),
    wide("Asleep", ".status.hibernatedMachines", "integer"),
    wide("Suspend", ".spec.suspend", "boolean"),
    wide("Pool", ".spec.nodePool"),
    wide("Node", ".status.agents[?(@.slot==0)].nodeName"),
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
  shortNames: ["ch", "cocoonhibernations"],
  categories: ["cocoon"],
  columns: [
    column("Pod", ".spec.podRef.name"),
    column("Desire", ".spec.desire"),
    column("Phase", ".status.phase"),
    ageColumn,
    wide("VM", ".status.vmName"),
    wide("Message", ".status.conditions[?(@.type=='Ready')].message"),
  ],
  schema: cocoonHibernationSchema,
};

const snapshotGrants: ResourceDefinition = {
  group: apiGroup,
  version: "v1",
  kind: "CocoonSnapshotGrant",
  shortNames: ["csg"],
  categories: ["cocoon"],
  columns: [ageColumn],
  schema: snapshotGrantSchema,
};

const legacyCocoonSets: ResourceDefinition = {
  group: legacyApiGroup,
  version: "v1alpha1",
  kind: "CocoonSet",
  shortNames: ["cs"],
  categories: [],
  columns: [
    column("Phase", ".status.phase"),
    column("Ready", ".status.readyAgents", "integer"),
    column("Desired", ".status.desiredAgents", "integer"),
    ageColumn,
  ],
  schema: legacyCocoonSetSchema,
};

const legacyHibernations: ResourceDefinition = {
  group: legacyApiGroup,
  version: "v1alpha1",
  kind: "Hibernation",
  shortNames: ["hib"],
  categories: [],
  columns: [
    column("Pod", ".spec.podName"),
    column("Action", ".spec.action"),
    column("Phase", ".status.phase"),
    wide("VM", ".status.vmName"),
    ageColumn,
  ],
  schema: legacyHibernationSchema,
};

const readyStatus = column("Ready", ".status.conditions[?(@.type=='Ready')].status");
const readyReason = column("Reason", ".status.conditions[?(@.type=='Ready')].reason");

const sandboxes: ResourceDefinition = {
  group: sandboxGroup,
  version: sandboxVersion,
  kind: "Sandbox",
  plural: "sandboxes",
  shortNames: ["sandbox"],
  categories: [],
  columns: [readyStatus, readyReason, ageColumn],
  schema: sandboxSchema,
};

const sandboxClaims: ResourceDefinition = {
  group: sandboxExtensionsGroup,
  version: sandboxVersion,
  kind: "SandboxClaim",
  shortNames: ["sandboxclaim"],
  categories: [],
  columns: [readyStatus, column("Sandbox", ".status.sandbox.name"), readyReason, ageColumn],
  schema: sandboxClaimSchema,
};

const sandboxTemplates: ResourceDefinition = {
  group: sandboxExtensionsGroup,
  version: sandboxVersion,
  kind: "SandboxTemplate",
  shortNames: ["sandboxtemplate"],
  categories: [],
  columns: [],
  status: false,
  schema: sandboxTemplateSchema,
};

const sandboxWarmPools: ResourceDefinition = {
  group: sandboxExtensionsGroup,
  version: sandboxVersion,
  kind: "SandboxWarmPool",
  shortNames: ["swp"],
  categories: [],
  columns: [
    column("Ready", ".status.readyReplicas", "integer"),
    column("Desired", ".spec.replicas", "integer"),
    ageColumn,
  ],
  scale: {
    specReplicasPath: ".spec.replicas",
    statusReplicasPath: ".status.replicas",
    labelSelectorPath: ".status.selector",
  },
  schema: sandboxWarmPoolSchema,
};

const podSnapshots: ResourceDefinition = {
  group: podSnapshotGroup,
  version: "v1",
  kind: "PodSnapshot",
  shortNames: [],
  categories: [],
  columns: [readyStatus, ageColumn],
  schema: podSnapshotSchema,
};

const podSnapshotTriggers: ResourceDefinition = {
  group: podSnapshotGroup,
  version: "v1",
  kind: "PodSnapshotManualTrigger",
  shortNames: [],
  categories: [],
  columns: [column("Pod", ".spec.targetPod"), ageColumn],
  schema: podSnapshotTriggerSchema,
};

export function customResourceDefinitions(): readonly CustomResourceDefinition[] {
  return [cocoonSets, cocoonHibernations, snapshotGrants].map(buildDefinition);
}

/** Installed only on request, and only where no other controller serves them. */
export function sandboxCustomResourceDefinitions(): readonly CustomResourceDefinition[] {
  return [sandboxes, sandboxClaims, sandboxTemplates, sandboxWarmPools].map(buildDefinition);
}

/** Installed with those of agent-sandbox, where no other controller serves them. */
export function podSnapshotCustomResourceDefinitions(): readonly CustomResourceDefinition[] {
  return [podSnapshots, podSnapshotTriggers].map(buildDefinition);
}

/** Installed only on request: with both groups present, `kubectl get cocoonsets` means this one. */
export function legacyCustomResourceDefinitions(): readonly CustomResourceDefinition[] {
  return [legacyHibernations, legacyCocoonSets].map(buildDefinition);
}

function buildDefinition(definition: ResourceDefinition): CustomResourceDefinition {
  const { group, version, kind, shortNames, categories, columns, scale } = definition;
  const singular = kind.toLowerCase();
  const plural = definition.plural ?? `${singular}s`;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular,
        ...(shortNames.length === 0 ? {} : { shortNames }),
        ...(categories.length === 0 ? {} : { categories }),
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          ...(definition.status === false
            ? {}
            : { subresources: { status: {}, ...(scale === undefined ? {} : { scale }) } }),
          ...(columns.length === 0 ? {} : { additionalPrinterColumns: columns }),
          schema: { openAPIV3Schema: rootSchema(definition.schema) },
        },
      ],
    },
  };
}

function rootSchema(schema: z.ZodType): StructuralSchema {
  const { properties, ...root } = structuralSchema(schema);
  return {
    ...root,
    properties: {
      apiVersion: { description: "Version of the API that this object is written in.", type: "string" },
      kind: { description: "Kind of this object.", type: "string" },
      metadata: { type: "object" }, // the API server fills in the rest and allows no description
      ...properties,
    },
  };
}
