/** The machines that a pod or a CocoonSet wants to start from: images that are snapshots of a machine, and forks. */
import {
  annotation,
  legacyAnnotation,
  tryParseImageReference,
  vmName as formatVmName,
} from "@cocoon/contract";
import type { Pod } from "@cocoon/kube";
import type { SpecShape } from "../handlers/cocoonset-shape.ts";

export interface MachineSource {
  readonly field: string;
  readonly text: string;
  readonly vmName: string;
}

/** At least namespace and pod: `vk-tools` is no machine. */
const machinePattern = /^vk-[a-z0-9](?:[a-z0-9-]*[a-z0-9])?-[a-zA-Z0-9][a-zA-Z0-9._-]*$/;

export function isMachineName(text: string): boolean {
  return machinePattern.test(text);
}

/** The machine whose snapshot an image is; undefined for any other image. */
export function findMachineOfImage(image: string): string | undefined {
  const reference = tryParseImageReference(image);
  if (!reference) return undefined;
  const path = reference.kind === "url" ? new URL(reference.url).pathname : reference.repository;
  return path
    .split("/")
    .map((segment) => segment.split(":", 1)[0] ?? "")
    .findLast(isMachineName);
}

export function readPodSources({ metadata: { annotations = {} }, spec }: Pod): MachineSource[] {
  const field = (key: string) => `metadata.annotations["${key}"]`;
  const images = [annotation.image, legacyAnnotation.image].map((key) => [field(key), annotations[key]]);
  const containers = (spec?.containers ?? []).map(({ image }, index) => [
    `spec.containers[${index}].image`,
    image,
  ]);
  const forks = [annotation.forkFrom, legacyAnnotation.forkFrom].map((key) => [field(key), annotations[key]]);
  return [
    ...[...images, ...containers].flatMap(([at, text]) => sourceOfImage(at, text)),
    ...forks.flatMap(([at = "", text]) => (text ? [{ field: at, text, vmName: text }] : [])),
  ];
}

function sourceOfImage(field = "", text = ""): MachineSource[] {
  const vmName = findMachineOfImage(text);
  return vmName === undefined ? [] : [{ field, text, vmName }];
}

export function readSetSources({ agent, toolboxes }: SpecShape, namespace: string): MachineSource[] {
  const from = agent?.from;
  const source = from && formatVmName({ namespace: from.namespace || namespace, set: from.set }, from.slot);
  return [
    ...sourceOfImage("spec.agent.image", agent?.image),
    ...(source ? [{ field: "spec.agent.from", text: source, vmName: source }] : []),
    ...(toolboxes ?? []).flatMap(({ image }, index) =>
      sourceOfImage(`spec.toolboxes[${index}].image`, image),
    ),
  ];
}
