import type { AnyRef } from '../common/ref.ts';
import type { Cell } from './cell.ts';

/** The living children of an actor as a map, read from its list: nothing is copied. */
export class ChildrenView implements ReadonlyMap<string, AnyRef> {
  private readonly cell: Cell;

  constructor(cell: Cell) {
    this.cell = cell;
  }

  get size(): number {
    return this.cell.children?.count ?? 0;
  }

  get(name: string): AnyRef | undefined {
    const named = this.cell.children?.names?.get(name);
    if (named !== undefined) return named;
    for (const child of this.cells()) if (child.name === name) return child;
    return undefined;
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  forEach(f: (ref: AnyRef, name: string, map: ReadonlyMap<string, AnyRef>) => void): void {
    for (const [name, ref] of this) f(ref, name, this);
  }

  *entries(): MapIterator<[string, AnyRef]> {
    for (const child of this.cells()) yield [child.name, child];
  }

  *keys(): MapIterator<string> {
    for (const child of this.cells()) yield child.name;
  }

  *values(): MapIterator<AnyRef> {
    yield* this.cells();
  }

  [Symbol.iterator](): MapIterator<[string, AnyRef]> {
    return this.entries();
  }

  private *cells(): Generator<Cell, undefined> {
    let child = this.cell.children?.first;
    while (child !== undefined) {
      // Read before the child is handed out: the caller may stop it.
      const next: Cell | undefined = child.after;
      yield child;
      child = next;
    }
    return undefined;
  }
}
