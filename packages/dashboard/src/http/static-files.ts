/**
 * The files of the page, read once and kept compressed. Names carry a hash of the content, except the entry's. The entry gets a
 * nonce with every answer: style elements that the terminal makes must carry it, all others are refused by the browser.
 */
import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname, join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { Fault, getErrorMessage } from "@cocoon/core";
import { contentPolicy } from "./answers.ts";

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

interface PageFile {
  readonly type: string;
  readonly packed: Buffer;
}

const entry = "/index.html";
const noncePlace = "{style-nonce}";

export class StaticFiles {
  readonly #files: ReadonlyMap<string, PageFile>;
  readonly #entry: string;

  private constructor(files: ReadonlyMap<string, PageFile>, page: string) {
    this.#files = files;
    this.#entry = page;
  }

  static empty(): StaticFiles {
    return new StaticFiles(new Map(), "The page is not built. Run: npm run build");
  }

  static async open(directory: string): Promise<StaticFiles> {
    const files = new Map<string, PageFile>();
    try {
      const found = await readdir(directory, { recursive: true, withFileTypes: true });
      for (const item of found.filter((each) => each.isFile())) {
        const path = join(item.parentPath, item.name);
        const type = types[extname(item.name)];
        if (type === undefined) continue;
        const content = await readFile(path);
        files.set(`/${relative(directory, path)}`, { type, packed: gzipSync(content, { level: 9 }) });
      }
    } catch (error) {
      throw new Fault("invalid", `--page ${directory}: ${getErrorMessage(error)}`, { cause: error });
    }
    const page = files.has(entry) ? await readFile(join(directory, entry), "utf8") : "";
    if (!page.includes(noncePlace))
      throw new Fault(
        "invalid",
        `--page ${directory}: index.html is missing or not of this version; build it again`,
      );
    return new StaticFiles(files, page);
  }

  /** Paths of the page's own routes answer with its entry; a file that is not there is 404. */
  serve(request: IncomingMessage, response: ServerResponse, path: string): void {
    const file = path === entry ? undefined : this.#files.get(path);
    if (file === undefined && !path.startsWith("/assets/")) return this.#serveEntry(request, response);
    if (file === undefined) {
      response.writeHead(404, { "content-type": "text/plain; charset=utf-8" }).end("not found\n");
      return;
    }
    const lasting = path.startsWith("/assets/");
    response.writeHead(200, {
      "content-type": file.type,
      "content-encoding": "gzip",
      "content-length": file.packed.length,
      "cache-control": lasting ? "public, max-age=31536000, immutable" : "no-cache",
    });
    response.end(request.method === "HEAD" ? undefined : file.packed);
  }

  #serveEntry(request: IncomingMessage, response: ServerResponse): void {
    const nonce = randomBytes(16).toString("base64");
    const page = Buffer.from(this.#entry.replaceAll(noncePlace, nonce));
    response.writeHead(200, {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": contentPolicy(nonce),
      "content-length": page.length,
      "cache-control": "no-store",
    });
    response.end(request.method === "HEAD" ? undefined : page);
  }
}
