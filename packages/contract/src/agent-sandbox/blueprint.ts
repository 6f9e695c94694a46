/** What a Sandbox and a SandboxTemplate have in common: the pod, volumes, and whether there is a Service. */
import * as z from "zod";
import { field } from "../schema.ts";

const texts = (description: string) => z.record(z.string(), z.string()).meta({ description });
const anything = (description: string) =>
  z.looseObject({}).meta({ description, "x-kubernetes-preserve-unknown-fields": true });

export const childMetadata = z.object({
  name: field.text("Name of the object.", { max: 253 }).optional(),
  labels: texts("Labels of the object.").optional(),
  annotations: texts("Annotations of the object.").optional(),
});

const quantities = z
  .record(z.string(), field.quantity("An amount."))
  .meta({ description: "Amounts by resource." });

const volumeClaimSpec = z.object({
  accessModes: z
    .array(z.string().max(64))
    .max(8)
    .meta({ description: "Ways in which the volume is mounted." })
    .optional(),
  resources: z
    .object({ requests: quantities.optional(), limits: quantities.optional() })
    .meta({ description: "Size of the volume." })
    .optional(),
  storageClassName: field.text("Class of the volume.", { max: 253 }).optional(),
  volumeMode: field.text("Filesystem or Block.", { max: 64 }).optional(),
  volumeName: field.text("Name of an existing volume.", { max: 253 }).optional(),
  volumeAttributesClassName: field.text("Class of the volume's attributes.", { max: 253 }).optional(),
  selector: anything("Labels of the volume.").optional(),
  dataSource: anything("What the volume is filled from.").optional(),
  dataSourceRef: anything("What the volume is filled from.").optional(),
});

export const volumeClaimTemplates = z
  .array(
    z.object({
      metadata: childMetadata.meta({ description: "Name, labels and annotations of the claim." }).optional(),
      spec: volumeClaimSpec.meta({ description: "As in a PersistentVolumeClaim." }),
    }),
  )
  .max(32)
  .meta({
    description:
      "Volumes of the pod. Machines cannot mount them: a Sandbox with one reports it and has no pod.",
    "x-kubernetes-list-type": "atomic",
  });

export const blueprint = {
  podTemplate: z
    .object({
      metadata: childMetadata.meta({ description: "Labels and annotations of the pod." }).optional(),
      spec: anything("As in a pod; the API server checks it when the pod is created."),
    })
    .meta({ description: "The pod that is made." }),
  volumeClaimTemplates: volumeClaimTemplates.optional(),
  service: field
    .flag("Whether a headless Service is kept; when not set, none is made and an existing one stays.")
    .optional(),
} as const;

export type PodTemplateInput = z.output<(typeof blueprint)["podTemplate"]>;
