# State directory: /state

# Step 1: etcd, registry

# etcd: the cluster's database
/cache/controlplane/1.36.3-3.6.16-linux-x64/etcd \
  --name=cocoon \
  --data-dir=/state/etcd \
  --listen-client-urls=https://127.0.0.1:2379 \
  --advertise-client-urls=https://127.0.0.1:2379 \
  --listen-peer-urls=https://127.0.0.1:2380 \
  --initial-advertise-peer-urls=https://127.0.0.1:2380 \
  --initial-cluster=cocoon=https://127.0.0.1:2380 \
  --cert-file=/state/pki/etcd.crt \
  --key-file=/state/pki/etcd.key \
  --trusted-ca-file=/state/pki/ca.crt \
  --client-cert-auth \
  --peer-cert-file=/state/pki/etcd.crt \
  --peer-key-file=/state/pki/etcd.key \
  --peer-trusted-ca-file=/state/pki/ca.crt \
  --peer-client-cert-auth \
  --auto-compaction-mode=periodic \
  --auto-compaction-retention=30m \
  --quota-backend-bytes=4294967296 \
  --log-level=warn &

# registry: keeps images and the snapshots of hibernated machines
NODE_COMPILE_CACHE=/state/parts/compiled \
MALLOC_ARENA_MAX=2 \
MALLOC_TRIM_THRESHOLD_=131072 \
EPOCH_REGISTRY_TOKEN=... \
node \
  --max-semi-space-size=2 \
  /source/packages/registry/src/main.ts \
  serve \
  --addr=127.0.0.1:5000 \
  --health-addr=127.0.0.1:5001 \
  --root=/state/parts/registry \
  --tls-cert-file=/state/pki/components.crt \
  --tls-key-file=/state/pki/components.key \
  --storage=filesystem &

# Step 2: kube-apiserver

# kube-apiserver: the Kubernetes API
/cache/controlplane/1.36.3-3.6.16-linux-x64/kube-apiserver \
  --etcd-servers=https://127.0.0.1:2379 \
  --etcd-cafile=/state/pki/ca.crt \
  --etcd-certfile=/state/pki/apiserver-kubelet-client.crt \
  --etcd-keyfile=/state/pki/apiserver-kubelet-client.key \
  --bind-address=127.0.0.1 \
  --secure-port=6443 \
  --endpoint-reconciler-type=none \
  --tls-cert-file=/state/pki/apiserver.crt \
  --tls-private-key-file=/state/pki/apiserver.key \
  --client-ca-file=/state/pki/ca.crt \
  --anonymous-auth=false \
  --authorization-mode=Node,RBAC \
  --service-account-key-file=/state/pki/service-account.pub \
  --service-account-signing-key-file=/state/pki/service-account.key \
  --service-account-issuer=https://kubernetes.default.svc.cluster.local \
  --service-cluster-ip-range=10.0.0.0/16 \
  --allow-privileged=true \
  --kubelet-certificate-authority=/state/pki/ca.crt \
  --kubelet-client-certificate=/state/pki/apiserver-kubelet-client.crt \
  --kubelet-client-key=/state/pki/apiserver-kubelet-client.key \
  --kubelet-preferred-address-types=InternalIP,Hostname \
  --profiling=false \
  --requestheader-client-ca-file=/state/pki/front-proxy-ca.crt \
  --requestheader-allowed-names=front-proxy-client \
  --requestheader-username-headers=X-Remote-User \
  --requestheader-group-headers=X-Remote-Group \
  --requestheader-extra-headers-prefix=X-Remote-Extra- \
  --proxy-client-cert-file=/state/pki/front-proxy-client.crt \
  --proxy-client-key-file=/state/pki/front-proxy-client.key \
  --audit-policy-file=/state/audit/policy.yaml \
  --audit-log-path=/state/audit/audit.log \
  --audit-log-maxsize=100 \
  --audit-log-maxbackup=3 &

# Step 3: kube-controller-manager, kube-scheduler, operator, colocation, dashboard, vk-node-1, vk-node-2, metrics-server

# kube-controller-manager: Deployments, ReplicaSets, Jobs, garbage collection
/cache/controlplane/1.36.3-3.6.16-linux-x64/kube-controller-manager \
  --kubeconfig=/state/kubeconfigs/controller-manager \
  --authentication-kubeconfig=/state/kubeconfigs/controller-manager \
  --authorization-kubeconfig=/state/kubeconfigs/controller-manager \
  --bind-address=127.0.0.1 \
  --secure-port=10257 \
  --tls-cert-file=/state/pki/components.crt \
  --tls-private-key-file=/state/pki/components.key \
  --leader-elect=false \
  --profiling=false \
  --root-ca-file=/state/pki/ca.crt \
  --service-account-private-key-file=/state/pki/service-account.key \
  --cluster-signing-cert-file=/state/pki/ca.crt \
  --cluster-signing-key-file=/state/pki/ca.key \
  --use-service-account-credentials=true &

# kube-scheduler: gives pods their nodes
/cache/controlplane/1.36.3-3.6.16-linux-x64/kube-scheduler \
  --kubeconfig=/state/kubeconfigs/scheduler \
  --authentication-kubeconfig=/state/kubeconfigs/scheduler \
  --authorization-kubeconfig=/state/kubeconfigs/scheduler \
  --bind-address=127.0.0.1 \
  --secure-port=10259 \
  --tls-cert-file=/state/pki/components.crt \
  --tls-private-key-file=/state/pki/components.key \
  --leader-elect=false \
  --profiling=false &

# operator: reconciles CocoonSets and CocoonHibernations
NODE_COMPILE_CACHE=/state/parts/compiled \
MALLOC_ARENA_MAX=2 \
MALLOC_TRIM_THRESHOLD_=131072 \
KUBECONFIG=/state/parts/identities/cocoon-operator.kubeconfig \
POD_NAMESPACE=cocoon-system \
LEADER_ELECT=false \
METRICS_ADDR=127.0.0.1:8080 \
PROBE_ADDR=127.0.0.1:8081 \
LEGACY_API=on \
OCI_REGISTRY=127.0.0.1:5000 \
EPOCH_CA_CERT=/state/pki/ca.crt \
EPOCH_TOKEN=... \
node \
  --max-semi-space-size=2 \
  /source/packages/operator/src/main.ts &

# colocation: admits batch pods, quotas and reservations, as Koordinator's webhooks do
NODE_COMPILE_CACHE=/state/parts/compiled \
MALLOC_ARENA_MAX=2 \
MALLOC_TRIM_THRESHOLD_=131072 \
KUBECONFIG=/state/parts/identities/cocoon-colocation.kubeconfig \
POD_NAMESPACE=cocoon-colocation \
node \
  --max-semi-space-size=2 \
  /source/packages/colocation/src/main.ts \
  --webhook-bind=127.0.0.1 \
  --webhook-host=127.0.0.1 \
  --webhook-port=9443 \
  --metrics-addr=127.0.0.1:8082 \
  --health-probe-addr=127.0.0.1:8000 \
  --feature-gates=NodeMutatingWebhook=true,NodeValidatingWebhook=true,ConfigMapValidatingWebhook=true,ReservationMutatingWebhook=true,EnableQuotaAdmission=true &

# dashboard: web page for sets and machines
NODE_COMPILE_CACHE=/state/parts/compiled \
MALLOC_ARENA_MAX=2 \
MALLOC_TRIM_THRESHOLD_=131072 \
KUBECONFIG=/state/parts/identities/cocoon-dashboard.kubeconfig \
DASHBOARD_LISTEN_ADDR=127.0.0.1:8750 \
METRICS_ADDR=127.0.0.1:8751 \
DASHBOARD_METRICS_TARGETS=operator=http://127.0.0.1:8080/metrics,webhook=http://127.0.0.1:9090/metrics,colocation=http://127.0.0.1:8082/metrics,registry=http://127.0.0.1:5001/metrics,gateway=http://127.0.0.1:3001/metrics,vk-node-1=http://127.0.0.1:9091/metrics,vk-node-2=http://127.0.0.1:9191/metrics,dashboard=http://127.0.0.1:8751/metrics \
DASHBOARD_GATEWAY='http://{port}-{machine}.{namespace}.localhost:3000' \
OCI_REGISTRY=127.0.0.1:5000 \
EPOCH_CA_CERT=/state/pki/ca.crt \
DASHBOARD_SESSION_KEY=... \
EPOCH_TOKEN=... \
node \
  --max-semi-space-size=2 \
  /source/packages/dashboard/src/main.ts &

# vk-node-1: the kubelet of node cocoon-1, whose pods are machines
NODE_COMPILE_CACHE=/state/parts/compiled \
MALLOC_ARENA_MAX=2 \
MALLOC_TRIM_THRESHOLD_=131072 \
KUBECONFIG=/state/parts/identities/vk-cocoon.kubeconfig \
VK_NODE_NAME=cocoon-1 \
VK_NODE_IP=127.0.0.1 \
VK_KUBELET_HOST=127.0.0.1 \
VK_KUBELET_PORT=10250 \
VK_METRICS_ADDR=127.0.0.1:9091 \
VK_TLS_CERT=/state/pki/components.crt \
VK_TLS_KEY=/state/pki/components.key \
VK_NETWORK=user \
VK_USER_SUBNET=127.101.0.0/16 \
COCOON_ROOT_DIR=/state/parts/node-1 \
COCOON_IMAGE_DIR=/state/parts/images \
COCOON_SNAPSHOT_FORMAT=packed \
OCI_REGISTRY=127.0.0.1:5000 \
EPOCH_CA_CERT=/state/pki/ca.crt \
EPOCH_TOKEN=... \
node \
  --max-semi-space-size=2 \
  /source/packages/vk/src/main.ts &

# vk-node-2: the kubelet of node cocoon-2, whose pods are machines
NODE_COMPILE_CACHE=/state/parts/compiled \
MALLOC_ARENA_MAX=2 \
MALLOC_TRIM_THRESHOLD_=131072 \
KUBECONFIG=/state/parts/identities/vk-cocoon.kubeconfig \
VK_NODE_NAME=cocoon-2 \
VK_NODE_IP=127.0.0.1 \
VK_KUBELET_HOST=127.0.0.1 \
VK_KUBELET_PORT=10350 \
VK_METRICS_ADDR=127.0.0.1:9191 \
VK_TLS_CERT=/state/pki/components.crt \
VK_TLS_KEY=/state/pki/components.key \
VK_NETWORK=user \
VK_USER_SUBNET=127.102.0.0/16 \
COCOON_ROOT_DIR=/state/parts/node-2 \
COCOON_IMAGE_DIR=/state/parts/images \
COCOON_SNAPSHOT_FORMAT=packed \
OCI_REGISTRY=127.0.0.1:5000 \
EPOCH_CA_CERT=/state/pki/ca.crt \
EPOCH_TOKEN=... \
node \
  --max-semi-space-size=2 \
  /source/packages/vk/src/main.ts &

# metrics-server: measures nodes and machines for kubectl top
/cache/controlplane/1.36.3-3.6.16-linux-x64/metrics-server-0.9.0 \
  --kubeconfig=/state/parts/identities/metrics-server.kubeconfig \
  --authentication-kubeconfig=/state/parts/identities/metrics-server.kubeconfig \
  --authorization-kubeconfig=/state/parts/identities/metrics-server.kubeconfig \
  --bind-address=127.0.0.1 \
  --secure-port=4443 \
  --tls-cert-file=/state/pki/metrics-server.crt \
  --tls-private-key-file=/state/pki/metrics-server.key \
  --kubelet-certificate-authority=/state/pki/ca.crt \
  --kubelet-preferred-address-types=InternalIP \
  --kubelet-use-node-status-port \
  --metric-resolution=15s &

# Step 4: webhook, gateway

# webhook: gives machines their names and nodes, validates sets
NODE_COMPILE_CACHE=/state/parts/compiled \
MALLOC_ARENA_MAX=2 \
MALLOC_TRIM_THRESHOLD_=131072 \
KUBECONFIG=/state/parts/identities/cocoon-webhook.kubeconfig \
LISTEN_ADDR=127.0.0.1:8443 \
METRICS_ADDR=127.0.0.1:9090 \
TLS_CERT=/state/pki/components.crt \
TLS_KEY=/state/pki/components.key \
OCI_REGISTRY=127.0.0.1:5000 \
EPOCH_CA_CERT=/state/pki/ca.crt \
EPOCH_TOKEN=... \
node \
  --max-semi-space-size=2 \
  /source/packages/webhook/src/main.ts &

# gateway: sandboxes for the E2B SDKs, and traffic to their ports
NODE_COMPILE_CACHE=/state/parts/compiled \
MALLOC_ARENA_MAX=2 \
MALLOC_TRIM_THRESHOLD_=131072 \
KUBECONFIG=/state/parts/identities/cocoon-gateway.kubeconfig \
GATEWAY_LISTEN_ADDR=127.0.0.1:3000 \
GATEWAY_METRICS_ADDR=127.0.0.1:3001 \
OCI_REGISTRY=127.0.0.1:5000 \
EPOCH_CA_CERT=/state/pki/ca.crt \
EPOCH_TOKEN=... \
node \
  --max-semi-space-size=2 \
  /source/packages/gateway/src/main.ts &

# Step 5: supervisor

# supervisor: restarts parts that end unexpectedly
NODE_COMPILE_CACHE=/state/parts/compiled \
MALLOC_ARENA_MAX=2 \
MALLOC_TRIM_THRESHOLD_=131072 \
COCOON_HOME=/state \
node \
  --max-semi-space-size=2 \
  /source/packages/cli/src/main.ts \
  supervise &
