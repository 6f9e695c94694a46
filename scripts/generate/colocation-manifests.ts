/** deploy/colocation/: the installation of the colocation webhooks, from the program's own tables. */
import { colocationManifests } from "@cocoon/colocation";
import { stringify } from "yaml";
import type { Generator } from "./generator.ts";

export const colocationInstallation: Generator = {
  name: "colocation manifests",
  owns: ["deploy/colocation/*.yaml"],
  generate: () => {
    const files = Object.entries(colocationManifests());
    return [
      ...files.map(([file, manifests]) => ({
        path: `deploy/colocation/${file}`,
        content: document(manifests),
      })),
      {
        path: "deploy/colocation/kustomization.yaml",
        content: document([
          {
            apiVersion: "kustomize.config.k8s.io/v1beta1",
            kind: "Kustomization",
            resources: files.map(([file]) => file).toSorted(),
          },
        ]),
      },
    ];
  },
};

function document(objects: readonly object[]): string {
  const texts = objects.map((each) => stringify(each, { lineWidth: 110, aliasDuplicateObjects: false }));
  return `# Generated from packages/colocation by npm run generate. Do not edit.\n${texts.join("---\n")}`;
}
