/** The commands of README.md, as somebody pastes them. */

/** The fenced blocks that are marked `sh`, in their order. */
export function shellBlocks(markdown: string): string[] {
  return [...markdown.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? '');
}

/** What stands where a reader would have to put something of their own: then the block cannot be pasted. */
export function placeholders(block: string): string[] {
  return block.match(/<[a-z][a-z ]*>|"\.\.\."|=\.\.\.(?=\s|$)/g) ?? [];
}
