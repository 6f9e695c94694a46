/**
 * Fields of a JSON object, read by hand. A schema would make several objects for every field, and these pile up faster
 * than they are collected where thousands of sets a second are judged. null means not there, as Go has it.
 */
import type { JsonObject } from "@cocoon/kube/admission";

const maxProblems = 10;

export class ObjectReader {
  readonly #object: JsonObject;
  readonly #at: string;
  /** Shared with the readers of everything inside. */
  readonly #problems: string[];

  constructor(object: JsonObject, at = "", problems: string[] = []) {
    this.#object = object;
    this.#at = at;
    this.#problems = problems;
  }

  /** What has the wrong type, field by field; undefined when nothing has. */
  get problem(): string | undefined {
    return this.#problems.length === 0 ? undefined : this.#problems.slice(0, maxProblems).join("; ");
  }

  text(field: string): string {
    return this.maybeText(field) ?? "";
  }

  maybeText(field: string): string | undefined {
    const value = this.#object[field] ?? undefined;
    return value === undefined || typeof value === "string" ? value : this.#wrong(field, "a text");
  }

  /** Checks the types alone. */
  texts(fields: readonly string[], { nullable = true } = {}): void {
    for (const field of fields)
      if (this.#object[field] === null && !nullable) this.#wrong(field, "a text");
      else this.maybeText(field);
  }

  flag(field: string): boolean | undefined {
    const value = this.#object[field] ?? undefined;
    return value === undefined || typeof value === "boolean" ? value : this.#wrong(field, "true or false");
  }

  integer(field: string): number | undefined {
    const value = this.#object[field] ?? undefined;
    return value === undefined || Number.isSafeInteger(value)
      ? (value as number | undefined)
      : this.#wrong(field, "a whole number");
  }

  amount(field: string): string | number | undefined {
    const value = this.#object[field] ?? undefined;
    return value === undefined || typeof value === "string" || typeof value === "number"
      ? value
      : this.#wrong(field, "a quantity");
  }

  object(field: string): ObjectReader | undefined {
    const value = this.#object[field] ?? undefined;
    if (value === undefined) return undefined;
    if (!isObject(value)) return this.#wrong(field, "an object");
    return new ObjectReader(value, this.#path(field), this.#problems);
  }

  required(field: string): ObjectReader {
    const value = this.#object[field] ?? this.#wrong(field, "an object");
    return (value !== undefined ? this.object(field) : undefined) ?? new ObjectReader({});
  }

  objects(field: string): ObjectReader[] | undefined {
    const value = this.#object[field] ?? undefined;
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) return this.#wrong(field, "a list");
    return value.map((item: unknown, index) => {
      const at = `${field}[${index}]`;
      if (!isObject(item)) this.#wrong(at, "an object");
      return new ObjectReader(isObject(item) ? item : {}, this.#path(at), this.#problems);
    });
  }

  fields(): readonly string[] {
    return Object.keys(this.#object);
  }

  #wrong(field: string, wanted: string): undefined {
    this.#problems.push(`${this.#path(field)}: must be ${wanted}`);
    return undefined;
  }

  #path(field: string): string {
    return this.#at === "" ? field : `${this.#at}.${field}`;
  }
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
