/** What a reference to a template or snapshot means: which machine, and how it starts. */
import type { CocoonSetSpecInput } from "@cocoon/contract";
import type { Snapshot } from "./read-snapshot.ts";
import { buildCloneSpec } from "./copy-specs.ts";
import type { Snapshots } from "./snapshots.ts";
import { buildSetSpec, type Template, type Templates } from "./templates.ts";

export interface ChosenMachine {
  readonly template: Template;
  readonly setSpec: CocoonSetSpecInput;
  readonly defaults?: Snapshot["defaults"];
  /** The template is booted: what comes up is worth saving. */
  readonly boots?: Template;
  /** A template of the gateway: machines of it may wait in the warm pool. */
  readonly pooled?: Template;
}

export interface MachineSources {
  readonly snapshots: Snapshots;
  readonly templates: Templates;
}

/** A snapshot of the tenant, or a template: cloned where it was saved before, booted where not. Throws 404. */
export function chooseMachine(
  { snapshots, templates }: MachineSources,
  namespace: string,
  reference: string,
): ChosenMachine {
  const snapshot = snapshots.tryFind(namespace, reference);
  if (snapshot)
    return {
      template: snapshot.template,
      setSpec: buildCloneSpec(snapshot),
      defaults: snapshot.defaults,
    };
  const template = templates.require(reference);
  const saved = template.mode === "run" ? snapshots.tryFindBuiltIn(namespace, template) : undefined;
  if (saved) return { template, pooled: template, setSpec: buildCloneSpec(saved) };
  return {
    template,
    pooled: template,
    setSpec: buildSetSpec(template),
    ...(template.mode === "run" ? { boots: template } : {}),
  };
}
