/** Deeds as lines for a shell. */
import { shellWord } from './shell-word.ts';

/** `troupe ...`: words that are undefined are left out. */
export function troupeLine(...words: readonly (string | undefined)[]): string {
  return ['troupe', ...words.filter((word) => word !== undefined).map(shellWord)].join(' ');
}

/** The same as a request, with a token that the reader puts in. */
export function curlLine(method: string, path: string, body?: unknown): string {
  const address = shellWord(`${location.origin}${path}`);
  const head = `curl -X ${method} ${address} \\\n  -H "Authorization: Bearer $TROUPE_TOKEN"`;
  return body === undefined ? head : `${head} \\\n  -d ${shellWord(JSON.stringify(body))}`;
}
