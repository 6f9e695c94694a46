/**
 * Whether a user may call a route: the API server is asked (SubjectAccessReview on `nodes/<subresource>`), and its
 * answer remembered for a while. Fine-grained subresources come first, `nodes/proxy` is the wide one.
 *
 * Opening a stream always needs `create`, whatever the HTTP method: a WebSocket upgrade is a GET, and `get` on
 * `nodes/proxy` must not be enough to run a command.
 */
import { resourceType, type KubeClient, type KubeObject } from "@cocoon/kube";
import type { User } from "./authentication.ts";
import { ExpiringMap } from "./expiring-map.ts";

export interface AccessRequest {
  readonly method: string;
  readonly path: string;
}

/** Resolves to undefined when allowed, else to the reason. Throws when it could not be found out. */
export type Authorizer = (user: User, access: AccessRequest) => Promise<string | undefined>;

interface SubjectAccessReview extends KubeObject {
  readonly spec: {
    readonly user: string;
    readonly uid?: string;
    readonly groups: readonly string[];
    readonly extra?: Readonly<Record<string, readonly string[]>>;
    readonly resourceAttributes: {
      readonly verb: string;
      readonly group: string;
      readonly version: string;
      readonly resource: string;
      readonly subresource: string;
      readonly name: string;
    };
  };
  readonly status?: { readonly allowed?: boolean; readonly reason?: string };
}

const reviews = resourceType<SubjectAccessReview>({
  group: "authorization.k8s.io",
  version: "v1",
  kind: "SubjectAccessReview",
  plural: "subjectaccessreviews",
  namespaced: false,
});

const rememberAllowedMs = 5 * 60_000;
const rememberDeniedMs = 30_000;

const verbs: Readonly<Record<string, string>> = {
  GET: "get",
  HEAD: "get",
  POST: "create",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/** Subresources to ask for, most specific first. */
export function subresourcesOf(path: string): readonly string[] {
  const first = path.split("/")[1] ?? "";
  if (first === "stats") return ["stats", "proxy"];
  if (first === "metrics") return ["metrics", "proxy"];
  if (first === "logs") return ["log", "proxy"];
  if (first === "healthz" || first === "configz") return [first, "proxy"];
  if (first === "pods" || first === "runningpods") return ["pods", "proxy"];
  return ["proxy"];
}

const streaming = new Set(["exec", "attach", "portForward", "run"]);

export function verbOf({ method, path }: AccessRequest): string {
  return streaming.has(path.split("/")[1] ?? "") ? "create" : (verbs[method] ?? "get");
}

export function createAuthorizer(client: KubeClient, nodeName: string): Authorizer {
  const known = new ExpiringMap<string>(10_000);
  const ask = async (user: User, verb: string, subresource: string): Promise<string> => {
    const key = JSON.stringify([user, verb, subresource]);
    const remembered = known.get(key);
    if (remembered !== undefined) return remembered;
    const review = await client.create(
      reviews,
      {
        metadata: {},
        spec: {
          user: user.name,
          groups: user.groups,
          ...(user.uid ? { uid: user.uid } : {}),
          ...(user.extra ? { extra: user.extra } : {}),
          resourceAttributes: {
            verb,
            group: "",
            version: "v1",
            resource: "nodes",
            subresource,
            name: nodeName,
          },
        },
      },
      { signal: AbortSignal.timeout(10_000) },
    );
    const denied = review.status?.allowed ? "" : review.status?.reason || "no rule allows it";
    known.set(key, denied, denied === "" ? rememberAllowedMs : rememberDeniedMs);
    return denied;
  };
  return async (user, access) => {
    const verb = verbOf(access);
    let reason = "";
    for (const subresource of subresourcesOf(access.path)) {
      reason = await ask(user, verb, subresource);
      if (reason === "") return undefined;
    }
    return `Forbidden (user=${user.name}, verb=${verb}, resource=nodes, subresource(s)=[${subresourcesOf(access.path).join(" ")}]): ${reason}`;
  };
}
