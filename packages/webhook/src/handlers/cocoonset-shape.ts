/** A CocoonSet as it arrives: any text anywhere, nothing filled in. Types must be right, values are judged later. */
import * as z from "zod";

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");
const number = z.int().nullish();
const quantity = z.union([z.string(), z.number()]).nullish();
const amounts = z.record(z.string(), quantity).nullish();

const vmOptions = {
  os: text,
  backend: text,
  connType: text,
  network: text,
  forcePull: z.boolean().nullish(),
  noDirectIO: z.boolean().nullish(),
  probePort: number,
  storage: quantity,
  resources: z.object({ limits: amounts, requests: amounts }).nullish(),
};

const agent = z.object({ image: text, mode: text, replicas: number, ...vmOptions });
const toolbox = z.object({
  name: text,
  image: text,
  mode: text,
  staticIP: text,
  staticVMID: text,
  awaitAddress: z.boolean().nullish(),
  vncPort: number,
  ...vmOptions,
});

const spec = z.object({
  suspend: z.boolean().nullish(),
  snapshotPolicy: text,
  hibernatePolicy: text,
  nodePool: text,
  nodeName: text,
  snapshotCompatibilityClass: z.string().nullish(),
  agent: agent.nullish(),
  toolboxes: z.array(toolbox).nullish(),
});

export const setShape = z.object({
  metadata: z.object({ name: z.string().nullish(), namespace: z.string().nullish() }).nullish(),
  spec: spec.nullish(),
});

export type SpecShape = z.output<typeof spec>;
export type AgentShape = z.output<typeof agent>;
export type ToolboxShape = z.output<typeof toolbox>;

export const emptySpec: SpecShape = spec.parse({});
export const emptyAgent: AgentShape = agent.parse({});
