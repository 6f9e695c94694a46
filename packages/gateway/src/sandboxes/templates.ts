/** What sandboxes start from. */
import { createHash } from "node:crypto";
import { apiVersion, gatewayKey, type CocoonSetSpecInput } from "@cocoon/contract";
import * as z from "zod";
import { ApiError } from "../http/answer.ts";
import { machineSchema } from "./sandbox.ts";

const templateSchema = machineSchema.omit({ name: true });
export type Template = z.output<typeof machineSchema>;

export const templatesSchema = z.record(z.string().regex(/^[a-z0-9_-]{1,60}$/), templateSchema);
export type TemplateTable = z.output<typeof templatesSchema>;

export class Templates {
  readonly #table: TemplateTable;

  constructor(table: TemplateTable) {
    this.#table = table;
  }

  list(): Template[] {
    return Object.entries(this.#table).map(([name, template]) => ({ name, ...template }));
  }

  tryGet(reference: string): Template | undefined {
    const name = reference.toLowerCase().replace(/:default$/, "");
    const template = Object.hasOwn(this.#table, name) ? this.#table[name] : undefined;
    return template && { name, ...template };
  }

  require(reference: string): Template {
    const template = this.tryGet(reference);
    if (!template) throw new ApiError(404, `template "${reference.slice(0, 100)}" not found`);
    return template;
  }
}

/** The machine of a sandbox: nothing of it outlives the set. */
export function buildSetSpec(template: Template): CocoonSetSpecInput {
  const { image, mode, cpus, memoryMiB, storageMiB } = template;
  const memory = `${memoryMiB}Mi`;
  return {
    snapshotPolicy: "never",
    deletionPolicy: "Purge",
    agent: {
      image,
      mode,
      replicas: 0,
      storage: `${storageMiB}Mi`,
      resources: { requests: { cpu: "100m", memory }, limits: { cpu: String(cpus), memory } },
    },
  };
}

/** Another image or size is another template. */
export function hashTemplate(template: Template): string {
  const digest = createHash("sha256").update(JSON.stringify(template)).digest("hex");
  return `${template.name.replaceAll("_", "-")}-${digest.slice(0, 8)}`;
}

export const setIdentity = { apiVersion, kind: "CocoonSet" } as const;
export const sandboxLabels = { [gatewayKey.sandbox]: "true" } as const;
