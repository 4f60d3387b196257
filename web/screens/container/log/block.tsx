/** A hundred lines of a log. */
import { type ComponentChildren, h } from 'preact';
import { spanExactly } from '../../../core/format.ts';
import { t } from '../../../text/text.ts';
import type { LogBlock, LogRow } from './lines.ts';
import { styled } from './sgr.ts';

/** How a block is shown. */
export interface BlockLook {
  readonly isUtc: boolean;
  /** What is looked for; empty if no line here holds it. */
  readonly words: string;
  /** The line that the search is at, if it is here. */
  readonly current: number | undefined;
}

interface BlockRowsProps {
  readonly block: LogBlock;
  readonly look: BlockLook;
}

export function BlockRows({ block, look: { isUtc, words, current } }: BlockRowsProps) {
  return (
    <>
      {block.rows.map((row) => (
        <Row key={row.n} row={row} isUtc={isUtc} words={words} isCurrent={row.n === current} />
      ))}
    </>
  );
}

interface RowProps extends Pick<BlockLook, 'isUtc' | 'words'> {
  readonly row: LogRow;
  readonly isCurrent: boolean;
}

function Row({ row, isUtc, words, isCurrent }: RowProps) {
  if (row.gap !== undefined)
    return (
      <p class="gap" data-n={row.n}>
        {t.log.gap(spanExactly(row.gap))}
      </p>
    );
  const parts = styled(row.text);
  const isHit = words !== '' && parts.some(({ text }) => text.toLowerCase().includes(words.toLowerCase()));
  return (
    <div class={`line ${isHit ? 'hit' : ''} ${isCurrent ? 'at' : ''}`} data-n={row.n}>
      <time dateTime={row.stamp} title={row.stamp}>
        {isUtc ? row.stamp.slice(11, 23) : localTime(row.stamp)}
      </time>
      <span>
        {parts.map(({ text, look }, at) =>
          h('i', { key: at, ...(look === '' ? {} : { class: look }) }, isHit ? marked(text, words) : text),
        )}
      </span>
    </div>
  );
}

/** The text with the words in it marked. */
function marked(text: string, words: string): ComponentChildren {
  const wanted = words.toLowerCase();
  const low = text.toLowerCase();
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), <mark>{text.slice(at, at + words.length)}</mark>);
    from = at + words.length;
  }
  return [...parts, text.slice(from)];
}

function localTime(stamp: string): string {
  const time = new Date(stamp);
  const two = (value: number) => String(value).padStart(2, '0');
  const ms = String(time.getMilliseconds()).padStart(3, '0');
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${ms}`;
}
