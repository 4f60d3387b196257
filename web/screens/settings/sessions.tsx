/** Where somebody is logged in, and how to end it there. */
import { now } from '../../core/clock.ts';
import { useDeed } from '../../core/deed.ts';
import { span } from '../../core/format.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { Button } from '../../parts/button.tsx';
import { Failure } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, Rows } from '../../parts/rows.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

export function Sessions() {
  const sessions = useLoaded((signal) => client.call('listSessions', undefined, { signal }));
  const end = useDeed(async (id: number) => {
    await call('endSession', { params: { id: String(id) } });
    toast(t.settings.ended);
    sessions.reload();
  });
  const endOthers = useDeed(async () => {
    const { ended } = await call('endOtherSessions');
    toast(t.settings.endedOthers(ended));
    sessions.reload();
  });
  const list = sessions.value ?? [];
  return (
    <Panel
      title={t.settings.sessions}
      aside={
        list.length > 1 && (
          <Button kind="bare" onClick={() => void endOthers.run()} busy={endOthers.isBusy}>
            {t.settings.endOthers}
          </Button>
        )
      }
    >
      <Failure error={sessions.error} onRetry={sessions.reload} />
      <Failure error={end.error ?? endOthers.error} />
      <Rows>
        {list.map(({ id, ip_address, created_at, is_current, user_agent = '', last_seen_at }) => (
          <RowOf
            key={id}
            name={
              <>
                {clientName(user_agent)} {is_current && <span class="tag">{t.settings.here}</span>}
              </>
            }
            about={[
              <span class="mono">{ip_address}</span>,
              t.settings.since(span(now.value - created_at * 1000)),
              ...(last_seen_at ? [t.settings.seen(span(now.value - last_seen_at * 1000))] : []),
            ]}
            actions={
              !is_current && (
                <Button onClick={() => void end.run(id)} busy={end.isBusy}>
                  {t.settings.endSession}
                </Button>
              )
            }
          />
        ))}
      </Rows>
      {list.length > 1 && <p class="foot faint tiny">{t.settings.endOthersHint}</p>}
    </Panel>
  );
}

const BROWSERS = [
  ['Edg/', 'Edge'],
  ['Firefox/', 'Firefox'],
  ['Chrome/', 'Chrome'],
  ['Safari/', 'Safari'],
] as const;
const SYSTEMS = [
  ['Android', 'Android'],
  ['iPhone', 'iPhone'],
  ['iPad', 'iPad'],
  ['Mac OS X', 'macOS'],
  ['Windows', 'Windows'],
  ['Linux', 'Linux'],
] as const;

/** `Firefox on macOS` of what a browser calls itself; other programs' names as they are. */
function clientName(agent: string): string {
  const find = (names: readonly (readonly [string, string])[]) => names.find(([mark]) => agent.includes(mark))?.[1];
  const [browser, system] = [find(BROWSERS), find(SYSTEMS)];
  if (browser !== undefined) return system === undefined ? browser : `${browser} on ${system}`;
  return agent === '' ? t.settings.unknownClient : agent;
}
