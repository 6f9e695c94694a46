/** The patch that every mutating webhook needs: annotations and labels, whatever is or is not there. */
import { formatPointer, type JsonPatchOperation } from "@cocoon/core/json-patch";

type MetadataMap = "annotations" | "labels";

/**
 * Operations that set annotations or labels and leave the others alone. A parent that is missing is made first,
 * because `add` below a missing parent fails. Values that are already there give no operation.
 */
export function setMetadata(
  object: unknown,
  field: MetadataMap,
  values: Readonly<Record<string, string>>,
): JsonPatchOperation[] {
  const metadata = isRecord(object) ? object["metadata"] : undefined;
  const present = isRecord(metadata) ? metadata[field] : undefined;
  const existing = isRecord(present) ? present : {};
  const operations = Object.entries(values)
    .filter(([key, value]) => existing[key] !== value)
    .map(([key, value]): JsonPatchOperation => ({
      op: "add",
      path: formatPointer(["metadata", field, key]),
      value,
    }));
  if (operations.length === 0) return [];
  const parents: JsonPatchOperation[] = [];
  if (!isRecord(metadata)) parents.push({ op: "add", path: "/metadata", value: {} });
  if (!isRecord(present)) parents.push({ op: "add", path: formatPointer(["metadata", field]), value: {} });
  return [...parents, ...operations];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
