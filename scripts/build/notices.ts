/** What a release consists of that is not ours: a bill of materials, and the texts of the licences. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";

const root = join(import.meta.dirname, "../..");

const bill = z.looseObject({
  components: z.array(
    z.looseObject({
      "bom-ref": z.string(),
      properties: z.array(z.object({ name: z.string(), value: z.string() })).default([]),
    }),
  ),
  dependencies: z.array(z.looseObject({ ref: z.string(), dependsOn: z.array(z.string()).default([]) })),
});

/** CycloneDX, as npm makes it from the lock file; without what only builds and tests need. */
export function softwareBill(): string {
  const text = execFileSync("npm", ["sbom", "--sbom-format", "cyclonedx", "--package-lock-only"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 1 << 26,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const { components, dependencies, ...rest } = bill.parse(JSON.parse(text));
  // `--omit dev` would also leave out what the root needs for tests and a program needs to run.
  const tools = new Set(components.filter(isTool).map((component) => component["bom-ref"]));
  const shipped = {
    ...rest,
    components: components.filter((component) => !tools.has(component["bom-ref"])),
    dependencies: dependencies
      .filter(({ ref }) => !tools.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => !tools.has(each)) })),
  };
  return `${JSON.stringify(shipped, null, 2)}\n`;
}

function isTool({ properties }: z.infer<typeof bill>["components"][number]): boolean {
  return properties.some(({ name, value }) => name === "cdx:npm:package:development" && value === "true");
}

const lockFile = z.object({
  packages: z.record(
    z.string(),
    z.object({
      version: z.string().optional(),
      license: z.string().optional(),
      dev: z.boolean().optional(),
      link: z.boolean().optional(),
    }),
  ),
});

const licenceFile = /^(licen[cs]e|copying|notice)(\.|-|$)/i;

/** One section for each package that is part of a release, Node included: it is inside the executable. */
export async function licences(): Promise<string> {
  const { packages } = lockFile.parse(JSON.parse(await readFile(join(root, "package-lock.json"), "utf8")));
  const sections: string[] = [];
  for (const [path, entry] of Object.entries(packages).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    if (!path.includes("node_modules/") || entry.dev || entry.link || !existsSync(join(root, path))) continue;
    const name = path.replace(/^.*node_modules\//, "");
    const texts = await licenceTexts(join(root, path));
    const text = texts.length > 0 ? texts.join("\n\n") : "(the package brings no text of its licence)";
    sections.push(`${name} ${entry.version ?? ""} (${entry.license ?? "see below"})\n\n${text.trim()}\n`);
  }
  return sections.join(`\n${"-".repeat(80)}\n\n`);
}

async function licenceTexts(directory: string): Promise<string[]> {
  const names = (await readdir(directory)).filter((name) => licenceFile.test(name)).toSorted();
  return Promise.all(names.map((name) => readFile(join(directory, name), "utf8")));
}
