/** Authorization: scopes in their text form, what a request needs, and the one function that compares the two. */
import * as z from "zod";
import { Fault } from "@cocoon/core";
import type { RepositoryName } from "../names.ts";
import { matchesPattern } from "../pattern.ts";

const actions = ["pull", "push", "delete"] as const;
export type Action = (typeof actions)[number];

/** A pattern is a repository name in which "*" stands for any text. */
export const scopeSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("repository"), pattern: z.string(), actions: z.array(z.enum(actions)) }),
  z.object({ kind: z.literal("catalog") }),
  /** May manage tokens and run garbage collection; implies everything else. */
  z.object({ kind: z.literal("admin") }),
]);

export type Scope = Readonly<z.infer<typeof scopeSchema>>;

export interface Caller {
  /** For logs and rate limits; never a secret. */
  readonly id: string;
  readonly anonymous: boolean;
  readonly scopes: readonly Scope[];
}

export type Need =
  | { readonly kind: "nothing" }
  /** Any caller that is not anonymous. */
  | { readonly kind: "identity" }
  | { readonly kind: "repository"; readonly name: RepositoryName; readonly action: Action }
  | { readonly kind: "catalog" }
  /** To see what the registry holds and how much; never anonymous. */
  | { readonly kind: "statistics"; readonly name?: RepositoryName }
  | { readonly kind: "admin" };

export const everything: readonly Scope[] = [
  { kind: "repository", pattern: "*", actions: [...actions] },
  { kind: "catalog" },
];
export const administration: readonly Scope[] = [{ kind: "admin" }];

export function allows(scopes: readonly Scope[], need: Need): boolean {
  if (need.kind === "nothing" || need.kind === "identity") return true;
  return scopes.some((scope) => {
    if (scope.kind === "admin") return true;
    if (scope.kind === "catalog") return need.kind === "catalog" || isAboutAll(need);
    const wanted = readRepositoryNeed(need);
    return (
      wanted !== undefined &&
      scope.actions.includes(wanted.action) &&
      matchesPattern(scope.pattern, wanted.name)
    );
  });
}

function isAboutAll(need: Need): boolean {
  return need.kind === "statistics" && need.name === undefined;
}

/** Statistics of one repository are for callers that may pull from it. */
function readRepositoryNeed(need: Need): { name: RepositoryName; action: Action } | undefined {
  if (need.kind === "repository") return need;
  return need.kind === "statistics" && need.name !== undefined
    ? { name: need.name, action: "pull" }
    : undefined;
}

const patternGrammar = /^[a-z0-9._*/-]{1,255}$/;

/** Reads `repository:<pattern>:pull,push`, `registry:catalog:*` or `admin`; undefined for anything else. */
export function tryReadScope(text: string): Scope | undefined {
  if (text === "admin") return { kind: "admin" };
  if (text === "registry:catalog:*") return { kind: "catalog" };
  const [type, pattern = "", wanted = "", ...rest] = text.split(":");
  if (type !== "repository" || rest.length > 0 || !patternGrammar.test(pattern)) return undefined;
  const words = wanted.split(",");
  const known = words.includes("*") ? [...actions] : actions.filter((action) => words.includes(action));
  return known.length > 0 ? { kind: "repository", pattern, actions: known } : undefined;
}

export function readScope(text: string): Scope {
  const scope = tryReadScope(text);
  if (scope) return scope;
  throw new Fault(
    "invalid",
    `scope "${text}" is unknown; use repository:<pattern>:pull,push,delete, registry:catalog:* or admin`,
  );
}

export function writeScope(scope: Scope): string {
  if (scope.kind === "admin") return "admin";
  return scope.kind === "catalog"
    ? "registry:catalog:*"
    : `repository:${scope.pattern}:${scope.actions.join(",")}`;
}

/** What of the wanted scopes the held ones cover; wanted repositories are plain names. */
export function intersect(held: readonly Scope[], wanted: readonly Scope[]): Scope[] {
  return wanted.flatMap((scope): Scope[] => {
    if (scope.kind !== "repository") return allows(held, scope) ? [scope] : [];
    const name = scope.pattern as RepositoryName;
    const granted = scope.actions.filter((action) => allows(held, { kind: "repository", name, action }));
    return granted.length > 0 ? [{ ...scope, actions: granted }] : [];
  });
}
