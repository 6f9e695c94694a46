/** Help texts of commander's command trees: every option states its default. */
interface DescribedOption {
  description: string;
  readonly required: boolean;
  readonly optional: boolean;
  readonly defaultValue?: unknown;
}

interface DescribedCommand {
  readonly options: readonly DescribedOption[];
  readonly commands: readonly DescribedCommand[];
}

/** Flags are off and values none, unless the parser shows a default or the description names one. Changes the tree. */
export function stateDefaults({ options, commands }: DescribedCommand): void {
  for (const option of options) {
    const { description, defaultValue } = option;
    const isStated = /\bdefault\b|not used/.test(description) || defaultValue !== undefined;
    const fallback = option.required || option.optional ? "none" : "off";
    if (!isStated) option.description = `${description} (default: ${fallback})`;
  }
  for (const each of commands) stateDefaults(each);
}
