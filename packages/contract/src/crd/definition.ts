/** A CustomResourceDefinition as an object: names, columns and subresources around a structural schema. */
import type * as z from "zod";
import { structuralSchema, type StructuralSchema } from "./structural-schema.ts";

export interface PrinterColumn {
  readonly name: string;
  readonly type: "string" | "integer" | "boolean" | "date";
  readonly jsonPath: string;
  readonly description?: string;
  /** 1 shows the column only with `-o wide`. */
  readonly priority?: number;
}

interface Scale {
  readonly specReplicasPath: string;
  readonly statusReplicasPath: string;
  readonly labelSelectorPath: string;
}

export interface ResourceDefinition {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly columns: readonly PrinterColumn[];
  readonly scale?: Scale;
  readonly schema: z.ZodType;
}

export interface CustomResourceDefinition {
  readonly apiVersion: "apiextensions.k8s.io/v1";
  readonly kind: "CustomResourceDefinition";
  readonly metadata: { readonly name: string };
  readonly spec: Readonly<Record<string, unknown>> & {
    readonly versions: readonly (Readonly<Record<string, unknown>> & {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: StructuralSchema };
    })[];
  };
}

export const ageColumn: PrinterColumn = {
  name: "Age",
  type: "date",
  jsonPath: ".metadata.creationTimestamp",
};

export function customResourceDefinition(definition: ResourceDefinition): CustomResourceDefinition {
  const { group, version, kind, plural, singular, shortNames, categories, columns, scale } = definition;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular,
        shortNames,
        ...(categories.length === 0 ? {} : { categories }),
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {}, ...(scale === undefined ? {} : { scale }) },
          additionalPrinterColumns: columns,
          schema: { openAPIV3Schema: rootSchema(definition.schema) },
        },
      ],
    },
  };
}

function rootSchema(schema: z.ZodType): StructuralSchema {
  const { properties, ...root } = structuralSchema(schema);
  return {
    ...root,
    properties: {
      apiVersion: { description: "Version of the API that this object is written in.", type: "string" },
      kind: { description: "Kind of this object.", type: "string" },
      metadata: { type: "object" }, // the API server fills in the rest and allows no description
      ...properties,
    },
  };
}
