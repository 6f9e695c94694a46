import { kubeClientContract } from "./client-contract.ts";
import { FakeCluster } from "./fake-cluster.ts";

kubeClientContract("in memory", () =>
  Promise.resolve({
    client: new FakeCluster().client(),
    namespace: "ns",
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }),
);
