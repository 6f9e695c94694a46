/**
 * The states of a VM, and which action is legal in which state, as one table. Every backend asks this table
 * before it does anything; nobody keeps a second opinion.
 *
 *             create            start
 *   (nothing) ──────► creating ───────► running ◄──resume── paused
 *                        │                │  └────pause───────▲
 *                        │ created        │ stop, power-off, crash
 *                        ▼                ▼
 *                     created ──start──► stopped ──start──► running
 *
 * `error` is reached from `creating` and from a failed start or restore; start and remove lead out of it.
 * `creating` is left by the process that creates, or, when that process died, by the next one that opens the
 * store: a half-made VM is then removed.
 */
import { Fault } from "@cocoon/core";

export const vmStates = ["creating", "created", "running", "paused", "stopped", "error"] as const;
export type VmState = (typeof vmStates)[number];

/** States in which a hypervisor process holds the guest. */
export const liveStates: ReadonlySet<VmState> = new Set<VmState>(["running", "paused"]);

interface ActionRule {
  /** States in which the action does something. */
  readonly from: readonly VmState[];
  /** States in which the action is already done: success without effect. */
  readonly noop?: readonly VmState[];
  /** The state after success; absent when the action leaves it alone. */
  readonly to?: VmState;
}

const rules = {
  start: { from: ["created", "stopped", "error"], noop: ["running"], to: "running" },
  stop: { from: ["running", "paused"], noop: ["created", "stopped", "error"], to: "stopped" },
  pause: { from: ["running"], noop: ["paused"], to: "paused" },
  resume: { from: ["paused"], noop: ["running"], to: "running" },
  reset: { from: ["running", "paused"], to: "running" },
  save: { from: ["running", "paused"] },
  fork: { from: ["running", "paused"] },
  restore: { from: ["running", "paused", "stopped", "error"], to: "running" },
  remove: { from: ["created", "stopped", "error"] },
  removeByForce: { from: ["creating", "created", "running", "paused", "stopped", "error"] },
  exec: { from: ["running"] },
  openConsole: { from: ["running", "paused"] },
  openDisplay: { from: ["running", "paused"] },
  forward: { from: ["running", "paused"] },
} as const satisfies Readonly<Record<string, ActionRule>>;

export type VmAction = keyof typeof rules;
export const vmActions: readonly VmAction[] = Object.keys(rules).filter(
  (name) => name in rules,
) as VmAction[];

export type Permission = "act" | "noop" | "refuse";

/** Whether the action does something, is already done, or is not legal in that state. */
export function permission(action: VmAction, state: VmState): Permission {
  const rule: ActionRule = rules[action];
  if (rule.from.includes(state)) return "act";
  return rule.noop?.includes(state) ? "noop" : "refuse";
}

/** The state after the action has succeeded. */
export function stateAfter(action: VmAction, state: VmState): VmState {
  const rule: ActionRule = rules[action];
  return permission(action, state) === "act" ? (rule.to ?? state) : state;
}

/** Throws `conflict` when the action is not legal; says whether there is anything to do. */
export function assertPermitted(
  action: VmAction,
  vm: { readonly name: string; readonly state: VmState },
): boolean {
  const verdict = permission(action, vm.state);
  if (verdict === "refuse") throw new Fault("conflict", refusal(action, vm));
  return verdict === "act";
}

function refusal(action: VmAction, vm: { readonly name: string; readonly state: VmState }): string {
  if (action === "remove" && liveStates.has(vm.state)) return `VM ${vm.name} is running (force required)`;
  const needed: readonly VmState[] = rules[action].from;
  const wording = needed.includes("running") && !liveStates.has(vm.state) ? "VM not running: " : "";
  return `${wording}cannot ${action} VM ${vm.name} in state ${vm.state}; it must be ${needed.join(" or ")}`;
}
