/** Connects VMs to their networks: when they are made, and again before they start. */
import type { Abortable } from "@cocoon/core";
import type { NetworkSpec, NicPlan, VmNetwork } from "@cocoon/vm";
import type { QemuContext } from "../context.ts";
import type { VmRecord } from "../store/vm-record.ts";

export async function prepareNics(
  network: VmNetwork,
  record: VmRecord,
  { spec, ...options }: Abortable & { readonly spec: NetworkSpec },
): Promise<VmRecord["nics"]> {
  const request = { vmId: record.id, vmName: record.name, cpus: record.config.cpus, spec };
  return (await network.prepare(request, options)).map(asRecorded);
}

/** What a restart of the host took is made again; the addresses may be others then. */
export async function refreshNics(
  context: QemuContext,
  record: VmRecord,
  options: Abortable,
): Promise<VmRecord["nics"]> {
  const network = findVmNetwork(context, record);
  return network
    ? prepareNics(network, record, { spec: { nics: record.nics.length }, ...options })
    : record.nics;
}

/** The network that the VM was made on, also when another one has become the default since. */
export function findVmNetwork({ networks }: QemuContext, { config, nics }: VmRecord): VmNetwork | undefined {
  const [first] = nics;
  if (!first) return undefined;
  if (config.network !== undefined) return networks.get(config.network);
  return [...networks.values()].find(({ kind }) => kind === first.nic.backend);
}

/** Plain data, as the record keeps it. */
function asRecorded(plan: NicPlan): VmRecord["nics"][number] {
  const { searches, ...guest } = plan.guest;
  return {
    ...plan,
    nic: { ...plan.nic, forwards: [...plan.nic.forwards] },
    guest: { ...guest, dns: [...plan.guest.dns], ...(searches ? { searches: [...searches] } : {}) },
  };
}
