/** Tables of objects with the verdict they deserve, for every authority that judges them. */
export { agentCases } from "./agent-cases.ts";
export { hibernationCases } from "./hibernation-cases.ts";
export type { SchemaCase } from "./schema-case.ts";
export { setCases } from "./set-cases.ts";
export { toolboxCases } from "./toolbox-cases.ts";
