/** deploy/crds/: the CustomResourceDefinitions, from the schemas of the contract. */
import {
  customResourceDefinitions,
  legacyCustomResourceDefinitions,
  podSnapshotCustomResourceDefinitions,
  sandboxCustomResourceDefinitions,
  type CustomResourceDefinition,
} from "@cocoon/contract/crd";
import { stringify } from "yaml";
import { yamlStyle } from "./documents.ts";
import type { Generator } from "./generator.ts";

export const crds: Generator = {
  name: "custom resource definitions",
  owns: [
    "deploy/crds/*.yaml",
    "deploy/agent-sandbox/*-crds.yaml",
    "deploy/crd.yaml",
    "deploy/cocoonset-crd.yaml",
  ],
  generate: () => {
    const [legacyHibernations, legacyCocoonSets] = legacyCustomResourceDefinitions();
    return [
      ...customResourceDefinitions().map((definition) => ({
        path: `deploy/crds/${fileName(definition)}`,
        content: document([definition]),
      })),
      {
        path: "deploy/agent-sandbox/sandbox-crds.yaml",
        content: document(sandboxCustomResourceDefinitions()),
      },
      {
        path: "deploy/agent-sandbox/pod-snapshot-crds.yaml",
        content: document(podSnapshotCustomResourceDefinitions()),
      },
      // The names that the older documentation tells people to apply.
      { path: "deploy/crd.yaml", content: document([legacyHibernations, legacyCocoonSets]) },
      { path: "deploy/cocoonset-crd.yaml", content: document([legacyCocoonSets]) },
    ];
  },
};

/** `group_plural.yaml`, as the tools of the trade name them. */
function fileName({ metadata }: CustomResourceDefinition): string {
  const [plural = "", ...group] = metadata.name.split(".");
  return `${group.join(".")}_${plural}.yaml`;
}

function document(definitions: readonly (CustomResourceDefinition | undefined)[]): string {
  const texts = definitions.map((definition) => stringify(definition, yamlStyle));
  return `# Generated from packages/contract by npm run generate. Do not edit.\n${texts.join("---\n")}`;
}
