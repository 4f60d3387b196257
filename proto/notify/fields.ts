/** Limits that several endpoints of notifications share. */

/** Longest category, in characters: of notifications as of mutes, webhooks and mail. */
export const MAX_CATEGORY_LENGTH = 64;
