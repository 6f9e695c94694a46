/**
 * Exchanges the mounted layers of a running guest's disks for their local files. The guest notices nothing: format nodes stay,
 * the files below them change. May be repeated: each step is skipped where it was done.
 */
import type { Abortable } from "@cocoon/core";
import { fileNode, layerNode } from "../process/arguments.ts";
import type { QmpClient } from "../qmp/qmp.ts";
import type { VmRecord } from "../store/vm-record.ts";

interface MountedLayer {
  readonly file: string;
  readonly format: string;
  readonly node: string;
  readonly oldFile: string;
  readonly newFile: string;
  readonly backing: string | undefined;
}

export async function switchDisks(qmp: QmpClient, record: VmRecord, { signal }: Abortable): Promise<void> {
  const layers = findMounted(record);
  if (layers.length === 0) return;
  const nodes = await qmp.execute("query-named-block-nodes", { signal, arguments: { flat: true } });
  const names = new Set(nodes.map((each) => each["node-name"]));
  for (const { file, newFile } of layers)
    if (!names.has(newFile))
      await qmp.execute("blockdev-add", { signal, arguments: describeFile(record, file, newFile) });
  await qmp.execute("blockdev-reopen", { signal, arguments: { options: layers.map(describeLayer) } });
  for (const { oldFile } of layers)
    if (names.has(oldFile))
      await qmp.execute("blockdev-del", { signal, arguments: { "node-name": oldFile } });
}

/** From the base up: a layer is opened after the one that it stands on. */
function findMounted({ disks, lazy }: VmRecord): MountedLayer[] {
  return disks.flatMap((disk, index) =>
    disk.layers.flatMap(({ file, format }, at) => {
      if (!lazy?.files.includes(file)) return [];
      const below = disk.layers[at - 1];
      const oldFile = fileNode(index, file);
      return [
        {
          file,
          format,
          node: layerNode(index, file),
          oldFile,
          newFile: `${oldFile}-local`,
          backing: below && layerNode(index, below.file),
        },
      ];
    }),
  );
}

// oxlint-disable-next-line max-params -- a node and its file
function describeFile(record: VmRecord, file: string, node: string): Record<string, unknown> {
  return { driver: "file", "node-name": node, filename: `${record.files}/${file}`, "read-only": true };
}

function describeLayer({ format, node, newFile, backing }: MountedLayer): Record<string, unknown> {
  const base = backing === undefined ? {} : { backing };
  return { driver: format, "node-name": node, file: newFile, "read-only": true, ...base };
}
