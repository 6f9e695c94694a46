/** What a replica may do, verb by verb. A test runs one with these rights and no others. */
import { manifest, type Manifest } from "./manifest.ts";

const name = "cocoon-colocation";

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

const watching = ["get", "list", "watch"];

const clusterRules: readonly Rule[] = [
  // Caches of everything that the rules read.
  { apiGroups: [""], resources: ["pods", "nodes", "namespaces"], verbs: watching },
  { apiGroups: ["scheduling.k8s.io"], resources: ["priorityclasses"], verbs: watching },
  { apiGroups: ["config.koordinator.sh"], resources: ["clustercolocationprofiles"], verbs: watching },
  { apiGroups: ["scheduling.sigs.k8s.io"], resources: ["elasticquotas"], verbs: watching },
  { apiGroups: ["quota.koordinator.sh"], resources: ["elasticquotaprofiles"], verbs: watching },
  { apiGroups: ["scheduling.koordinator.sh"], resources: ["reservations"], verbs: watching },
  // Quota admission writes two annotations.
  { apiGroups: ["scheduling.sigs.k8s.io"], resources: ["elasticquotas"], verbs: ["patch"] },
  // Our own webhook configurations; a create cannot be limited to a name.
  {
    apiGroups: ["admissionregistration.k8s.io"],
    resources: ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    verbs: ["create"],
  },
  {
    apiGroups: ["admissionregistration.k8s.io"],
    resources: ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    resourceNames: ["cocoon-colocation-mutating", "cocoon-colocation-validating"],
    verbs: ["get", "list", "watch", "update", "patch"],
  },
  // Who may see the debug pages.
  { apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"] },
  { apiGroups: ["authorization.k8s.io"], resources: ["subjectaccessreviews"], verbs: ["create"] },
];

const namespacedRules: readonly Rule[] = [
  { apiGroups: [""], resources: ["configmaps"], verbs: watching },
  { apiGroups: [""], resources: ["configmaps"], verbs: ["create"] },
  {
    apiGroups: [""],
    resources: ["configmaps"],
    resourceNames: ["cocoon-colocation-quota-ledger"],
    verbs: ["patch"],
  },
  { apiGroups: [""], resources: ["secrets"], verbs: ["create"] },
  {
    apiGroups: [""],
    resources: ["secrets"],
    resourceNames: ["koordinator-webhook-certs", "webhook-tls"],
    verbs: ["get", "list", "watch", "update"],
  },
];

const debugRule = { nonResourceURLs: ["/elasticQuota", "/debug/*"], verbs: ["get"] };

export function rbacManifests(namespace: string): Manifest[] {
  const rbac = "rbac.authorization.k8s.io";
  const subjects = [{ kind: "ServiceAccount", name, namespace }];
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name, namespace } },
    made("ClusterRole", { name }, { rules: clusterRules }),
    made(
      "ClusterRoleBinding",
      { name },
      { roleRef: { apiGroup: rbac, kind: "ClusterRole", name }, subjects },
    ),
    made("Role", { name, namespace }, { rules: namespacedRules }),
    made("RoleBinding", { name, namespace }, { roleRef: { apiGroup: rbac, kind: "Role", name }, subjects }),
    // For those who look after it; bind it to whom you like.
    made("ClusterRole", { name: `${name}-debug` }, { rules: [debugRule] }),
    flowSchema(namespace),
  ];
}

function made(kind: string, metadata: Manifest["metadata"], content: object): Manifest {
  return manifest(["rbac.authorization.k8s.io/v1", kind], metadata, content);
}

/** Requests that wait for us take seats at the API server; our own calls must not queue behind them. */
function flowSchema(namespace: string): Manifest {
  const rule = { verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true };
  const spec = {
    priorityLevelConfiguration: { name: "system" },
    matchingPrecedence: 500,
    distinguisherMethod: { type: "ByUser" },
    rules: [
      {
        subjects: [{ kind: "ServiceAccount", serviceAccount: { name, namespace } }],
        resourceRules: [rule],
      },
    ],
  };
  return manifest(["flowcontrol.apiserver.k8s.io/v1", "FlowSchema"], { name }, { spec });
}
