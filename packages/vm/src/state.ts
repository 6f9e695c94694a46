/**
 * The states of a VM, and which action is legal in which state, as one table. Every backend asks this table
 * before it does anything; no backend has rules of its own.
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
}

const rules = {
  start: { from: ["created", "stopped", "error"], noop: ["running"] },
  stop: { from: ["running", "paused"], noop: ["created", "stopped", "error"] },
  pause: { from: ["running"], noop: ["paused"] },
  resume: { from: ["paused"], noop: ["running"] },
  reset: { from: ["running", "paused"] },
  save: { from: ["running", "paused"] },
  saveDisks: { from: ["created", "stopped", "error"] },
  fork: { from: ["running", "paused"] },
  restore: { from: ["running", "paused", "stopped", "error"] },
  remove: { from: ["created", "stopped", "error"] },
  removeByForce: { from: ["creating", "created", "running", "paused", "stopped", "error"] },
  exec: { from: ["running"] },
  openConsole: { from: ["running", "paused"] },
  openDisplay: { from: ["running", "paused"] },
  forward: { from: ["running", "paused"] },
} as const satisfies Readonly<Record<string, ActionRule>>;

export type VmAction = keyof typeof rules;

/** True when the action has something to do, false when it is already done. Throws `conflict` when it is not legal. */
export function assertPermitted(
  action: VmAction,
  vm: { readonly name: string; readonly state: VmState },
): boolean {
  const rule: ActionRule = rules[action];
  if (rule.from.includes(vm.state)) return true;
  if (rule.noop?.includes(vm.state)) return false;
  throw new Fault("conflict", formatRefusal(action, vm));
}

function formatRefusal(action: VmAction, vm: { readonly name: string; readonly state: VmState }): string {
  if (action === "remove" && liveStates.has(vm.state)) return `VM ${vm.name} is running (force required)`;
  const needed: readonly VmState[] = rules[action].from;
  const wording = needed.includes("running") && !liveStates.has(vm.state) ? "VM not running: " : "";
  return `${wording}cannot ${action} VM ${vm.name} in state ${vm.state}; it must be ${needed.join(" or ")}`;
}
