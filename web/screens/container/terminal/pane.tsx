/** Terminals of a container, in tabs. */
import './terminal.css';
import { Maximize2, Minimize2, Play, Plus, X } from 'lucide';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Container } from '../../../../client/index.ts';
import { Button } from '../../../parts/button.tsx';
import { Icon } from '../../../parts/icon.tsx';
import { Status, type StatusShape } from '../../../parts/status.tsx';
import { t } from '../../../text/text.ts';
import { useStart } from '../deeds.tsx';
import { KeyBar } from './key-bar.tsx';
import { PasteGuard } from './paste.tsx';
import { endShell, type OpenShell, openShell, type ShellState, shellsOf } from './shells.ts';

const DOTS: Readonly<Record<ShellState['state'], StatusShape>> = {
  live: 'running',
  connecting: 'starting',
  lost: 'starting',
  ended: 'stopped',
  taken: 'stopped',
  failed: 'failed',
};

export function TerminalPane({ container }: { readonly container: Container }) {
  const { id, status } = container;
  const [chosen, setChosen] = useState<OpenShell>();
  const [isWhole, setWhole] = useState(false);
  const list = shellsOf(id).value;
  const shell = list.find((one) => one === chosen) ?? list.at(-1);
  const isRunning = status === 'running';
  useEffect(() => {
    // A shell is at hand without being asked for.
    if (isRunning && shellsOf(id).value.length === 0) openShell(id);
  }, [id, isRunning]);
  return (
    <section class={`panel screen pane terminal-pane ${isWhole ? 'whole' : ''}`} aria-label={t.container.terminal}>
      <header>
        <div class="row">
          {list.map((one) => (
            <ShellTab
              key={one.session}
              shell={one}
              isChosen={one === shell}
              choose={() => setChosen(one)}
              end={() => endShell(id, one)}
            />
          ))}
          {isRunning && (
            <Button kind="bare" icon={Plus} label={t.terminal.add} onClick={() => setChosen(openShell(id))} />
          )}
        </div>
        <Button
          kind="bare"
          icon={isWhole ? Minimize2 : Maximize2}
          label={isWhole ? t.terminal.small : t.terminal.full}
          onClick={() => setWhole(!isWhole)}
        />
      </header>
      {shell === undefined ? (
        <Still container={container} />
      ) : (
        <>
          <ShellWord
            shell={shell}
            again={() => [endShell(id, shell), setChosen(openShell(id))]}
            isRunning={isRunning}
          />
          <ShellScreen key={shell.session} shell={shell} isWhole={isWhole} />
          <KeyBar shell={shell} />
        </>
      )}
    </section>
  );
}

interface ShellTabProps {
  readonly shell: OpenShell;
  readonly isChosen: boolean;
  readonly choose: () => void;
  readonly end: () => void;
}

function ShellTab({ shell, isChosen, choose, end }: ShellTabProps) {
  return (
    <span class="shell-tab">
      <button type="button" aria-current={isChosen ? 'true' : undefined} onClick={choose}>
        <Status shape={DOTS[shell.state.value.state]} />
        {t.terminal.shell(shell.n)}
      </button>
      {isChosen && (
        <button type="button" aria-label={t.terminal.end(shell.n)} title={t.terminal.end(shell.n)} onClick={end}>
          <Icon of={X} size={12} />
        </button>
      )}
    </span>
  );
}

/** The screen itself, which lives on when this is gone. */
function ShellScreen({ shell, isWhole }: { readonly shell: OpenShell; readonly isWhole: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const emulator = shell.emulator.value;
  useEffect(() => {
    const outer = box.current;
    if (outer === null || emulator === undefined) return;
    outer.append(emulator.element);
    emulator.fit();
    emulator.focus();
    const seen = new ResizeObserver(() => emulator.fit());
    seen.observe(outer);
    return () => {
      seen.disconnect();
      emulator.element.remove();
    };
  }, [emulator]);
  useEffect(() => emulator?.fit(), [emulator, isWhole]);
  return (
    <div class="place" ref={box}>
      {emulator !== undefined && <PasteGuard box={box} emulator={emulator} />}
    </div>
  );
}

interface ShellWordProps {
  readonly shell: OpenShell;
  readonly isRunning: boolean;
  readonly again: () => void;
}

/** What is to be said of a shell that is not live, and the next step. */
function ShellWord({ shell, again, isRunning }: ShellWordProps) {
  const { value } = shell.state;
  if (value.state === 'live' || value.state === 'connecting') return null;
  const words = value.state === 'failed' ? t.failure.sentence(value.error) : t.terminal[value.state];
  return (
    <div class="word" role="status">
      <Status shape={DOTS[value.state]} />
      <span>{words}</span>
      {value.state === 'taken' && <Button onClick={() => shell.rejoin()}>{t.terminal.back}</Button>}
      {(value.state === 'ended' || value.state === 'failed') && isRunning && (
        <Button onClick={again}>{t.terminal.again}</Button>
      )}
    </div>
  );
}

function Still({ container }: { readonly container: Container }) {
  const start = useStart(container);
  const isStill = container.status === 'stopped' || container.status === 'failed';
  return (
    <div class="idle">
      <p>{t.terminal.stopped}</p>
      {isStill && (
        <Button icon={Play} onClick={() => void start.run()} busy={start.isBusy}>
          {t.terminal.start}
        </Button>
      )}
    </div>
  );
}
