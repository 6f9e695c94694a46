/** Labels that the cluster's owner wants on every pod, listed in a ConfigMap. */
import { tryParseJson, type Logger } from "@cocoon/core";
import type { ConfigMap } from "@cocoon/kube";
import * as z from "zod";
import { skipEnhancedLabel } from "../keys.ts";
import type { Refusal } from "../rules.ts";
import type { PodReading } from "./read-pod.ts";

const rulesSchema = z.array(
  z.object({
    name: z.string().default(""),
    requiredLabels: z.array(z.string()).default([]),
    namespaceWhitelist: z.array(z.string()).default([]),
  }),
);

type EnhancedRule = z.output<typeof rulesSchema>[number];

/** Reads the map again when it changed; a broken change keeps the rules that were there. */
export class EnhancedRules {
  readonly #load: () => ConfigMap | undefined;
  readonly #log: Logger;
  #seen: ConfigMap | undefined;
  #rules: readonly EnhancedRule[] = [];

  constructor(load: () => ConfigMap | undefined, log: Logger) {
    this.#load = load;
    this.#log = log;
  }

  *check(pod: PodReading): Generator<Refusal> {
    this.#refresh();
    if (pod.labels[skipEnhancedLabel] === "true") return;
    for (const { requiredLabels, namespaceWhitelist } of this.#rules) {
      if (namespaceWhitelist.includes(pod.namespace)) continue;
      const missing = requiredLabels.filter((key) => !Object.hasOwn(pod.labels, key));
      if (missing.length === 1)
        yield { rule: "enhanced", message: `required label '${missing[0]}' is missing` };
      else if (missing.length > 1)
        yield { rule: "enhanced", message: `required labels are missing: [${missing.join(" ")}]` };
    }
  }

  #refresh(): void {
    const map = this.#load();
    if (map === this.#seen) return;
    this.#seen = map;
    if (map?.data?.["enable"]?.trim().toLowerCase() !== "true") {
      this.#rules = [];
      return;
    }
    const parsed = rulesSchema.safeParse(tryParseJson(map.data["rules"] ?? "[]"));
    if (parsed.success) this.#rules = parsed.data;
    else
      this.#log.warn(
        { error: parsed.error.message },
        "enhanced validation rules not taken, the old ones stay",
      );
  }
}
