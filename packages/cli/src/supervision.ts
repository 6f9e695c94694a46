/** The supervisor restarts the other parts; the next command that uses the platform restarts the supervisor. */
import { isAlive, tryLockFile } from "@cocoon/core";
import { launchComponent, readRecord } from "@cocoon/controlplane";
import { lockPath } from "./home.ts";
import { supervisorName } from "./parts/supervisor-part.ts";

/** True when it had ended without being stopped and was started again. Does nothing while another command works there. */
export async function ensureSupervisor(directory: string): Promise<boolean> {
  const record = await readRecord(directory, supervisorName);
  if (!record || isAlive(record.identity)) return false;
  using lock = tryLockFile(lockPath(directory));
  if (!lock) return false;
  const { knownPlatform } = await import("./platform.ts");
  const platform = await knownPlatform(directory, process.env);
  const component = platform?.components.find(({ name }) => name === supervisorName);
  if (!component) return false;
  await launchComponent(component, { directory });
  process.stderr.write("The supervisor had ended; it was started again.\n");
  return true;
}
