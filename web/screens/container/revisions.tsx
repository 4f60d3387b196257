/** What a container ran, and the way back to it. */
import { Undo } from 'lucide';
import { useState } from 'preact/hooks';
import { type CallReply, type Container, imageName } from '../../../client/index.ts';
import { curlLine, troupeLine } from '../../core/command.ts';
import { useDeed } from '../../core/deed.ts';
import { exactTime, minuteTime } from '../../core/format.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { noteContainer } from '../../live/live.ts';
import { Button } from '../../parts/button.tsx';
import { AsCommand, Code } from '../../parts/copy.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Check } from '../../parts/field.tsx';
import { Loading, Note } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, RowsOf } from '../../parts/rows.tsx';
import { Summary } from '../../parts/summary.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

type RevisionLine = CallReply<'listRevisions'>['revisions'][number];

export function Revisions({ container }: { readonly container: Container }) {
  const { id, started_at, status } = container;
  const [asked, setAsked] = useState<RevisionLine>();
  // Again whenever it began to run.
  const list = useLoaded(
    (signal) => client.call('listRevisions', { params: { id } }, { signal }),
    [id, started_at, status],
  );
  return (
    <Panel title={t.revisions.title}>
      <Loading data={list} many={2} />
      {list.value !== undefined && (
        <RowsOf list={list.value.revisions} none={<p class="dim">{t.revisions.none}</p>}>
          {(revision) => (
            <RowOf
              key={revision.number}
              name={
                <>
                  {t.revisions.number(revision.number)} {revision.current && <span class="tag">{t.revisions.now}</span>}
                </>
              }
              about={[
                <code>{imageName(revision.image)}</code>,
                ...(revision.digest === undefined ? [] : [<code>{revision.digest.slice(7, 19)}</code>]),
                <time dateTime={revision.started_at} title={exactTime(Date.parse(revision.started_at))}>
                  {t.revisions.since(minuteTime(Date.parse(revision.started_at)))}
                </time>,
                t.revisions.variables(revision.env.length + revision.secrets.length),
              ]}
              actions={
                <Button
                  icon={Undo}
                  reason={revision.current ? t.revisions.isNow : undefined}
                  onClick={() => setAsked(revision)}
                >
                  {t.revisions.goBack}
                </Button>
              }
            >
              {revision.given_up !== undefined && <Note tone="warn">{revision.given_up}</Note>}
            </RowOf>
          )}
        </RowsOf>
      )}
      {list.value?.failed_change !== undefined && <FailedChange failed={list.value.failed_change} />}
      {asked !== undefined && <GoBack container={container} revision={asked} onClose={() => setAsked(undefined)} />}
    </Panel>
  );
}

type FailedChangeLine = NonNullable<CallReply<'listRevisions'>['failed_change']>;

/** The last change that ended on what ran before. */
function FailedChange({ failed: { at, reason, answers, log } }: { readonly failed: FailedChangeLine }) {
  return (
    <div class="foot">
      <details class="command">
        <Summary>{t.revisions.failed(minuteTime(Date.parse(at)))}</Summary>
        <div class="lines">
          <p class="small dim">{reason}</p>
          <Lines title={t.revisions.answers} lines={answers} />
          <Lines title={t.revisions.log} lines={log} />
        </div>
      </details>
    </div>
  );
}

function Lines({ title, lines }: { readonly title: string; readonly lines: readonly string[] }) {
  if (lines.length === 0) return null;
  return (
    <>
      <p class="dim">{title}</p>
      <Code text={lines.join('\n')} what={title} />
    </>
  );
}

interface GoBackProps {
  readonly container: Container;
  readonly revision: RevisionLine;
  readonly onClose: () => void;
}

function GoBack({ container: { id, name }, revision: { number, secrets }, onClose }: GoBackProps) {
  const [bringsSecrets, setBringsSecrets] = useState(false);
  const body = { revision: number, ...(bringsSecrets ? { revision_secrets: true } : {}) };
  const deed = useDeed(async () => {
    noteContainer(await call('updateContainer', { params: { id }, body }));
    toast(t.revisions.goesBack(name, number));
  });
  return (
    <Confirm title={t.revisions.ask(name, number)} verb={t.revisions.goBack} deed={deed} onClose={onClose}>
      <p class="dim">{t.revisions.lead}</p>
      {secrets.length > 0 && (
        <Check
          label={t.revisions.secrets}
          hint={t.revisions.secretsHint}
          checked={bringsSecrets}
          onChange={setBringsSecrets}
        />
      )}
      <AsCommand
        troupe={troupeLine('update', name, '--revision', String(number), bringsSecrets ? '--secrets' : undefined)}
        curl={curlLine('PATCH', `/compute/containers/${id}`, body)}
      />
    </Confirm>
  );
}
