/** How a container is entered by SSH. */
import type { Container } from '../../../client/index.ts';
import { curlLine } from '../../core/command.ts';
import { useDeed } from '../../core/deed.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import type { ScreenProps } from '../../core/router.ts';
import { AsCommand, Code } from '../../parts/copy.tsx';
import { Check } from '../../parts/field.tsx';
import { Failure } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, Rows } from '../../parts/rows.tsx';
import { t } from '../../text/text.ts';
import { shortKey } from '../create/keys.tsx';
import { ContainerFrame } from './frame.tsx';

export function Ssh({ params: { id = '' } }: ScreenProps) {
  return (
    <ContainerFrame id={id}>
      {(container) => (
        <div class="stack">
          <Access container={container} />
          <Keys container={container} />
        </div>
      )}
    </ContainerFrame>
  );
}

function Access({ container: { id, ssh_enabled, ssh } }: { readonly container: Container }) {
  const deed = useDeed((isOn: boolean) => call('setSsh', { params: { id }, body: { ssh_enabled: isOn } }));
  return (
    <Panel title={t.container.ssh}>
      <div class="inside stack">
        <Check
          label={t.ssh.access}
          hint={t.ssh.accessHint}
          checked={ssh_enabled}
          busy={deed.isBusy}
          onChange={(isOn) => void deed.run(isOn)}
        />
        <Failure error={deed.error} />
        {ssh !== undefined && <Code text={ssh.command} what={t.container.theCommand} />}
        <AsCommand curl={curlLine('PUT', `/compute/containers/${id}/ssh`, { ssh_enabled: !ssh_enabled })} />
      </div>
    </Panel>
  );
}

function Keys({ container: { ssh_key_ids = [] } }: { readonly container: Container }) {
  const keys = useLoaded((signal) => client.call('listSshKeys', undefined, { signal }));
  const own = keys.value?.ssh_keys.filter(({ id }) => ssh_key_ids.includes(id)) ?? [];
  return (
    <Panel title={t.ssh.keys}>
      <Failure error={keys.error} onRetry={keys.reload} />
      {keys.value !== undefined && own.length === 0 && <p class="inside faint small">{t.ssh.noKeys}</p>}
      <Rows>
        {own.map(({ id, name, public_key }) => (
          <RowOf key={id} name={name} about={[<code>{shortKey(public_key)}</code>]} />
        ))}
      </Rows>
    </Panel>
  );
}
