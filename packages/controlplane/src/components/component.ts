/** A part of the platform as data: what to run, what it needs first, how to see that it is ready. */
import { Fault, type Abortable } from "@cocoon/core";

export interface Component {
  readonly name: string;
  readonly summary: string;
  /** Components that must be ready before this one starts. */
  readonly needs: readonly string[];
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Environment that is never shown. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** Done once before the program is started, when what it needs is ready. Repeatable. */
  readonly prepare?: (options: Abortable) => Promise<void>;
  /** One look: resolves when the component is ready, throws the reason while it is not. */
  readonly probe: (options: Abortable) => Promise<void>;
  readonly readyTimeoutMs?: number;
  readonly stopGraceMs?: number;
}

/** Groups in starting order: each holds what can start at once when all earlier groups are ready. */
export function dependencyGroups<C extends Pick<Component, "name" | "needs">>(
  components: readonly C[],
): C[][] {
  const groups: C[][] = [];
  const done = new Set<string>();
  const known = new Set(components.map((component) => component.name));
  let rest = [...components];
  while (rest.length > 0) {
    // A need outside the list was started earlier or is not part of this start.
    const ready = rest.filter((component) =>
      component.needs.every((need) => done.has(need) || !known.has(need)),
    );
    if (ready.length === 0) {
      throw new Fault(
        "invalid",
        `components need each other in a circle: ${rest.map((component) => component.name).join(", ")}`,
      );
    }
    groups.push(ready);
    for (const component of ready) done.add(component.name);
    rest = rest.filter((component) => !done.has(component.name));
  }
  return groups;
}
