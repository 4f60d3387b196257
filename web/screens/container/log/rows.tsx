/** The rows of a log, in blocks of a hundred: only those are drawn again of which something changed. */
import { type RefObject, render } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { type BlockLook, BlockRows } from './block.tsx';
import type { LogBlock } from './lines.ts';

interface LogRowsProps {
  readonly place: RefObject<HTMLDivElement | null>;
  readonly blocks: readonly LogBlock[];
  readonly lookOf: (block: LogBlock) => BlockLook;
}

interface DrawnBlock {
  readonly element: HTMLElement;
  readonly block: LogBlock;
  readonly look: BlockLook;
}

/**
 * Each block is a tree of its own. Preact keeps the tree that a part had when what is around it was drawn last: of one
 * tree, that would be ten thousand lines that were dropped long ago.
 */
export function LogRows({ place, blocks, lookOf }: LogRowsProps) {
  const drawn = useRef<ReadonlyMap<number, DrawnBlock>>(new Map());
  useLayoutEffect(() => {
    if (place.current !== null) drawn.current = redrawn(drawn.current, { place: place.current, blocks, lookOf });
  });
  useLayoutEffect(
    () => () => {
      for (const { element } of drawn.current.values()) render(null, element);
    },
    [],
  );
  return <div ref={place} />;
}

function redrawn(
  before: ReadonlyMap<number, DrawnBlock>,
  { place, blocks, lookOf }: { readonly place: HTMLElement } & Omit<LogRowsProps, 'place'>,
): ReadonlyMap<number, DrawnBlock> {
  const after = new Map(blocks.map((block) => [block.first, drawing(before.get(block.first), block, lookOf(block))]));
  for (const [first, { element }] of before) {
    if (after.has(first)) continue;
    render(null, element);
    element.remove();
  }
  // New ones are the last.
  for (const { element } of after.values()) if (element.parentNode === null) place.append(element);
  return after;
}

function drawing(before: DrawnBlock | undefined, block: LogBlock, look: BlockLook): DrawnBlock {
  if (before !== undefined && before.block === block && isSame(before.look, look)) return before;
  const element = before?.element ?? document.createElement('div');
  element.className = 'block';
  element.dataset.first = String(block.first);
  render(<BlockRows block={block} look={look} />, element);
  return { element, block, look };
}

function isSame(one: BlockLook, other: BlockLook): boolean {
  return one.isUtc === other.isUtc && one.words === other.words && one.current === other.current;
}
