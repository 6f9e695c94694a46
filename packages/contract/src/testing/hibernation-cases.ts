/** CocoonHibernations that are accepted and refused; the object is named like the pod unless the case says otherwise. */
import { accepts, refuses, type SchemaCase } from "./schema-case.ts";

const wish = (podName: string, desire = "Hibernate", more: Readonly<Record<string, unknown>> = {}) => ({
  podRef: { name: podName },
  desire,
  ...more,
});

export const hibernationCases: readonly SchemaCase[] = [
  accepts("sleep", wish("atlas-1"), { objectName: "atlas-1" }),
  accepts("wake", wish("atlas-2", "Wake"), { objectName: "atlas-2" }),
  accepts("sleep, then wake", wish("atlas-3", "Wake"), { objectName: "atlas-3", from: wish("atlas-3") }),
  accepts("wake on deletion", wish("atlas-4", "Hibernate", { deletionPolicy: "Wake", timeout: "10m" }), {
    objectName: "atlas-4",
  }),
  {
    ...refuses("named otherwise than its pod", wish("atlas-5"), "metadata.name must equal spec.podRef.name"),
    objectName: "nap",
  },
  {
    ...refuses("another pod", wish("atlas-7"), "spec.podRef is immutable"),
    objectName: "atlas-6",
    from: wish("atlas-6"),
  },
  refuses("no spec", undefined, "spec is required"),
  refuses("no pod", { desire: "Wake" }, "spec.podRef: Required value"),
  refuses("a pod without name", { podRef: {}, desire: "Wake" }, "spec.podRef.name: Required value"),
  refuses("a pod with an empty name", wish(""), "spec.podRef.name"),
  {
    ...refuses("no desire", { podRef: { name: "atlas-8" } }, "spec.desire: Required value"),
    objectName: "atlas-8",
  },
  {
    ...refuses("another desire", wish("atlas-9", "Sleep"), "spec.desire: Unsupported value"),
    objectName: "atlas-9",
  },
  {
    ...refuses("desire in small letters", wish("atlas-10", "wake"), "spec.desire: Unsupported value"),
    objectName: "atlas-10",
  },
  {
    ...refuses(
      "unknown deletionPolicy",
      wish("atlas-11", "Wake", { deletionPolicy: "Purge" }),
      "spec.deletionPolicy: Unsupported value",
    ),
    objectName: "atlas-11",
  },
  {
    ...refuses(
      "no time at all",
      wish("atlas-12", "Wake", { timeout: "1s" }),
      "spec.timeout",
      "must be at least 10s",
    ),
    objectName: "atlas-12",
  },
];
