/** Text to take away: a button that copies, a line of code with one, and a deed as a command. */
import './copy.css';
import { Check as CheckIcon, Copy } from 'lucide';
import { useEffect, useState } from 'preact/hooks';
import { t } from '../text/text.ts';
import { Icon } from './icon.tsx';
import { Summary } from './summary.tsx';

/** How long it shows that it has copied, ms. */
const SHOWN_MS = 1500;

interface CopyProps {
  readonly text: string;
  /** What is copied, such as `the address`. */
  readonly what: string;
}

export function CopyButton({ text, what }: CopyProps) {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return;
    const timer = setTimeout(() => setDone(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isDone]);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
  };
  const label = isDone ? t.copy.done : t.copy.label(what);
  return (
    <button class={`copy ${isDone ? 'done' : ''}`} type="button" aria-label={label} title={label} onClick={copy}>
      <Icon of={isDone ? CheckIcon : Copy} size={14} />
    </button>
  );
}

/** A line of code, whole. */
export function Code({ text, what }: CopyProps) {
  return (
    <div class="code">
      <pre class={/\s/.test(text) ? undefined : 'word'}>{text}</pre>
      <CopyButton text={text} what={what} />
    </div>
  );
}

interface AsCommandProps {
  /** As the command line of Troupe does it. */
  readonly troupe?: string | undefined;
  /** As a request. */
  readonly curl?: string;
}

/** The same deed without the console. */
export function AsCommand({ troupe, curl }: AsCommandProps) {
  return (
    <details class="command">
      <Summary>{t.command.title}</Summary>
      <div class="lines">
        {troupe !== undefined && <Code text={troupe} what={t.command.line} />}
        {curl !== undefined && <Code text={curl} what={t.command.request} />}
      </div>
    </details>
  );
}
