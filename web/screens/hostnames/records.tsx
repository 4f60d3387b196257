/** Records to enter at a DNS provider, each part with a button that copies it. */
import './hostnames.css';
import { CopyButton } from '../../parts/copy.tsx';
import { t } from '../../text/text.ts';
import type { MappedName } from './mapping.tsx';

interface RecordsToEnterProps {
  /** What they are for. */
  readonly lead: string;
  /** The zone that holds them; '' while it is not known. */
  readonly zone: string;
  readonly records: NonNullable<MappedName['records']>;
}

export function RecordsToEnter({ lead, zone, records }: RecordsToEnterProps) {
  return (
    <div class="records">
      <p>{lead}</p>
      {records.map(({ type, name, name_in_zone, value, note }) => (
        <dl key={type}>
          <div>
            <dt>{t.hostnames.type}</dt>
            <dd>
              <code>{type}</code>
            </dd>
          </div>
          <div>
            <dt>{t.hostnames.recordName}</dt>
            <Copied text={name} what={t.hostnames.theName(type)} />
            {name_in_zone !== undefined && (
              <>
                <dt>{t.hostnames.nameInZone(zone)}</dt>
                <Copied text={name_in_zone} what={t.hostnames.theNameInZone(type)} />
              </>
            )}
          </div>
          <div>
            <dt>{t.hostnames.value}</dt>
            <Copied text={value} what={t.hostnames.theValue(type)} />
          </div>
          {note !== undefined && <div class="wide dim">{note}</div>}
        </dl>
      ))}
    </div>
  );
}

function Copied({ text, what }: { readonly text: string; readonly what: string }) {
  return (
    <dd>
      <code>{text}</code>
      <CopyButton text={text} what={what} />
    </dd>
  );
}
