/** The border of the backend: what the system throws (a full disk, missing rights, a deadline) leaves it as a Fault. */
import { Fault, systemCode, toFault } from "@cocoon/core";

/** The same object, whose methods reject with Faults. Aborts pass as they are: they are not errors. */
export function withFaults<T extends object>(target: T): T {
  return new Proxy(target, {
    get: (object, key) => {
      const value: unknown = Reflect.get(object, key, object);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        const result: unknown = Reflect.apply(value, object, args);
        return result instanceof Promise ? result.catch(rethrow) : result;
      };
    },
  });
}

function rethrow(error: unknown): never {
  if (error instanceof Fault || (error instanceof Error && error.name === "AbortError")) throw error;
  const isSystem =
    systemCode(error) !== undefined || (error instanceof Error && error.name === "TimeoutError");
  throw isSystem ? toFault(error) : error;
}
