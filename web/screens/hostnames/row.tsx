/** One hostname: how far it is, the records to enter, when it was looked at and when again. */
import { ExternalLink, Trash } from 'lucide';
import { useState } from 'preact/hooks';
import { now } from '../../core/clock.ts';
import { curlLine, troupeLine } from '../../core/command.ts';
import { unlessGone, useDeed } from '../../core/deed.ts';
import { dateOf, sentenceOf, span } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { containers } from '../../live/live.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { CacheChange } from '../../parts/cache.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Failure, Note } from '../../parts/note.tsx';
import { RowOf } from '../../parts/rows.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { type MappedName, MappingStatus } from './mapping.tsx';
import { RecordsToEnter } from './records.tsx';

interface HostnameRowProps {
  readonly mapping: MappedName;
  readonly onChange: () => void;
}

export function HostnameRow({ mapping, onChange }: HostnameRowProps) {
  const { id, domain, container_id, target_port, status, detail, cache = 'default', zone = '', records = [] } = mapping;
  const [isDeleting, setDeleting] = useState(false);
  const container = containers.value?.find((one) => one.id === container_id)?.name ?? container_id;
  const verify = useDeed(async () => {
    const reply = await call('verifyMapping', { params: { id } });
    toast(reply.status === 'verified' ? t.hostnames.verified(domain) : t.hostnames.looked);
    onChange();
  });
  const remove = useDeed(async () => {
    await call('deleteMapping', { params: { id } }).catch(unlessGone);
    toast(t.hostnames.deleted(domain));
    onChange();
  });
  return (
    <RowOf
      name={domain}
      about={[t.hostnames.to(container, target_port), t.cache.shown[cache], ...timesOf(mapping)]}
      actions={
        <>
          <MappingStatus status={status} />
          {status === 'verified' ? (
            <LinkButton kind="bare" icon={ExternalLink} label={t.container.open} href={`https://${domain}/`} outside />
          ) : (
            <Button onClick={() => void verify.run()} busy={verify.isBusy}>
              {t.hostnames.verify}
            </Button>
          )}
          <CacheChange
            what={domain}
            mode={cache}
            change={async (mode) => {
              await call('changeMapping', { params: { id }, body: { cache: mode } });
              onChange();
            }}
            troupe={(mode) => troupeLine('hostname', 'cache', domain, mode)}
            curl={(mode) => curlLine('PATCH', `/api/domain-mappings/${id}`, { cache: mode })}
          />
          <Button kind="bare" icon={Trash} label={t.hostnames.delete(domain)} onClick={() => setDeleting(true)} />
        </>
      }
    >
      {(status !== 'verified' || detail !== undefined || verify.error !== undefined) && (
        <div class="stack tight">
          {detail !== undefined && <Note tone={status === 'failed' ? 'bad' : 'warn'}>{sentenceOf(detail)}</Note>}
          <Failure error={verify.error} />
          {status !== 'verified' && (
            <RecordsToEnter
              lead={zone === '' ? t.hostnames.enter : t.hostnames.enterInZone}
              zone={zone}
              records={records}
            />
          )}
        </div>
      )}
      {isDeleting && (
        <Confirm
          title={t.hostnames.deleteTitle(domain)}
          verb={t.hostnames.deleteVerb}
          deed={remove}
          onClose={() => setDeleting(false)}
        >
          <p class="dim">{t.hostnames.deleteLead}</p>
        </Confirm>
      )}
    </RowOf>
  );
}

function timesOf({ status, checked_at, next_check_at, certificate_until }: MappedName): string[] {
  if (status === 'verified') return certificate_until ? [t.hostnames.until(dateOf(Date.parse(certificate_until)))] : [];
  return [
    ...(checked_at ? [t.hostnames.seen(span(now.value - Date.parse(checked_at)))] : []),
    ...(next_check_at ? [t.hostnames.next(span(Date.parse(next_check_at) - now.value))] : []),
  ];
}
