/** One source of generated files. Files are made in memory, so that a check can compare without writing. */
interface GeneratedFile {
  /** Relative to the repository. */
  readonly path: string;
  readonly content: string;
}

export interface Generator {
  readonly name: string;
  /** Files matching these patterns belong to this generator alone: those it no longer makes are removed. */
  readonly owns: readonly string[];
  generate(): GeneratedFile[] | Promise<GeneratedFile[]>;
}
