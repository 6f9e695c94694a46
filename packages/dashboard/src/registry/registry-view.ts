/** What the pages show of the registry: repositories with their sizes, tokens, and the snapshots of one set. */
import { podName, readTagPurpose, sealTag, vmName } from "@cocoon/contract";
import { Fault, isFault } from "@cocoon/core";
import * as z from "zod";
import type { Upstream } from "../api/upstream.ts";
import type { SignedIn } from "../auth/session-cookies.ts";
import type { RegistryData, RepositoryRow, SnapshotRow, TokenRow } from "../shared/rows.ts";
import type { RegistryClient } from "./registry-client.ts";

const text = z.string().default("");
const size = z.number().default(0);
const statsSchema = z.object({ tagCount: size, blobCount: size, totalSize: size, storedSize: size });
const repositoriesSchema = z.array(
  z.object({
    name: z.string(),
    kind: text,
    tagCount: size,
    totalSize: size,
    quotaBytes: z.number().optional(),
    hibernated: z.boolean().default(false),
    updatedAt: text,
  }),
);
const tokensSchema = z.array(
  z.object({
    id: z.union([z.string(), z.number()]).transform(String),
    name: z.string(),
    scopes: z.array(z.string()).default([]),
    createdBy: text,
    expiresAt: z.string().nullish(),
    lastUsed: z.string().nullish(),
  }),
);
const tagsSchema = z.array(z.object({ name: z.string(), totalSize: size, pushedAt: text, digest: text }));
const setSchema = z.object({
  spec: z
    .object({
      agent: z.object({ replicas: z.number().int().min(0).max(10_000).default(0) }).prefault({}),
      toolboxes: z.array(z.object({ name: z.string() })).default([]),
    })
    .prefault({}),
});

const maxMachines = 64;

export interface SnapshotQuery {
  readonly namespace: string;
  readonly set: string;
}

export class RegistryView {
  readonly #client: RegistryClient;
  readonly #upstream: Upstream;

  constructor(client: RegistryClient, upstream: Upstream) {
    this.#client = client;
    this.#upstream = upstream;
  }

  /** The caller has checked that the user may see all namespaces. */
  async readAll(signal: AbortSignal): Promise<RegistryData> {
    const [stats, repositories, tokens] = await Promise.all([
      this.#client.get("/api/stats", statsSchema, signal),
      this.#client.get("/api/repositories", repositoriesSchema, signal),
      this.#readTokens(signal),
    ]);
    const rows = (repositories ?? []).flatMap(({ name, ...rest }): RepositoryRow[] => {
      const short = this.#client.shortName(name);
      if (short === undefined) return [];
      const { kind, tagCount: tags, totalSize: bytes, quotaBytes = 0, hibernated, updatedAt } = rest;
      return [{ name: short, kind, tags, bytes, quotaBytes, hibernated, updatedAt }];
    });
    return {
      repositories: rows,
      tags: stats?.tagCount ?? 0,
      blobs: stats?.blobCount ?? 0,
      totalBytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
      storedBytes: stats?.storedSize ?? 0,
      tokens,
    };
  }

  async #readTokens(signal: AbortSignal): Promise<readonly TokenRow[] | undefined> {
    try {
      const tokens = (await this.#client.get("/api/tokens", tokensSchema, signal)) ?? [];
      return tokens.map(({ expiresAt, lastUsed, ...token }) => ({
        ...token,
        expiresAt: expiresAt ?? "",
        lastUsed: lastUsed ?? "",
      }));
    } catch (error) {
      if (isFault(error, "forbidden")) return undefined; // a token that may only read repositories
      throw error;
    }
  }

  /** Snapshots of the machines of a set, newest first, for a user who may read that set. */
  async listOfSet(
    { namespace, set }: SnapshotQuery,
    user: SignedIn,
    signal: AbortSignal,
  ): Promise<SnapshotRow[]> {
    const members = await this.#readMembers({ namespace, set }, user, signal);
    const found = await Promise.all(
      members.map(async (member) => {
        const name = this.#client.fullName(vmName({ namespace, set }, member));
        const path = `/api/repositories/${name.split("/").map(encodeURIComponent).join("/")}/tags`;
        const tags = (await this.#client.get(path, tagsSchema, signal)) ?? [];
        return tags.flatMap(({ name: tag, totalSize: bytes, pushedAt, digest }): SnapshotRow[] => {
          const purpose = readTagPurpose(tag);
          if (purpose === "anchor" || purpose === "claim" || tag === sealTag) return [];
          return [{ machine: podName(set, member), tag, purpose, bytes, pushedAt, digest }];
        });
      }),
    );
    return found.flat().sort((left, right) => (left.pushedAt < right.pushedAt ? 1 : -1));
  }

  /** Slots and toolboxes. The API server decides whether the user may see the set. */
  async #readMembers(
    { namespace, set }: SnapshotQuery,
    { token }: SignedIn,
    signal: AbortSignal,
  ): Promise<readonly (number | string)[]> {
    const path = `/apis/cocoonset.cocoonstack.io/v1/namespaces/${namespace}/cocoonsets/${set}`;
    const { status, body } = await this.#upstream.json({ method: "GET", path, token, signal });
    if (status === 401) throw new Fault("unauthorized", "the API server no longer accepts the token");
    if (status === 403) throw new Fault("forbidden", `you may not get set ${set} in namespace ${namespace}`);
    if (status === 404) throw new Fault("notFound", `there is no set ${set} in namespace ${namespace}`);
    const parsed = setSchema.safeParse(body);
    if (status !== 200 || !parsed.success)
      throw new Fault("unavailable", `the API server answered ${status} when asked for set ${set}`);
    const { agent, toolboxes } = parsed.data.spec;
    const slots = Array.from({ length: Math.min(maxMachines, agent.replicas + 1) }, (_, slot) => slot);
    return [...slots, ...toolboxes.slice(0, maxMachines).map(({ name }) => name)];
  }
}
