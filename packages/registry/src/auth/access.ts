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
  /** May see which tokens there are, never their secrets. */
  z.object({ kind: z.literal("tokens") }),
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
  | { readonly kind: "tokens" }
  /** To see what the registry holds and how much; never anonymous. */
  | { readonly kind: "statistics"; readonly name?: RepositoryName }
  | { readonly kind: "admin" };

export const everything: readonly Scope[] = [
  { kind: "repository", pattern: "*", actions: [...actions] },
  { kind: "catalog" },
];
/** Of the token that the installation was given. */
export const installation: readonly Scope[] = [...everything, { kind: "tokens" }];
export const administration: readonly Scope[] = [{ kind: "admin" }];

export function allows(scopes: readonly Scope[], need: Need): boolean {
  if (need.kind === "nothing" || need.kind === "identity") return true;
  return scopes.some((scope) => {
    if (scope.kind === "admin") return true;
    if (scope.kind === "catalog") return need.kind === "catalog" || isAboutAll(need);
    if (scope.kind === "tokens") return need.kind === "tokens";
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

/** Scopes that are one word each. */
const plainScopes = {
  admin: "admin",
  catalog: "registry:catalog:*",
  tokens: "registry:tokens:list",
} as const;

export const scopeGrammar =
  "repository:<pattern>:pull,push,delete, registry:catalog:*, registry:tokens:list or admin";

/** Undefined for what is no scope. */
export function tryReadScope(text: string): Scope | undefined {
  for (const kind of ["admin", "catalog", "tokens"] as const) if (text === plainScopes[kind]) return { kind };
  const [type, pattern = "", wanted = "", ...rest] = text.split(":");
  if (type !== "repository" || rest.length > 0 || !patternGrammar.test(pattern)) return undefined;
  const words = wanted.split(",");
  const known = words.includes("*") ? [...actions] : actions.filter((action) => words.includes(action));
  return known.length > 0 ? { kind: "repository", pattern, actions: known } : undefined;
}

export function readScope(text: string): Scope {
  const scope = tryReadScope(text);
  if (scope) return scope;
  throw new Fault("invalid", `scope "${text}" is unknown; use ${scopeGrammar}`);
}

export function writeScope(scope: Scope): string {
  return scope.kind === "repository"
    ? `repository:${scope.pattern}:${scope.actions.join(",")}`
    : plainScopes[scope.kind];
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
