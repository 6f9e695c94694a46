/** The kinds that the rules read, as CustomResourceDefinitions. Shapes are Koordinator's; the words are ours. */
import { elasticQuotaProfiles, elasticQuotas, profiles, reservations } from "../kinds.ts";
import type { KubeObject, ResourceType } from "@cocoon/kube";
import {
  anything,
  bool,
  choice,
  conditions,
  integer,
  intOrText,
  labelSelector,
  list,
  object,
  objectReference,
  resources,
  text,
  texts,
  time,
  type Schema,
} from "./schema.ts";

interface Column {
  readonly name: string;
  readonly type: string;
  readonly jsonPath: string;
}

interface Definition {
  readonly type: ResourceType<KubeObject>;
  readonly shortNames: readonly string[];
  readonly columns: readonly Column[];
  readonly hasStatus: boolean;
  readonly description: string;
  readonly properties: Readonly<Record<string, Schema>>;
}

const column = (name: string, jsonPath: string, type = "string"): Column => ({ name, type, jsonPath });
const age = column("Age", ".metadata.creationTimestamp", "date");

const profileSpec = object("What is selected, and what is done to it.", {
  namespaceSelector: labelSelector("Namespaces whose pods are meant, by label; absent or empty: all."),
  selector: labelSelector("Pods and Reservations that are meant, by label; absent or empty: all."),
  probability: intOrText("Percentage of the selected pods that are changed, such as 30 or 30%; default 100."),
  labels: texts("Labels that are set, over what is there."),
  annotations: texts("Annotations that are set, over what is there."),
  labelKeysMapping: texts("Old label to new label: the new one gets the value of the old one."),
  annotationKeysMapping: texts(
    "Old annotation to new annotation: the new one gets the value of the old one.",
  ),
  labelSuffixes: texts("Label to text that is put behind its value, where the label exists."),
  schedulerName: text("Scheduler of the pods."),
  qosClass: choice("QoS class of the pods.", ["LSE", "LSR", "LS", "BE", "SYSTEM"]),
  priorityClassName: text("PriorityClass of the pods; it must exist."),
  koordinatorPriority: integer("Priority of the pods within their class."),
  patch: anything("Strategic merge patch of the whole pod."),
});

const quotaDefinition: Definition = {
  type: elasticQuotas,
  shortNames: ["eq", "eqs"],
  columns: [
    column("Parent", ".metadata.labels['quota\\.scheduling\\.koordinator\\.sh/parent']"),
    column("Used", ".status.used"),
    column("Min", ".spec.min"),
    column("Max", ".spec.max"),
    age,
  ],
  hasStatus: true,
  description: "What a group of pods is guaranteed and may have at most.",
  properties: {
    spec: object("What the group is given.", {
      min: resources("What the group can count on."),
      max: resources("What the group can have at most."),
    }),
    status: object("What the group has.", { used: resources("What the pods of the group use.") }),
  },
};

const profileDefinition: Definition = {
  type: profiles,
  shortNames: ["ccp"],
  columns: [
    column("QoS", ".spec.qosClass"),
    column("PriorityClass", ".spec.priorityClassName"),
    column("Scheduler", ".spec.schedulerName"),
    age,
  ],
  hasStatus: true,
  description: "How pods that it selects are turned into colocated pods.",
  properties: { spec: profileSpec, status: object("Nothing is reported yet.", {}) },
};

const quotaProfileDefinition: Definition = {
  type: elasticQuotaProfiles,
  shortNames: ["eqp"],
  columns: [column("Quota", ".spec.quotaName"), age],
  hasStatus: true,
  description: "A tree of quotas for the nodes that it selects.",
  properties: {
    spec: object(
      "Which nodes the tree has, and its root.",
      {
        quotaName: text("ElasticQuota that is the root of the tree."),
        quotaLabels: texts("Labels that the root is given."),
        resourceRatio: text("Share of the nodes' resources that the root is given, such as 0.9."),
        nodeSelector: labelSelector("Nodes of the tree, by label."),
      },
      { required: ["quotaName"] },
    ),
    status: object("Nothing is reported yet.", {}),
  },
};

const owner = object("Who may use the reservation; all that is given must hold.", {
  object: objectReference("A pod by name."),
  controller: object("Pods of a controller.", {
    apiVersion: text("API version of the controller."),
    kind: text("Kind of the controller."),
    name: text("Name of the controller."),
    uid: text("Identity of the controller."),
    controller: bool("Whether it must be the managing one."),
    blockOwnerDeletion: bool("As in owner references; not used."),
    namespace: text("Namespace of the controller."),
  }),
  labelSelector: labelSelector("Pods by label."),
});

const reservationSpec = object(
  "What is reserved, for whom and for how long.",
  {
    template: anything("Pod template: what is reserved and where, as if such a pod were to run."),
    owners: list("Who may use it.", owner, { minItems: 1 }),
    ttl: text("How long it lasts, such as 24h; 0 for ever.", { default: "24h" }),
    expires: time("When it ends; wins over ttl."),
    preAllocation: bool("Whether it may be placed on what is still in use."),
    preAllocationPolicy: object("How it is placed on what is still in use.", {
      mode: choice("Which pods are looked at.", ["Default", "Cluster"]),
      enableMultiple: bool("Whether several pods may be taken together."),
    }),
    allocateOnce: bool("Whether one pod uses it up.", { default: true }),
    allocatePolicy: choice("How pods share it.", ["Aligned", "Restricted"]),
    unschedulable: bool("Whether no new pod may use it."),
    taints: list(
      "Taints that pods must tolerate to use it.",
      object(
        "One taint.",
        {
          key: text("Key of the taint."),
          value: text("Value of the taint."),
          effect: text("What happens to pods that do not tolerate it."),
          timeAdded: time("When it was added."),
        },
        { required: ["key", "effect"] },
      ),
    ),
  },
  { required: ["owners", "template"] },
);

const reservationDefinition: Definition = {
  type: reservations,
  shortNames: ["rsv"],
  columns: [
    column("Phase", ".status.phase"),
    age,
    column("Node", ".status.nodeName"),
    column("TTL", ".spec.ttl"),
    column("Expires", ".spec.expires"),
  ],
  hasStatus: true,
  description: "Resources that are kept free for pods to come.",
  properties: {
    spec: reservationSpec,
    status: object("What became of it.", {
      phase: text("Pending, Available, Waiting, Succeeded or Failed."),
      nodeName: text("Node that it is on."),
      conditions: conditions("What was found out about it."),
      currentOwners: list("Pods that use it.", objectReference("A pod.")),
      allocatable: resources("What there is to use."),
      allocated: resources("What is used."),
    }),
  },
};

export const ownerLabels = { "app.kubernetes.io/managed-by": "cocoon-colocation" } as const;

export function colocationCustomResources(): readonly CustomResource[] {
  return [profileDefinition, quotaDefinition, quotaProfileDefinition, reservationDefinition].map(
    customResource,
  );
}

export interface CustomResource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly spec: Readonly<Record<string, unknown>>;
}

function customResource(definition: Definition): CustomResource {
  const { group, version, kind, plural, namespaced } = definition.type;
  const approval = group.endsWith("k8s.io")
    ? {
        annotations: {
          "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/52",
        },
      }
    : {};
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}`, labels: ownerLabels, ...approval },
    spec: {
      group,
      scope: namespaced ? "Namespaced" : "Cluster",
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames: definition.shortNames,
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          ...(definition.hasStatus ? { subresources: { status: {} } } : {}),
          additionalPrinterColumns: definition.columns,
          schema: {
            openAPIV3Schema: {
              type: "object",
              description: definition.description,
              properties: {
                apiVersion: text("Version of the API that this object is written in."),
                kind: text("Kind of this object."),
                metadata: { type: "object" },
                ...definition.properties,
              },
            },
          },
        },
      ],
    },
  };
}
