/** docs/contract.md: every label, annotation, taint and finalizer with its writer and readers. */
import type { Generator } from "./generator.ts";
import { keyTable, type KeyEntry } from "./key-table.ts";

export const metadataReference: Generator = {
  name: "metadata reference",
  owns: ["docs/contract.md"],
  generate: () => [{ path: "docs/contract.md", content: page(keyTable()) }],
};

const intro = `<!-- Generated from packages/contract by npm run generate. Do not edit. -->
# Metadata keys

Every label, annotation, taint and finalizer that parts of Cocoon exchange through the API server. A flag is the text
\`true\` or absent; any other text reads as false. "Operator" is cocoon-operator, "kubelet" is vk-cocoon, "webhook" is
cocoon-webhook, "bridge" is the part of the operator that serves the older API.
`;

const headings: Readonly<Record<KeyEntry["on"], string>> = {
  pod: "Pods",
  node: "Nodes",
  CocoonSet: "CocoonSets",
  CocoonHibernation: "CocoonHibernations",
  workload: "Deployments, StatefulSets and ReplicaSets",
  ConfigMap: "ConfigMaps of the webhook",
  Secret: "Secrets of the gateway",
};

function page(entries: readonly KeyEntry[]): string {
  const groups = Map.groupBy(entries, (entry) => headings[entry.on]);
  const sections = [...groups].map(([title, rows]) => `\n## ${title}\n\n${table(rows)}`);
  return `${intro}${sections.join("")}`;
}

function table(rows: readonly KeyEntry[]): string {
  const lines = rows.map(
    ({ key, as, writer, reader, meaning }) => `| \`${key}\` | ${as} | ${writer} | ${reader} | ${meaning} |\n`,
  );
  return `| Key | Is a | Written by | Read by | Meaning |\n|---|---|---|---|---|\n${lines.join("")}`;
}
