/** What can be asked of a machine, in the words of the API. */
export const hibernationActions = ["Hibernate", "Wake"] as const;
export type HibernationAction = (typeof hibernationActions)[number];
