/**
 * Stands between one part and the API server, so that the part's caches can be made stale: while watches are held back,
 * their events do not arrive; everything else passes. The part's own client certificate is used upstream.
 */
import { readFile, writeFile } from "node:fs/promises";
import { Agent, createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Transform } from "node:stream";
import { clusterLayout, pkiFiles, readClusterState } from "@cocoon/controlplane";
import { eventually } from "@cocoon/testkit";
import { signalPart, type PartName } from "./parts.ts";
import type { Platform } from "./platform.ts";

export interface ApiProxy extends AsyncDisposable {
  /** Watches of this resource, such as `/pods`, stand still from now on. */
  holdWatches(resource: string): void;
  /** Held events arrive, in their order. */
  releaseWatches(): void;
}

interface Hold {
  resource: string | undefined;
  readonly waiting: Set<() => void>;
}

/** Restarts the part behind the proxy; disposing restarts it without. */
export async function startApiProxy(platform: Platform, part: PartName, identity: string): Promise<ApiProxy> {
  const layout = clusterLayout(platform.home);
  const state = await readClusterState(layout);
  if (!state) throw new Error(`${platform.home} holds no cluster`);
  const { ca, leaf } = pkiFiles(layout.pki);
  const identities = join(platform.home, "parts", "identities");
  const kubeconfig = join(identities, `${identity}.kubeconfig`);
  const direct = await readFile(kubeconfig, "utf8");
  const upstream = new Agent({
    keepAlive: true,
    ca: await readFile(ca.certificate),
    cert: await readFile(join(identities, `${identity}.crt`)),
    key: await readFile(join(identities, `${identity}.key`)),
  });
  const hold: Hold = { resource: undefined, waiting: new Set() };
  const tls = { cert: await readFile(leaf.apiserver.certificate), key: await readFile(leaf.apiserver.key) };
  const server = createServer(tls, (req, res) => {
    const { method, url: path = "/", headers } = req;
    const target = { host: "127.0.0.1", port: state.ports.apiserver, agent: upstream, method, path, headers };
    const out = request(target, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      const held = path.includes("watch=") ? answer.pipe(holdBack(hold, path)) : answer;
      held.pipe(res);
    });
    out.on("error", () => res.destroy());
    res.on("close", () => out.destroy());
    req.pipe(out);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const restartWith = async (text: string) => {
    await writeFile(kubeconfig, text);
    await signalPart(platform.home, part, "SIGKILL");
    await eventually(() => platform.probes.probe(part), { timeoutMs: 90_000, signal: platform.signal });
  };
  await restartWith(direct.replace(/127\.0\.0\.1:\d+/g, `127.0.0.1:${port}`));
  const release = () => {
    hold.resource = undefined;
    for (const resume of hold.waiting) resume();
    hold.waiting.clear();
  };
  return {
    holdWatches: (resource) => void (hold.resource = resource),
    releaseWatches: release,
    [Symbol.asyncDispose]: async () => {
      release();
      await restartWith(direct);
      upstream.destroy();
      server.closeAllConnections();
      server.close();
    },
  };
}

function holdBack(hold: Hold, path: string): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const pass = () => done(null, chunk);
      if (hold.resource !== undefined && path.includes(hold.resource)) hold.waiting.add(pass);
      else pass();
    },
  });
}
