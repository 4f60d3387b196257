/** How a container is reached: its ports, the hostnames that lead to it, and its private network. */
import { Globe, Trash } from 'lucide';
import { useState } from 'preact/hooks';
import { addressOfPort, type Container, readableHost } from '../../../client/index.ts';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, unlessGone, useDeed } from '../../core/deed.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import type { ScreenProps } from '../../core/router.ts';
import { outlook } from '../../live/facts.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { CACHE_OF_OPENED, CacheChange, type CacheChoice, CacheField } from '../../parts/cache.tsx';
import { AsCommand, CopyButton } from '../../parts/copy.tsx';
import { Check, TextField } from '../../parts/field.tsx';
import { Form, FormFailure } from '../../parts/form.tsx';
import { Failure } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, Rows } from '../../parts/rows.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { MappingStatus } from '../hostnames/mapping.tsx';
import { AccessFields, type PortAccess } from './access.tsx';
import { AddressNameForm } from './address-name.tsx';
import { ContainerFrame } from './frame.tsx';
import { OpenSite } from './open-site.tsx';
import { PrivateNetwork } from './private-network.tsx';

export function Network({ params: { id = '' } }: ScreenProps) {
  return (
    <ContainerFrame id={id}>
      {(container) => (
        <div class="stack">
          <Ports container={container} />
          <AddressNameForm key={container.id} container={container} />
          <Hostnames id={id} />
          <PrivateNetwork key={container.id} container={container} />
        </div>
      )}
    </ContainerFrame>
  );
}

function Ports({ container }: { readonly container: Container }) {
  const { ports = [] } = container;
  const host = readableHost(container);
  return (
    <Panel
      title={t.network.ports}
      aside={
        <span class="row mono tiny cut">
          <span class="cut">{host}</span>
          <CopyButton text={host} what={t.container.theAddress} />
        </span>
      }
    >
      {ports.length === 0 && <p class="inside faint small">{t.network.none}</p>}
      <Rows>
        {ports.map((rule) => (
          <PortRow key={rule.port} container={container} rule={rule} />
        ))}
      </Rows>
      <div class="foot">
        <AddPort container={container} />
      </div>
    </Panel>
  );
}

interface PortRowProps {
  readonly container: Container;
  readonly rule: NonNullable<Container['ports']>[number];
}

function PortRow({ container, rule }: PortRowProps) {
  const { id } = container;
  const { port, target_port, tls, access = 'public', cache = 'default' } = rule;
  const path = `/compute/containers/${id}/ingress/${port}`;
  // Of what only some get, and of TLS that is passed on, nothing is kept.
  const isKept = access === 'public' && kindOf(port, tls) !== 'https';
  const deed = useDeed(async () => {
    await call('deleteIngress', { params: { id, port: String(port) } }).catch(unlessGone);
    toast(t.network.closed(port));
  });
  const href = addressOfPort(readableHost(container), { port, tls }, outlook());
  return (
    <RowOf
      name={<span class="num">{t.network.rule(port, target_port)}</span>}
      about={[
        t.network.kinds[kindOf(port, tls)],
        ...(access === 'public' ? [] : [t.network.accessShown[access]]),
        ...(isKept ? [t.cache.shown[cache]] : []),
      ]}
      actions={
        <>
          {href !== undefined && <OpenSite container={container} href={href} />}
          {isKept && (
            <CacheChange
              what={t.cache.ofPort(port)}
              mode={cache}
              change={(mode) => call('changeIngress', { params: { id, port: String(port) }, body: { cache: mode } })}
              troupe={(mode) => troupeLine('port', 'cache', container.name, String(port), mode)}
              curl={(mode) => curlLine('PATCH', path, { cache: mode })}
            />
          )}
          <Button
            kind="bare"
            icon={Trash}
            label={t.network.close(port)}
            onClick={() => void deed.run()}
            busy={deed.isBusy}
          />
        </>
      }
    >
      {deed.error && <Failure error={deed.error} />}
    </RowOf>
  );
}

function kindOf(port: number, tls: PortRowProps['rule']['tls']): keyof typeof t.network.kinds {
  if (tls === 'platform') return 'platform';
  return port === 443 ? 'https' : port === 80 ? 'http' : 'other';
}

function AddPort({ container: { id, name } }: { readonly container: Container }) {
  const [outer, setOuter] = useState('');
  const [inner, setInner] = useState('');
  /** Undefined: as is usual at the port. */
  const [chosen, setChosen] = useState<boolean>();
  const [access, setAccess] = useState<PortAccess>('public');
  const [password, setPassword] = useState('');
  const [cache, setCache] = useState<CacheChoice>(CACHE_OF_OPENED);
  const isHttps = outer.trim() !== '80' && (chosen ?? (outer.trim() === '' || outer.trim() === '443'));
  const deed = useDeed(async () => {
    const port = Number(outer);
    const target = inner.trim() === '' ? {} : { target_port: Number(inner) };
    const guarded = access === 'public' ? {} : { access, ...(access === 'password' ? { password } : {}) };
    const tls = isHttps ? { tls: 'platform' as const, ...guarded } : {};
    await call('addIngress', { params: { id }, body: { port, ...target, ...tls, cache } });
    toast(t.network.opened(port));
    setOuter('');
    setInner('');
    setChosen(undefined);
    setAccess('public');
    setPassword('');
    setCache(CACHE_OF_OPENED);
  });
  const pair = `${outer.trim() || '443'}:${inner.trim() || outer.trim() || '8080'}${isHttps ? '/https' : ''}`;
  const isGuarded = isHttps && access !== 'public';
  const isPassed = outer.trim() === '443' && !isHttps;
  const numeric = { inputMode: 'numeric', maxLength: 5, autocomplete: 'off' } as const;
  return (
    <Form class="stack" deed={deed}>
      <div class="inline">
        <TextField
          label={t.network.outer}
          hint={t.network.outerHint}
          error={fieldError(deed.error, 'port')}
          value={outer}
          onInput={setOuter}
          attributes={{ ...numeric, required: true }}
        />
        <TextField
          label={t.network.inner}
          hint={t.network.innerHint}
          error={fieldError(deed.error, 'target_port')}
          value={inner}
          onInput={setInner}
          attributes={numeric}
        />
      </div>
      {outer.trim() !== '80' && (
        <Check label={t.network.https} hint={t.network.httpsHint} checked={isHttps} onChange={setChosen} />
      )}
      {isHttps && (
        <AccessFields
          access={access}
          onAccess={setAccess}
          password={password}
          onPassword={setPassword}
          error={fieldError(deed.error, 'password')}
        />
      )}
      {!isGuarded && !isPassed && <CacheField value={cache} onChange={setCache} />}
      <FormFailure of={deed} />
      <div class="row wrap">
        <Button type="submit" kind="main" busy={deed.isBusy}>
          {t.network.add}
        </Button>
      </div>
      <AsCommand
        troupe={troupeLine(
          ...['port', 'add', name, pair],
          ...(isGuarded ? ['--access', access] : []),
          ...(cache === CACHE_OF_OPENED ? [] : ['--cache', cache]),
        )}
        curl={curlLine('POST', `/compute/containers/${id}/ingress`, {
          port: Number(outer) || 443,
          target_port: Number(inner) || 8080,
          ...(isHttps ? { tls: 'platform' } : {}),
          ...(isGuarded ? { access } : {}),
          ...(isGuarded && access === 'password' ? { password: '...' } : {}),
          cache,
        })}
      />
    </Form>
  );
}

function Hostnames({ id }: { readonly id: string }) {
  const mappings = useLoaded((signal) => client.call('listMappings', undefined, { signal }), [id]);
  const own = mappings.value?.domains.filter(({ container_id }) => container_id === id) ?? [];
  return (
    <Panel
      title={t.shell.hostnames}
      aside={
        <LinkButton kind="bare" icon={Globe} href={`/hostnames?container=${id}`}>
          {t.network.map}
        </LinkButton>
      }
    >
      <Failure error={mappings.error} onRetry={mappings.reload} />
      {mappings.value !== undefined && own.length === 0 && <p class="inside faint small">{t.network.noHostname}</p>}
      <Rows>
        {own.map((mapping) => (
          <RowOf
            key={mapping.id}
            name={mapping.domain}
            about={[t.hostnames.leadsTo(mapping.target_port), t.cache.shown[mapping.cache ?? 'default']]}
            actions={<MappingStatus status={mapping.status} />}
          />
        ))}
      </Rows>
    </Panel>
  );
}
