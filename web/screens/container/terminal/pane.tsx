/** Terminals of a container, in tabs. */
import './terminal.css';
import { Maximize2, Minimize2, PictureInPicture2, Play, Plus, Search, X } from 'lucide';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Container } from '../../../../client/index.ts';
import { Button } from '../../../parts/button.tsx';
import { Icon } from '../../../parts/icon.tsx';
import { Status } from '../../../parts/status.tsx';
import { t } from '../../../text/text.ts';
import { useStart } from '../deeds.tsx';
import { popOut } from './pop-out.ts';
import { endShell, type OpenShell, openShell, shellsOf } from './shells.ts';
import { DOTS, ShellView } from './view.tsx';

export function TerminalPane({ container }: { readonly container: Container }) {
  const { id, status } = container;
  const [chosen, setChosen] = useState<OpenShell>();
  const [isWhole, setWhole] = useState(false);
  const [isFinding, setFinding] = useState(false);
  const list = shellsOf(id).value;
  const shell = list.find((one) => one === chosen) ?? list.at(-1);
  const isRunning = status === 'running';
  useEffect(() => {
    // A shell is at hand without being asked for.
    if (isRunning && shellsOf(id).value.length === 0) openShell(id);
  }, [id, isRunning]);
  const had = useRef(0);
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    // With the last shell goes what had the focus.
    if (had.current > 0 && list.length === 0) box.current?.querySelector<HTMLElement>('.add')?.focus();
    had.current = list.length;
  }, [list.length]);
  return (
    <section
      ref={box}
      class={`panel screen pane terminal-pane ${isWhole ? 'whole' : ''}`}
      aria-label={t.container.terminal}
    >
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
            <Button
              kind="bare"
              class="add"
              icon={Plus}
              label={t.terminal.add}
              onClick={() => setChosen(openShell(id))}
            />
          )}
        </div>
        {shell !== undefined && (
          <>
            <Button
              kind="bare"
              icon={Search}
              label={t.terminal.find}
              pressed={isFinding}
              onClick={() => setFinding(!isFinding)}
            />
            <Button
              kind="bare"
              class="hide-s"
              icon={PictureInPicture2}
              label={t.terminal.popOut}
              onClick={() => popOut(id, shell)}
            />
          </>
        )}
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
        <ShellView
          key={shell.session}
          shell={shell}
          isWhole={isWhole}
          isFinding={isFinding}
          onFind={setFinding}
          again={isRunning ? () => [endShell(id, shell), setChosen(openShell(id))] : undefined}
        />
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
