/** Where SQL may name a table: with the room that owns it (storage/ownership.ts). */
import { OWNED, SHARED_FILES } from '../../storage/ownership.ts';

/** A line that names a table of another room, from 1, and which. */
export interface ForeignTable {
  readonly line: number;
  readonly message: string;
}

const OWNERS = new Map<string, string>(
  Object.entries(OWNED).flatMap(([owner, tables]) => tables.map((table): [string, string] => [table, owner])),
);
const NAMED = new RegExp(
  `\\b(?:from|join|into|update|table|using|truncate)\\s+(${[...OWNERS.keys()].join('|')})\\b`,
  'gi',
);
const COMMENT = /^\s*(?:\/\/|\/?\*)/;

/** All of them in a source file of the product (`file`: path from the root, with `/`). */
export function foreignTables(file: string, source: string): ForeignTable[] {
  if (/^(test|bench)\//.test(file)) return [];
  return source.split('\n').flatMap((text, at): ForeignTable[] => {
    if (COMMENT.test(text)) return [];
    return [...text.matchAll(NAMED)].flatMap(([, table = '']) => {
      const owner = OWNERS.get(table.toLowerCase()) ?? '';
      if (isOf(owner, file)) return [];
      const message = `names ${table}, a table of storage/${owner}: read a view of it, or call a function there`;
      return [{ line: at + 1, message }];
    });
  });
}

function isOf(owner: string, file: string): boolean {
  if (file.startsWith(`storage/${owner}/`) || file === `storage/${owner}.ts`) return true;
  return Object.entries(SHARED_FILES).some(([room, files]) => room === owner && files?.includes(file) === true);
}
