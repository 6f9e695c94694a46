/** Tags of one build of a template: an annotation of the set that keeps it. */
import { isFault, type Abortable } from "@cocoon/core";
import type { Tenant, TenantSets } from "../tenants/tenant.ts";
import { readTags, writeTags, type Snapshot } from "./read-snapshot.ts";

export interface TagChange {
  readonly tenant: Tenant;
  readonly snapshot: Pick<Snapshot, "name" | "uid">;
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
}

/** The operator may write to the set between our read and our write. */
const mostAttempts = 5;

/** Read and written as one: two clients that tag a build at once are both heard. */
export async function changeTags(
  sets: Pick<TenantSets, "get" | "patch">,
  { tenant, snapshot: { name, uid }, add = [], remove = [] }: TagChange,
  options: Abortable,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const set = await sets.get(tenant, name, options);
    const { resourceVersion } = set.metadata;
    const kept = readTags(set).filter((tag) => !remove.includes(tag));
    const annotations = writeTags([...new Set([...kept, ...add])]);
    try {
      await sets.patch(tenant, name, { metadata: { uid, resourceVersion, annotations } }, options);
      return;
    } catch (error) {
      if (attempt >= mostAttempts || !isFault(error, "conflict")) throw error;
    }
  }
}
