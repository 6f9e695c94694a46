/** For tests of controllers: a source filled by hand, an API server in memory. */
export { kubeClientContract } from "./client-contract.ts";
export { FakeCluster } from "./fake-cluster.ts";
export { FakeSource } from "./fake-source.ts";
