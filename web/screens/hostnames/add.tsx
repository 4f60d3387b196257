/** Maps a hostname to a container. */
import { useState } from 'preact/hooks';
import type { TroupeError } from '../../../client/index.ts';
import { curlLine, troupeLine } from '../../core/command.ts';
import { useDeed } from '../../core/deed.ts';
import { asTroupeError, call } from '../../core/platform.ts';
import { containers } from '../../live/live.ts';
import { CACHE_OF_OPENED, type CacheChoice, CacheField } from '../../parts/cache.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form.tsx';
import { Failure } from '../../parts/note.tsx';
import { t } from '../../text/text.ts';
import { RecordsToEnter } from './records.tsx';

interface MapHostnameProps {
  /** The id of the one that is chosen first. */
  readonly container: string;
  readonly onClose: () => void;
  readonly onAdded: () => void;
}

export function MapHostname({ container, onClose, onAdded }: MapHostnameProps) {
  const list = containers.value ?? [];
  const [name, setName] = useState('');
  const [chosen, setChosen] = useState(container);
  const [port, setPort] = useState('80');
  const [cache, setCache] = useState<CacheChoice>(CACHE_OF_OPENED);
  /** The record that takes the hostname from another account, once it was refused, and whether it was missing again. */
  const [proof, setProof] = useState<TroupeError['proof']>(undefined);
  const [isMissing, setMissing] = useState(false);
  const rename = (text: string) => {
    setName(text);
    setProof(undefined);
    deed.clear();
  };
  const id = list.find((one) => one.id === chosen)?.id ?? list[0]?.id ?? '';
  const body = { domain: name.trim().toLowerCase(), container_id: id, target_port: Number(port), cache };
  const deed = useDeed(async () => {
    await call('createMapping', { body }).catch((cause: unknown) => {
      const next = asTroupeError(cause).proof;
      setMissing(next !== undefined && next.value === proof?.value);
      setProof(next);
      throw cause;
    });
    onAdded();
    onClose();
  });
  const target = list.find((one) => one.id === id)?.name ?? 'NAME';
  return (
    <FormDialog
      title={t.hostnames.add}
      verb={proof === undefined ? t.hostnames.submit : t.hostnames.verify}
      deed={deed}
      reason={id === '' ? t.hostnames.noContainer : undefined}
      onClose={onClose}
    >
      <TextField
        label={t.hostnames.name}
        hint={t.hostnames.nameHint}
        value={name}
        onInput={rename}
        attributes={{ required: true, inputMode: 'url', autocomplete: 'off', autofocus: true }}
      />
      <SelectField
        label={t.hostnames.container}
        value={id}
        choices={list.map((one) => [one.id, one.name])}
        onChange={setChosen}
      />
      <TextField
        label={t.hostnames.port}
        hint={t.hostnames.portHint}
        value={port}
        onInput={setPort}
        attributes={{ required: true, inputMode: 'numeric', maxLength: 5 }}
      />
      <CacheField value={cache} onChange={setCache} />
      <Failure error={deed.error} />
      {proof !== undefined && (
        <RecordsToEnter
          lead={isMissing ? t.hostnames.stillProveIt : t.hostnames.proveIt}
          zone=""
          records={[{ type: 'TXT', ...proof }]}
        />
      )}
      <AsCommand
        troupe={troupeLine(
          ...['hostname', 'add', body.domain || 'www.example.com', target, '--port', port],
          ...(cache === CACHE_OF_OPENED ? [] : ['--cache', cache]),
        )}
        curl={curlLine('POST', '/api/domain-mappings', body)}
      />
    </FormDialog>
  );
}
