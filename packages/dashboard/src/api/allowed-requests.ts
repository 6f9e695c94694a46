/**
 * What the page may ask of the API server. The user's rights decide; this table keeps out what no page of ours needs, above all
 * `proxy` subresources: their answers are pages that machines write, and they would run as ours.
 */
interface Resource {
  readonly path: RegExp;
  readonly methods: readonly string[];
  /** Changes nothing, although it is a POST. */
  readonly reads?: boolean;
  readonly upgrade?: boolean;
}

const name = "[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?";
const namespaced = `/namespaces/${name}`;
const cocoon = "/apis/cocoonset\\.cocoonstack\\.io/v1";

function exact(...parts: readonly string[]): RegExp {
  return new RegExp(`^${parts.join("")}$`);
}

const resources: readonly Resource[] = [
  { path: exact("/version"), methods: ["GET"] },
  {
    path: exact("/apis/authorization\\.k8s\\.io/v1/selfsubjectaccessreviews"),
    methods: ["POST"],
    reads: true,
  },
  { path: exact("/apis/authentication\\.k8s\\.io/v1/selfsubjectreviews"), methods: ["POST"], reads: true },
  { path: exact("/api/v1/namespaces"), methods: ["GET"] },
  { path: exact(cocoon, `(${namespaced})?/(cocoonsets|cocoonhibernations)`), methods: ["GET"] },
  { path: exact(cocoon, namespaced, "/(cocoonsets|cocoonhibernations)"), methods: ["POST"] },
  {
    path: exact(cocoon, namespaced, `/(cocoonsets|cocoonhibernations)/${name}`),
    methods: ["GET", "PATCH", "DELETE"],
  },
  { path: exact("/api/v1", namespaced, `/pods/${name}`), methods: ["GET", "DELETE"] },
  { path: exact("/api/v1", namespaced, `/pods/${name}/log`), methods: ["GET"] },
  { path: exact("/api/v1", namespaced, `/pods/${name}/eviction`), methods: ["POST"] },
  { path: exact("/api/v1", namespaced, `/pods/${name}/(exec|attach)`), methods: ["GET"], upgrade: true },
  { path: exact("/api/v1", namespaced, "/events"), methods: ["GET"] },
  { path: exact("/api/v1/nodes"), methods: ["GET"] },
  { path: exact("/api/v1/nodes/", name), methods: ["GET", "PATCH"] },
  { path: exact("/apis/metrics\\.k8s\\.io/v1beta1", `(${namespaced})?/(pods|nodes)`), methods: ["GET"] },
  { path: exact("/apis/coordination\\.k8s\\.io/v1/namespaces/cocoon-system/leases"), methods: ["GET"] },
];

export type RequestKind = "read" | "change" | "upgrade";

/** Undefined for what the page never asks for. */
export function classifyRequest(
  method: string,
  path: string,
  { upgrade = false } = {},
): RequestKind | undefined {
  const found = resources.find(
    (each) => (each.upgrade ?? false) === upgrade && each.methods.includes(method) && each.path.test(path),
  );
  if (found === undefined) return undefined;
  if (upgrade) return "upgrade";
  return method === "GET" || found.reads ? "read" : "change";
}
