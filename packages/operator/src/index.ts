/**
 * operator: keeps CocoonSets and CocoonHibernations as they are asked for, and serves the older API through them.
 *
 *   startOperator()   controllers on a client; `await using`
 *   cocoonset/        observe -> plan (pure) -> apply, for sets
 *   hibernation/      the same for single machines
 *   legacy/           objects of cocoon.cis/v1alpha1, kept in step with the current kinds
 *
 * It never touches a machine: kubelets do, by annotations of pods. It meets them, and all other parts, in the API
 * server and in the registry.
 */
export { migrateLegacy } from "./legacy/migrate.ts";
export { startOperator, type OperatorOptions, type RunningOperator } from "./start.ts";
