/**
 * What the webhook did to a pod, noted on the pod itself. The API server calls a second time about a pod that another webhook
 * changed after us (`reinvocationPolicy: IfNeeded`); then everything of ours is taken off first and decided again, so
 * that the pod comes out the same whichever webhook was first. Trusted only when the store still waits for the pod.
 */
import { annotation } from "@cocoon/contract";
import { tryParseJson } from "@cocoon/core";
import * as z from "zod";
import type { Placement } from "../nodes/placement.ts";
import { withoutNode } from "./node-requirement.ts";
import type { AdmittedPod } from "./read-pod.ts";

export const deletionCost = "controller.kubernetes.io/pod-deletion-cost";

const always: readonly string[] = [annotation.vmName, annotation.reservation, annotation.admission];
/** Annotations that are added where the pod has none. */
const optional: readonly string[] = [annotation.image, annotation.managed, annotation.os, deletionCost];

const noteSchema = z.object({
  pin: z.enum(["none", "nodeName", "affinity"]),
  /** Where the machine ran before; empty for a new one. */
  from: z.string().max(253).default(""),
  /** Digest of what the pod requested of its node. */
  shape: z.string().max(64),
  /** Annotations that the pod had not. */
  added: z.record(z.string().max(253), z.string().max(1_024)),
});
export type AdmissionNote = Readonly<z.infer<typeof noteSchema>>;

export function writeNote({ pin, from, shape, added }: AdmissionNote): string {
  return JSON.stringify({ pin, ...(from === "" ? {} : { from }), shape, added });
}

/** Undefined for a pod that was not admitted before, or whose note is not ours. */
export function tryReadNote({ metadata: { annotations } }: AdmittedPod): AdmissionNote | undefined {
  const text = annotations?.[annotation.admission];
  if (text === undefined || text.length > 4_096) return undefined;
  return noteSchema.safeParse(tryParseJson(text)).data;
}

/** The pod without what we added to it; `node` is the one it was pinned to. */
export function asItCame(pod: AdmittedPod, { pin, added }: AdmissionNote, node: string): AdmittedPod {
  // What another webhook has changed since stays.
  const isOurs = (key: string, value: string) =>
    always.includes(key) || (optional.includes(key) && added[key] === value);
  const all = Object.entries(pod.metadata.annotations ?? {});
  const kept = all.filter(([key, value]) => !isOurs(key, value));
  const metadata = { ...pod.metadata, annotations: Object.fromEntries(kept) };
  return { ...pod, metadata, spec: unpinned(pod.spec, pin, node) };
}

function unpinned(spec: AdmittedPod["spec"], pin: Placement["pin"], node: string): AdmittedPod["spec"] {
  if (pin === "nodeName" && spec.nodeName === node) {
    const { nodeName: _ours, ...rest } = spec;
    return rest;
  }
  if (pin !== "affinity" || !spec.affinity) return spec;
  const { affinity, ...rest } = spec;
  const left = withoutNode(affinity, node);
  return left ? { ...rest, affinity: left } : rest;
}
