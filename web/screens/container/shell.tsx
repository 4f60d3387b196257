/** A shell in a window of its own. */
import '../../parts/panel.css';
import './terminal/terminal.css';
import './workbench.css';
import { Search } from 'lucide';
import { useEffect, useState } from 'preact/hooks';
import { go, place, type ScreenProps } from '../../core/router.ts';
import { containers } from '../../live/live.ts';
import { Button } from '../../parts/button.tsx';
import { useTitle } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { t } from '../../text/text.ts';
import { tellWhenLeft } from './terminal/pop-out.ts';
import { type OpenShell, shellAlone } from './terminal/shells.ts';
import { DOTS, ShellView } from './terminal/view.tsx';

export function ShellWindow({ params: { id = '', session = '' } }: ScreenProps) {
  const [shell, setShell] = useState<OpenShell>();
  const [isFinding, setFinding] = useState(false);
  const n = Number(place.value.query.get('n')) || 1;
  const container = containers.value?.find((one) => one.id === id);
  const name = `${container?.name ?? id}, ${t.terminal.shell(n)}`;
  const heading = useTitle(name);
  useEffect(() => {
    const own = shellAlone(id, session, n);
    setShell(own);
    const end = tellWhenLeft(session);
    return () => {
      end();
      own.close();
    };
  }, [id, session]);
  const again = () => go(`/containers/${id}/shell/${crypto.randomUUID()}?n=${n}`, { replace: true });
  return (
    <main class="panel screen pane whole terminal-pane" id="main">
      <header>
        <h1 ref={heading} tabIndex={-1}>
          {shell !== undefined && <Status shape={DOTS[shell.state.value.state]} />} {name}
        </h1>
        <Button
          kind="bare"
          icon={Search}
          label={t.terminal.find}
          pressed={isFinding}
          onClick={() => setFinding(!isFinding)}
        />
      </header>
      {shell !== undefined && (
        <ShellView
          key={shell.session}
          shell={shell}
          isWhole={true}
          isFinding={isFinding}
          onFind={setFinding}
          again={container?.status === 'running' ? again : undefined}
        />
      )}
    </main>
  );
}
