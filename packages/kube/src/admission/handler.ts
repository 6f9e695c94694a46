/** Handlers: pure functions from a request to a verdict, and what may be wrapped around them. */
import { Fault, type FieldCause, type Logger } from "@cocoon/core";
import type * as z from "zod";
import type { AdmissionRequest, JsonObject } from "./request.ts";
import { denyFault, type Verdict } from "./verdict.ts";

export interface AdmissionContext {
  /** Aborts when the time is over, when the API server hangs up and when the server is cut off at its end. */
  readonly signal: AbortSignal;
  /** Carries the handler's name and the request's uid. */
  readonly log: Logger;
  /** Time that the handler has from the arrival of the request. */
  readonly budgetMs: number;
  /** Address of the caller; behind a load balancer that one's. */
  readonly client: string;
}

/** What a handler may return; nothing means allowed. */
export type Decision = Verdict | undefined | void;

/** May answer at once or later. A throw is a failure of ours: the API server is told 500 and its failurePolicy decides. */
export type AdmissionHandler = (
  request: AdmissionRequest,
  context: AdmissionContext,
) => Decision | Promise<Decision>;

/** Wraps a handler when the server starts: rate limits, audit, feature gates. Costs nothing where there is none. */
export type Middleware = (next: AdmissionHandler, endpoint: { readonly name: string }) => AdmissionHandler;

/** Checks one object: a zod schema, or a function that throws an `invalid` fault with the causes. */
export type ObjectReader<T> = z.ZodType<T> | ((object: JsonObject) => T);

export interface TypedRequest<T> extends Omit<AdmissionRequest, "object" | "oldObject"> {
  readonly object: T | undefined;
  readonly oldObject: T | undefined;
  /**
   * Why the stored object could not be read, when it could not: rules come later than objects, and what was stored
   * before them must stay repairable and deletable.
   */
  readonly oldObjectFault: Fault | undefined;
  /** The object as it came, for patches: they must fit what is really there. */
  readonly rawObject: JsonObject | undefined;
}

/** A handler that sees typed objects; one that the reader refuses is denied with the reader's causes. */
export function reviewing<T>(
  reader: ObjectReader<T>,
  handler: (request: TypedRequest<T>, context: AdmissionContext) => Decision | Promise<Decision>,
): AdmissionHandler {
  const read = readerOf(reader);
  return (request, context) => {
    const object = read(request.object);
    if (object.fault) return denyFault(object.fault);
    const old = read(request.oldObject);
    const typed = {
      ...request,
      object: object.value,
      oldObject: old.value,
      oldObjectFault: old.fault,
      rawObject: request.object,
    };
    return handler(typed, context);
  };
}

interface ReadResult<T> {
  readonly value?: T | undefined;
  readonly fault?: Fault | undefined;
}

function readerOf<T>(reader: ObjectReader<T>): (object: JsonObject | undefined) => ReadResult<T> {
  const readOne =
    typeof reader === "function" ? reader : (object: JsonObject) => readWithSchema(reader, object);
  return (object) => {
    if (object === undefined) return {};
    try {
      return { value: readOne(object) };
    } catch (error) {
      if (error instanceof Fault && !error.traits.retry) return { fault: error };
      throw error;
    }
  };
}

function readWithSchema<T>(schema: z.ZodType<T>, object: JsonObject): T {
  const parsed = schema.safeParse(object);
  if (parsed.success) return parsed.data;
  const causes: FieldCause[] = parsed.error.issues.map((issue) => ({
    field: fieldPath(issue.path),
    message: issue.message,
  }));
  const message = causes.map((cause) => `${cause.field}: ${cause.message}`).join("; ");
  throw new Fault("invalid", message, { causes });
}

/** `spec.containers[0].image`, as Kubernetes writes field paths. */
function fieldPath(path: readonly PropertyKey[]): string {
  let text = "";
  for (const segment of path)
    text += typeof segment === "number" ? `[${segment}]` : `${text === "" ? "" : "."}${String(segment)}`;
  return text === "" ? "<object>" : text;
}
