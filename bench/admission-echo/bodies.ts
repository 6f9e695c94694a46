/** Admission reviews of pods as an API server sends them when a ReplicaSet makes one. */

/** A review whose JSON text is about that long: a pod grows by containers and their environment. */
export function podReviewText(bytes: number): string {
  for (let variables = 0; ; variables += 1) {
    const text = JSON.stringify(review(pod(variables)));
    if (text.length >= bytes) return text;
  }
}

function pod(variables: number): object {
  const perContainer = 24;
  const containers = Math.max(1, Math.ceil(variables / perContainer));
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      generateName: "web-7d4b9c6f5-",
      namespace: "shop",
      labels: { app: "web", "pod-template-hash": "7d4b9c6f5", tier: "front" },
      annotations: { "prometheus.io/scrape": "true", "prometheus.io/port": "8080" },
      ownerReferences: [
        {
          apiVersion: "apps/v1",
          kind: "ReplicaSet",
          name: "web-7d4b9c6f5",
          uid: "5b1d5e0c-8f0e-4a57-a6f7-0d6f4f6f1c11",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: {
      volumes: [
        {
          name: "kube-api-access-x2x4z",
          projected: {
            sources: [
              { serviceAccountToken: { expirationSeconds: 3607, path: "token" } },
              { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
            ],
            defaultMode: 420,
          },
        },
      ],
      containers: Array.from({ length: containers }, (_, index) =>
        container(index, Math.min(perContainer, variables - index * perContainer)),
      ),
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      dnsPolicy: "ClusterFirst",
      serviceAccountName: "default",
      serviceAccount: "default",
      securityContext: {},
      schedulerName: "default-scheduler",
      tolerations: ["not-ready", "unreachable"].map((name) => ({
        key: `node.kubernetes.io/${name}`,
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds: 300,
      })),
      priority: 0,
      enableServiceLinks: true,
      preemptionPolicy: "PreemptLowerPriority",
    },
    status: {},
  };
}

function container(index: number, variables: number): object {
  return {
    name: `container-${index}`,
    image: `registry.example.com/team/web:1.2.${index}`,
    ports: [{ containerPort: 8080 + index, protocol: "TCP" }],
    env: Array.from({ length: variables }, (_, each) => ({
      name: `SETTING_${each}`,
      value: `the value of setting number ${each}`,
    })),
    resources: { limits: { cpu: "500m", memory: "512Mi" }, requests: { cpu: "250m", memory: "256Mi" } },
    volumeMounts: [
      {
        name: "kube-api-access-x2x4z",
        readOnly: true,
        mountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
      },
    ],
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "File",
    imagePullPolicy: "IfNotPresent",
  };
}

function review(object: object): object {
  const kind = { group: "", version: "v1", kind: "Pod" };
  const resource = { group: "", version: "v1", resource: "pods" };
  return {
    kind: "AdmissionReview",
    apiVersion: "admission.k8s.io/v1",
    request: {
      uid: "705ab4f5-6393-11e8-b7cc-42010a800002",
      kind,
      resource,
      requestKind: kind,
      requestResource: resource,
      namespace: "shop",
      operation: "CREATE",
      userInfo: {
        username: "system:serviceaccount:kube-system:replicaset-controller",
        uid: "a7e0ab33-5f29-11e8-8a3c-36e6bb280816",
        groups: ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
      },
      object,
      oldObject: null,
      dryRun: false,
      options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1" },
    },
  };
}
