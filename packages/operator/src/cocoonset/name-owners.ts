/** Whether a VM name belongs to another owner than this set, as far as the caches show. */
import { tryParseSlot, type CocoonSet } from "@cocoon/contract";
import { isControlledBy } from "@cocoon/kube/controller";
import type { SetParts } from "./parts.ts";

export function isClaimedElsewhere(parts: SetParts, set: CocoonSet, vmName: string): boolean {
  if (parts.podsByVmName.get(vmName).some((pod) => !isControlledBy(pod, set))) return true;
  return splitVmName(vmName).some(({ namespace, name, member }) => {
    const other = parts.sets.get({ namespace, name });
    if (!other || other.metadata.uid === set.metadata.uid) return false;
    return tryParseSlot(member) !== undefined || namesToolbox(other, member);
  });
}

interface NameParts {
  readonly namespace: string;
  readonly name: string;
  readonly member: string;
}

/** Every way to read `vk-<namespace>-<set>-<member>`: each of the three may contain dashes. */
function splitVmName(vmName: string): readonly NameParts[] {
  const words = vmName.split("-");
  if (words[0] !== "vk") return [];
  const found: NameParts[] = [];
  for (let first = 2; first < words.length - 1; first += 1)
    for (let second = first + 1; second < words.length; second += 1)
      found.push({
        namespace: words.slice(1, first).join("-"),
        name: words.slice(first, second).join("-"),
        member: words.slice(second).join("-"),
      });
  return found;
}

/** Read loosely: a set that cannot be parsed still owns its machines. */
function namesToolbox(
  { spec, status }: { readonly spec?: unknown; readonly status?: unknown },
  name: string,
) {
  return [spec, status].some((part) => {
    const { toolboxes } = (part ?? {}) as { readonly toolboxes?: unknown };
    return (
      Array.isArray(toolboxes) &&
      toolboxes.some((each: unknown) => (each as { readonly name?: unknown } | null)?.name === name)
    );
  });
}
