/** Reviews that are nearly right, broken at random places. */
const tolerations = [{ key: "virtual-kubelet.io/provider", operator: "Exists" }];
const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-6f5d", uid: "r", controller: true };
const template = { spec: { tolerations, containers: [{ name: "c", image: "i" }] } };

const review = (request: object) => ({
  apiVersion: "admission.k8s.io/v1",
  kind: "AdmissionReview",
  request: { uid: "705ab4f5", namespace: "fuzz", userInfo: { username: "u", groups: ["g"] }, ...request },
});

export const reviewSeeds: readonly object[] = [
  review({
    kind: { kind: "Pod" },
    operation: "CREATE",
    dryRun: true,
    object: {
      metadata: {
        generateName: "web-",
        labels: { a: "b" },
        annotations: { c: "d" },
        ownerReferences: [owner],
      },
      spec: {
        tolerations,
        nodeSelector: { "cocoonstack.io/pool": "p" },
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchExpressions: [{ key: "k", operator: "In", values: ["v"] }] }],
            },
          },
        },
        containers: [{ name: "c", image: "i", resources: { requests: { cpu: "1", memory: "1Gi" } } }],
        volumes: [{ name: "v", emptyDir: {} }],
      },
    },
  }),
  review({
    kind: { kind: "Pod" },
    operation: "CREATE",
    name: "fuzzed",
    object: { metadata: { name: "fuzzed" }, spec: { tolerations, containers: [{ name: "c", image: "i" }] } },
  }),
  review({
    kind: { kind: "Deployment" },
    resource: { resource: "deployments" },
    operation: "UPDATE",
    name: "d",
    oldObject: { metadata: {}, spec: { replicas: 5, template } },
    object: { metadata: {}, spec: { replicas: 2, template } },
  }),
  review({
    kind: { kind: "CocoonSet" },
    operation: "UPDATE",
    object: {
      metadata: { name: "s" },
      spec: { agent: { image: "a/b:1", storage: "1Gi" }, toolboxes: [{ name: "t", image: "i" }] },
    },
    oldObject: { metadata: { name: "s" }, spec: { agent: { image: "a/b:2" } } },
  }),
  review({
    kind: { kind: "CocoonHibernation" },
    operation: "CREATE",
    object: { metadata: { name: "p" }, spec: { podRef: { name: "p" }, desire: "Wake" } },
  }),
];

const oddities: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1e308,
  2 ** 53,
  "",
  "\u0000",
  "../../etc",
  "x".repeat(5_000),
  "\ud800",
  [],
  {},
  [null],
  [[]],
  { key: null },
  "1e999999999",
  "99999999999999999999",
  "CREATE",
  "DELETE",
  JSON.parse('{"__proto__":{"polluted":1},"constructor":5}'),
];

type Random = () => number;

export function mutateReview(seed: object | undefined, random: Random): Buffer {
  const value = structuredClone(seed);
  const changes = 1 + Math.floor(random() * 4);
  const { request } = value as { request: { object: object; oldObject?: object } };
  // Mostly in the objects: what is broken around them does not reach the rules.
  const places = [
    value,
    request,
    request.object,
    request.object,
    request.object,
    request.oldObject ?? request.object,
  ];
  for (let index = 0; index < changes; index += 1)
    mutateOnce(places[Math.floor(random() * places.length)], random);
  const text = Buffer.from(JSON.stringify(value));
  if (random() < 0.1) text[Math.floor(random() * text.length)] = Math.floor(random() * 256);
  return random() < 0.03 ? text.subarray(0, Math.floor(random() * text.length)) : text;
}

function mutateOnce(root: unknown, random: Random): void {
  let current = root as Record<string, unknown>;
  for (let depth = 0; depth < 12; depth += 1) {
    const keys = Object.keys(current);
    const key = keys[Math.floor(random() * keys.length)];
    if (key === undefined) return;
    const next = current[key];
    const descends = typeof next === "object" && next !== null && (depth === 0 || random() < 0.8);
    if (descends) {
      current = next as Record<string, unknown>;
      continue;
    }
    change(current, key, random);
    return;
  }
}

function change(parent: Record<string, unknown>, key: string, random: Random): void {
  const choice = random();
  const odd = structuredClone(oddities[Math.floor(random() * oddities.length)]);
  if (choice < 0.6) parent[key] = odd;
  else if (choice < 0.8) Reflect.deleteProperty(parent, key);
  else parent[`${key}${Math.floor(random() * 10)}`] = odd;
}
