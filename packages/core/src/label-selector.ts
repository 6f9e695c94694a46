/**
 * Label selectors: the object form, the text form of list calls, and matching. An empty list of requirements matches everything;
 * Kubernetes reads an absent selector as "nothing", which callers decide.
 */
import { Fault } from "./fault.ts";

export type LabelOperator = "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt";

export interface LabelRequirement {
  readonly key: string;
  readonly operator: LabelOperator;
  readonly values: readonly string[];
}

/** As in `spec.selector` of a workload; Gt and Lt only appear in node affinity. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>> | undefined;
  readonly matchExpressions?:
    | readonly {
        readonly key: string;
        readonly operator: string;
        readonly values?: readonly string[] | undefined;
      }[]
    | undefined;
}

type Labels = Readonly<Record<string, string>>;

const namePart = /^(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const dnsSubdomain = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
const maxRequirements = 1_000;

/** A label or annotation key: an optional DNS prefix, then at most 63 characters. */
export function isQualifiedName(text: string): boolean {
  const slash = text.indexOf("/");
  const prefix = slash < 0 ? undefined : text.slice(0, slash);
  const name = slash < 0 ? text : text.slice(slash + 1);
  if (prefix !== undefined && (prefix.length > 253 || !dnsSubdomain.test(prefix))) return false;
  return name.length <= 63 && namePart.test(name);
}

export function isLabelValue(text: string): boolean {
  return text === "" || (text.length <= 63 && namePart.test(text));
}

export function parseRequirements(selector: LabelSelector): readonly LabelRequirement[] {
  const fromLabels = Object.entries(selector.matchLabels ?? {}).map(([key, value]) =>
    checked({ key, operator: "In", values: [value] }),
  );
  const fromExpressions = (selector.matchExpressions ?? []).map(({ key, operator, values = [] }) => {
    if (!isOperator(operator)) throw invalid(`unknown operator "${operator}" for label "${key}"`);
    return checked({ key, operator, values });
  });
  return limited([...fromLabels, ...fromExpressions]);
}

export function matchesLabels(requirements: readonly LabelRequirement[], labels: Labels = {}): boolean {
  return requirements.every((requirement) => matchesOne(requirement, labels));
}

function matchesOne({ key, operator, values }: LabelRequirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    default:
      return value !== undefined && compares(value, operator, values[0] ?? "");
  }
}

function compares(value: string, operator: "Gt" | "Lt", bound: string): boolean {
  if (!isInteger(value) || !isInteger(bound)) return false;
  return operator === "Gt" ? BigInt(value) > BigInt(bound) : BigInt(value) < BigInt(bound);
}

function isInteger(text: string): boolean {
  return /^[+-]?\d{1,19}$/.test(text);
}

export function formatLabelSelector(requirements: readonly LabelRequirement[]): string {
  return requirements.map(formatOne).join(",");
}

function formatOne({ key, operator, values }: LabelRequirement): string {
  switch (operator) {
    case "In":
      return values.length === 1
        ? `${key}=${values[0] ?? ""}`
        : `${key} in (${[...values].sort().join(",")})`;
    case "NotIn":
      return values.length === 1
        ? `${key}!=${values[0] ?? ""}`
        : `${key} notin (${[...values].sort().join(",")})`;
    case "Exists":
      return key;
    case "DoesNotExist":
      return `!${key}`;
    default:
      return `${key}${operator === "Gt" ? ">" : "<"}${values[0] ?? ""}`;
  }
}

function checked(requirement: LabelRequirement): LabelRequirement {
  const problem = findProblem(requirement);
  if (problem) throw invalid(problem);
  return requirement;
}

function findProblem({ key, operator, values }: LabelRequirement): string | undefined {
  if (!isQualifiedName(key)) return `"${key}" is not a label key`;
  const wrong = values.find((value) => !isLabelValue(value));
  if (wrong !== undefined) return `"${wrong}" is not a value that label "${key}" can have`;
  if ((operator === "Exists" || operator === "DoesNotExist") && values.length > 0)
    return `label "${key}": ${operator} takes no values`;
  if ((operator === "In" || operator === "NotIn") && values.length === 0)
    return `label "${key}": ${operator} needs at least one value`;
  if ((operator === "Gt" || operator === "Lt") && !(values.length === 1 && isInteger(values[0] ?? "")))
    return `label "${key}": ${operator} needs one whole number`;
  return undefined;
}

function limited(requirements: readonly LabelRequirement[]): readonly LabelRequirement[] {
  if (requirements.length > maxRequirements)
    throw invalid(`a label selector may have at most ${maxRequirements} requirements`);
  return requirements;
}

function isOperator(text: string): text is LabelOperator {
  return ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"].includes(text);
}

function invalid(message: string): Fault {
  return new Fault("invalid", message);
}
