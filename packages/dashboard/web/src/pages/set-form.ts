/** The fields of the form, the object that they make, and that object as YAML. */
import { texts } from "../texts.ts";

export interface SetForm {
  readonly name: string;
  readonly namespace: string;
  readonly image: string;
  readonly cpu: string;
  readonly memory: string;
  readonly storage: string;
  readonly replicas: string;
  readonly snapshotPolicy: string;
  readonly connType: string;
}

export const emptyForm: SetForm = {
  name: "",
  namespace: "default",
  image: "cocoon-demo",
  cpu: "1",
  memory: "256Mi",
  storage: "",
  replicas: "0",
  snapshotPolicy: "always",
  connType: "",
};

interface FormField {
  readonly key: keyof SetForm;
  readonly label: string;
  /** Where the API server reports problems of it. */
  readonly field: string;
  readonly choices?: readonly string[];
  /** What choices are called, where that is not their value. */
  readonly names?: Readonly<Record<string, string>>;
}

export const formFields: readonly FormField[] = [
  { key: "name", label: texts.create.name, field: "metadata.name" },
  { key: "namespace", label: texts.create.namespace, field: "metadata.namespace" },
  { key: "image", label: texts.create.image, field: "spec.agent.image" },
  { key: "cpu", label: texts.create.cpu, field: "spec.agent.resources.requests.cpu" },
  { key: "memory", label: texts.create.memory, field: "spec.agent.resources.requests.memory" },
  { key: "storage", label: texts.create.storage, field: "spec.agent.storage" },
  { key: "replicas", label: texts.create.replicas, field: "spec.agent.replicas" },
  {
    key: "snapshotPolicy",
    label: texts.create.snapshotPolicy,
    field: "spec.snapshotPolicy",
    choices: ["always", "main-only", "never"],
  },
  {
    key: "connType",
    label: texts.create.connType,
    field: "spec.agent.connType",
    choices: ["", "ssh", "vnc", "rdp", "adb"],
    names: texts.create.connTypes,
  },
];

type Json = string | number | boolean | { readonly [key: string]: Json };

export function buildSet(form: SetForm): { readonly [key: string]: Json } {
  const resources = {
    ...(form.cpu ? { cpu: form.cpu } : {}),
    ...(form.memory ? { memory: form.memory } : {}),
  };
  const replicas = Number(form.replicas);
  return {
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { name: form.name, namespace: form.namespace },
    spec: {
      snapshotPolicy: form.snapshotPolicy,
      agent: {
        image: form.image,
        // What is no number goes as it is: the API server says what is wrong with it.
        replicas: Number.isInteger(replicas) && form.replicas !== "" ? replicas : form.replicas,
        ...(form.connType ? { connType: form.connType } : {}),
        ...(form.storage ? { storage: form.storage } : {}),
        ...(Object.keys(resources).length > 0 ? { resources: { requests: resources } } : {}),
      },
    },
  };
}

/** Texts are quoted as JSON, which YAML reads alike. */
export function toYaml(value: Json, indent = ""): string {
  if (typeof value !== "object") return `${JSON.stringify(value)}\n`;
  return Object.entries(value)
    .map(([key, each]) =>
      typeof each === "object"
        ? `${indent}${key}:\n${toYaml(each, `${indent}  `)}`
        : `${indent}${key}: ${toYaml(each)}`,
    )
    .join("");
}
