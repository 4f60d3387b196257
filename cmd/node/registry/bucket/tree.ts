/** What was listed of a bucket, as folders. */
import type { S3Object } from './s3.ts';

/** Those in a folder, by their names. */
type TreeFolder = Map<string, TreeFolder | S3Object>;

/** See above. Paths have no `/` at their ends. */
export class ListedTree {
  readonly #top: TreeFolder = new Map();

  /** Puts an object under a path; without one, the folder is made. */
  put(path: string, object?: S3Object): void {
    const names = path.split('/');
    const last = object === undefined ? undefined : names.pop();
    let folder = this.#top;
    for (const name of names) {
      const there = folder.get(name);
      const next: TreeFolder = there instanceof Map ? there : new Map();
      if (next !== there) folder.set(name, next);
      folder = next;
    }
    if (last !== undefined && object !== undefined) folder.set(last, object);
  }

  /** The folder or the object under a path. */
  at(path: string): TreeFolder | S3Object | undefined {
    let found: TreeFolder | S3Object | undefined = this.#top;
    for (const name of path.split('/')) {
      if (!(found instanceof Map)) return undefined;
      found = found.get(name);
    }
    return found;
  }

  /** The object under a path. */
  objectAt(path: string): S3Object | undefined {
    const found = this.at(path);
    return found instanceof Map ? undefined : found;
  }

  /** The names of the folders in one. */
  foldersIn(path: string): string[] {
    const folder = this.at(path);
    if (!(folder instanceof Map)) return [];
    return [...folder].filter(([, inside]) => inside instanceof Map).map(([name]) => name);
  }

  /** All objects below a path, in no order. */
  objectsBelow(path: string): S3Object[] {
    const found: S3Object[] = [];
    const waiting = [this.at(path)];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (next instanceof Map) waiting.push(...next.values());
      else found.push(next);
    }
    return found;
  }
}
