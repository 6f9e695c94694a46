/**
 * Annotation `boot-fresh`: names pods whose machines may start from their image although they had a state before. It
 * answers one question: once the named machine is there and has not failed, the name is removed.
 */
import { setAnnotation } from "@cocoon/contract";
import type { Draft } from "./draft.ts";

function readAllowed({ observed }: Draft): readonly string[] {
  const text = observed.set.metadata.annotations?.[setAnnotation.bootFresh] ?? "";
  return text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

export function isBootFreshAllowed(draft: Draft, podName: string): boolean {
  return readAllowed(draft).includes(podName);
}

export function planBootFresh(draft: Draft): void {
  const names = readAllowed(draft);
  const settled = new Set(
    draft.observed.machines
      .filter(({ failed, terminating }) => !failed && !terminating)
      .map(({ podName }) => podName),
  );
  const left = names.filter((name) => !settled.has(name));
  if (left.length < names.length)
    draft.do({ kind: "annotateSet", wanted: { [setAnnotation.bootFresh]: left.join(",") || null } });
}

/** How to permit it, for problems. */
export function bootFreshHint(podName: string): string {
  return `nothing is booted in its place unless annotation ${setAnnotation.bootFresh} names ${podName}`;
}
