/** What a create may ask for and cannot have: refused by name, never ignored. */
import { ApiError } from "../http/answer.ts";
import type { CreateBody } from "./shapes.ts";

const networkFields = new Set(["allowPublicTraffic", "allowOut", "denyOut"]);

export function refuseUnsupported(body: CreateBody): void {
  if (body.autoPauseMemory === false)
    throw new ApiError(400, "autoPauseMemory: a pause without memory is not offered", {
      errorCode: "sandbox_memory_override_disabled",
    });
  if (body.iam !== undefined && body.iam !== null) throw new ApiError(400, "iam: not offered");
  if (body.volumeMounts && body.volumeMounts.length > 0) throw new ApiError(400, "volumeMounts: not offered");
  refuseNetworkFields(body.network ?? {}, "network.");
}

export function refuseNetworkFields(network: Readonly<Record<string, unknown>>, prefix = ""): void {
  for (const [field, value] of Object.entries(network))
    if (!networkFields.has(field) && value !== null && !(Array.isArray(value) && value.length === 0))
      throw new ApiError(400, `${prefix}${field}: not offered`);
}
