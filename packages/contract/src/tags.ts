/** Registry tags of a machine's repository. */
export const hibernateTag = "hibernate";
export const latestTag = "latest";

const releasedPattern = /^released-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;

/** The tag a slot's `hibernate` gets when the slot is given up: a later machine of that number boots fresh. */
export function releasedTag(at: Date): string {
  const compact = at.toISOString().replaceAll(/[-:]|\.\d+/g, "");
  return `released-${compact}`;
}

/** When the slot of this tag was given up; undefined for any other tag. */
export function tryReadReleasedTag(tag: string): Date | undefined {
  const match = releasedPattern.exec(tag);
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second] = match;
  const at = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(at.getTime()) || releasedTag(at) !== tag ? undefined : at;
}
