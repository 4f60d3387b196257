/** The commands of README.md, as somebody pastes them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../project.ts';

export const blocksOf = (page: string): string[] => shellBlocks(readFileSync(join(projectRoot, page), 'utf8'));

/** README's blocks that begin with `npm ci` and run a script of package.json: one of each is meant to be there. */
export function commandsFor(script: 'start' | 'test'): string[] {
  return blocksOf('README.md').filter((block) => new RegExp(`^npm ci && npm ${script}\\b`).test(block));
}

/** The fenced blocks that are marked `sh`, in their order. */
export function shellBlocks(markdown: string): string[] {
  return [...markdown.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? '');
}

/** What stands where a reader would have to put something of their own: then the block cannot be pasted. */
export function placeholders(block: string): string[] {
  return block.match(/<[a-z][a-z ]*>|"\.\.\."|=\.\.\.(?=\s|$)/g) ?? [];
}
