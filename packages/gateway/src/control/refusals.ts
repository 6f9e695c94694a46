/** What a create may ask for and cannot have: refused by name, never ignored. */
import { ApiError } from "../http/answer.ts";
import type { CreateBody } from "./shapes.ts";

const networkFields = new Set(["allowPublicTraffic"]);

export function refuseUnsupported(body: CreateBody): void {
  if (body.autoPauseMemory === false)
    throw new ApiError(400, "autoPauseMemory: a pause without memory is not offered", {
      errorCode: "sandbox_memory_override_disabled",
    });
  if (body.iam !== undefined && body.iam !== null) throw new ApiError(400, "iam: not offered");
  if (body.volumeMounts && body.volumeMounts.length > 0) throw new ApiError(400, "volumeMounts: not offered");
  if (body.allow_internet_access === false)
    throw new ApiError(
      400,
      "allow_internet_access: the network of this cluster cannot be closed for one sandbox",
    );
  for (const [field, value] of Object.entries(body.network ?? {}))
    if (!networkFields.has(field) && value !== null && !(Array.isArray(value) && value.length === 0))
      throw new ApiError(400, `network.${field}: not offered`);
}
