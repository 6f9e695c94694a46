/** Objects of admission requests through a schema; what does not fit is told field by field. */
import type { JsonObject } from "@cocoon/kube/admission";
import type * as z from "zod";

export type Decoded<T> =
  | { readonly kind: "value"; readonly value: T }
  | { readonly kind: "fault"; readonly message: string };

export function decodeWith<T>(schema: z.ZodType<T>, object: JsonObject | undefined): Decoded<T> {
  const parsed = schema.safeParse(object);
  if (parsed.success) return { kind: "value", value: parsed.data };
  const message = parsed.error.issues
    .slice(0, 10)
    .map((issue) => `${pathOf(issue.path)}: ${issue.message}`)
    .join("; ");
  return { kind: "fault", message };
}

function pathOf(path: readonly PropertyKey[]): string {
  let text = "";
  for (const part of path) text += typeof part === "number" ? `[${part}]` : `.${String(part)}`;
  return text.slice(1) || "object";
}
