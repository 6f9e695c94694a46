/** What must hold of a quota whatever the others are. */
import { compareQuantities } from "@cocoon/core/quantity";
import { quotaKey } from "../keys.ts";
import { quantityText, zero, type Resources } from "../resources.ts";
import type { Refusal } from "../rules.ts";
import type { Quota } from "./quota-tree.ts";

export function* selfRules(quota: Quota): Generator<Refusal> {
  for (const message of troubles(quota)) {
    yield { rule: "quota-self", message };
    return;
  }
}

function* troubles(quota: Quota): Generator<string> {
  const { name, max, min, sharedWeight } = quota;
  yield* negative(max, (keys) => `${name} quota.Spec.Max's value < 0, in dimensions :${keys}`);
  yield* negative(min, (keys) => `${name} quota.Spec.Min's value < 0, in dimensions :${keys}`);
  if (sharedWeight?.trouble !== undefined) yield sharedWeight.trouble;
  yield* negative(
    sharedWeight?.value ?? new Map(),
    (keys) => `${name} quota.Annotation[${quotaKey.sharedWeight}]'s value < 0, in dimension :${keys}`,
  );
  yield* minWithinMax(quota);
  yield* usedWithinMax(quota);
}

function* negative(list: Resources, wording: (keys: string) => string): Generator<string> {
  const keys = [...list].filter(([, quantity]) => compareQuantities(quantity, zero) < 0).map(([key]) => key);
  if (keys.length > 0) yield wording(`[${keys.toSorted().join(" ")}]`);
}

function* minWithinMax({ name, min, max }: Quota): Generator<string> {
  for (const [key, least] of min) {
    const most = max.get(key);
    if (!most) yield `resourceKey ${key} of quota ${name} is included in min, which is not included in max`;
    else if (compareQuantities(least, most) > 0)
      yield `resourceKey ${key} of quota ${name} min ${quantityText(least)} > max ${quantityText(most)}`;
  }
}

function* usedWithinMax({ name, strictKeys, used, max }: Quota): Generator<string> {
  for (const key of strictKeys) {
    const taken = used.get(key);
    if (!taken) continue;
    const most = max.get(key);
    if (!most)
      yield `resourceKey ${key} of quota ${name} is included in used, which is not included in max but should check max >= used`;
    else if (compareQuantities(most, taken) < 0)
      yield `resourceKey ${key} of quota ${name} max ${quantityText(most)} < used ${quantityText(taken)}`;
  }
}
