/** Which names of the product are exported for nobody: a reader of a file should know what others use of it. */
import { posix } from 'node:path';

/** An export that no other file names. */
export interface UnusedExport {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly name: string;
}

const DECLARED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|function\*?|class|interface|type|enum) (\w+)/;
const NAMED = /\b(?:import|export)\s+(?:type\s+)?(?:\w+\s*,\s*)?\{([^}]*)\}\s*from\s*'(\.[^']*)'/g;
/** Forms that may use every name: `import * as x`, `export *`, and imports at run time or in types. */
const WHOLE = /\bimport\s+\*\s+as\s+\w+\s+from\s*'(\.[^']*)'|\bexport\s+\*[^']*'(\.[^']*)'|\bimport\(\s*'(\.[^']*)'/g;

/** All such exports of the files (path from the root to source) that `isProduct` takes. Every file counts as a reader. */
export function unusedExports(
  files: ReadonlyMap<string, string>,
  isProduct: (file: string) => boolean,
): UnusedExport[] {
  const used = new Map<string, Set<string>>();
  const whole = new Set<string>();
  for (const [file, source] of files) {
    const at = (specifier: string) => posix.join(posix.dirname(file), specifier);
    for (const [, list = '', specifier = ''] of source.matchAll(NAMED)) {
      const names = used.get(at(specifier)) ?? new Set();
      used.set(at(specifier), names);
      for (const item of list.split(',')) names.add(/^(?:type\s+)?(\w+)/.exec(item.trim())?.[1] ?? '');
    }
    for (const [, one, two, three] of source.matchAll(WHOLE)) whole.add(at(one ?? two ?? three ?? ''));
  }
  return [...files].flatMap(([file, source]) => {
    if (!isProduct(file) || whole.has(file)) return [];
    return source.split('\n').flatMap((text, index): UnusedExport[] => {
      const name = DECLARED.exec(text)?.[1];
      return name === undefined || used.get(file)?.has(name) ? [] : [{ file, line: index + 1, name }];
    });
  });
}
