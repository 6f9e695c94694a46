import { kubeClientContract } from "./client-contract.ts";
import { MemoryServer } from "./memory-client.ts";

kubeClientContract("in memory", () =>
  Promise.resolve({
    client: new MemoryServer().client(),
    namespace: "ns",
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }),
);
