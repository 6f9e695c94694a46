import { openKubeClient } from "@cocoon/kube";
import { kubeClientContract } from "@cocoon/kube/controller/testing";
import { sharedControlPlane } from "@cocoon/testkit";

kubeClientContract("kube-apiserver", async () => {
  const cluster = await sharedControlPlane();
  const stack = new AsyncDisposableStack();
  const namespace = stack.use(await cluster.newNamespace());
  const { signal } = new AbortController();
  const client = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
  return { client, namespace: namespace.name, [Symbol.asyncDispose]: () => stack.disposeAsync() };
});
