/** CocoonHibernations that are accepted and refused; the object is named like the pod unless the case says otherwise. */
import { accepts, refuses, type SchemaCase } from "./schema-case.ts";

const hibernation = (
  podName: string,
  desire = "Hibernate",
  more: Readonly<Record<string, unknown>> = {},
) => ({
  podRef: { name: podName },
  desire,
  ...more,
});

export const hibernationCases: readonly SchemaCase[] = [
  accepts("sleep", hibernation("atlas-1"), { objectName: "atlas-1" }),
  accepts("wake", hibernation("atlas-2", "Wake"), { objectName: "atlas-2" }),
  accepts("sleep, then wake", hibernation("atlas-3", "Wake"), {
    objectName: "atlas-3",
    from: hibernation("atlas-3"),
  }),
  accepts(
    "wake on deletion",
    hibernation("atlas-4", "Hibernate", { deletionPolicy: "Wake", timeout: "10m" }),
    {
      objectName: "atlas-4",
    },
  ),
  {
    ...refuses(
      "named otherwise than its pod",
      hibernation("atlas-5"),
      "metadata.name must equal spec.podRef.name",
    ),
    objectName: "nap",
  },
  {
    ...refuses("another pod", hibernation("atlas-7"), "spec.podRef is immutable"),
    objectName: "atlas-6",
    from: hibernation("atlas-6"),
  },
  refuses("no spec", undefined, "spec is required"),
  refuses("no pod", { desire: "Wake" }, "spec.podRef: Required value"),
  refuses("a pod without name", { podRef: {}, desire: "Wake" }, "spec.podRef.name: Required value"),
  refuses("a pod with an empty name", hibernation(""), "spec.podRef.name"),
  {
    ...refuses("no desire", { podRef: { name: "atlas-8" } }, "spec.desire: Required value"),
    objectName: "atlas-8",
  },
  {
    ...refuses("another desire", hibernation("atlas-9", "Sleep"), "spec.desire: Unsupported value"),
    objectName: "atlas-9",
  },
  {
    ...refuses("desire in small letters", hibernation("atlas-10", "wake"), "spec.desire: Unsupported value"),
    objectName: "atlas-10",
  },
  {
    ...refuses(
      "unknown deletionPolicy",
      hibernation("atlas-11", "Wake", { deletionPolicy: "Purge" }),
      "spec.deletionPolicy: Unsupported value",
    ),
    objectName: "atlas-11",
  },
  {
    ...refuses(
      "no time at all",
      hibernation("atlas-12", "Wake", { timeout: "1s" }),
      "spec.timeout",
      "must be at least 10s",
    ),
    objectName: "atlas-12",
  },
];
