/** deploy/colocation/: the installation of the colocation webhooks, from the program's own tables. */
import { colocationManifests } from "@cocoon/colocation";
import { documents } from "./documents.ts";
import type { Generator } from "./generator.ts";

const image = "ghcr.io/cocoonstack/cocoon";

export const colocationInstallation: Generator = {
  name: "colocation manifests",
  owns: ["deploy/colocation/*.yaml"],
  generate: () => {
    const files = Object.entries(colocationManifests());
    return [
      ...files.map(([file, manifests]) => ({
        path: `deploy/colocation/${file}`,
        content: generated(manifests.map((manifest) => inOneImage(manifest) as object)),
      })),
      {
        path: "deploy/colocation/kustomization.yaml",
        content: generated([
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

/** The program's tables name an image of its own; releases have one image with all programs. */
function inOneImage(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOneImage);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).flatMap(([key, inner]: [string, unknown]): [string, unknown][] =>
    key === "image" && typeof inner === "string"
      ? [
          ["image", `${image}:latest`],
          ["imagePullPolicy", "IfNotPresent"],
          ["command", ["cocoon-colocation"]],
        ]
      : [[key, inOneImage(inner)]],
  );
  return Object.fromEntries(fields);
}

function generated(objects: readonly object[]): string {
  return `# Generated from packages/colocation by npm run generate. Do not edit.\n${documents(objects)}`;
}
