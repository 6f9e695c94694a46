/**
 * A run gets network, process and mount namespaces of its own: no port is shared with the host, registry traffic can be
 * redirected through a proxy, and every process of the run ends with it, however it ends. Nothing can leave: the
 * default route (which kube-apiserver wants to see) leads into a device without a peer.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";

const setup = `
ip link set lo up
ip tuntap add uplink mode tap 2>/dev/null || ip link add uplink type bridge
ip addr add 192.0.2.1/24 dev uplink
ip link set uplink up
ip route add default via 192.0.2.254
"$@"
exit $?`;

/** Runs a program in new namespaces and returns its exit code. Its processes are gone when this returns. */
export async function runIsolated(command: string, args: readonly string[]): Promise<number> {
  const asRoot = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
  const namespaces = ["--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"];
  const inside = ["sh", "-c", setup, "chaos", command, ...args];
  const child = spawn("unshare", [...asRoot, ...namespaces, ...inside], { stdio: "inherit" });
  // Ctrl-C reaches the whole foreground group: the run ends by itself and reports. A second one ends it at once.
  let interrupted = false;
  const onSignal = () => {
    if (interrupted) child.kill("SIGKILL");
    interrupted = true;
  };
  process.on("SIGINT", onSignal).on("SIGTERM", () => child.kill("SIGKILL"));
  const [code] = (await once(child, "close")) as [number | null];
  process.off("SIGINT", onSignal);
  return code ?? 1;
}
