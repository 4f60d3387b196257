/**
 * Leads back to a page that is for its owner alone: the gateway sends browsers here that it does not know. Whoever is
 * logged in gets an entry from the platform, and goes back with it.
 */
import { useEffect } from 'preact/hooks';
import { addressOfPort, addressOfSite, readableHost } from '../../../client/index.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { place } from '../../core/router.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Bones, Failure, Note } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { t } from '../../text/text.ts';

/** `unknown`: nothing of this person is there. */
type EnterOutcome = { readonly href: string } | 'unknown';

export function Enter() {
  const { query } = place.value;
  const [host, port, path] = [query.get('host') ?? '', query.get('port') ?? '', query.get('path') ?? '/'];
  const found = useLoaded((signal) => entryOf(host, port, path, signal), [host, port, path]);
  const href = typeof found.value === 'object' ? found.value.href : undefined;
  useEffect(() => {
    // This page has nothing to come back to.
    if (href !== undefined) location.replace(href);
  }, [href]);
  return (
    <Page title={t.enter.title} lead={t.enter.lead(host)} narrow>
      <div class="stack">
        {found.value === 'unknown' ? (
          <>
            <Note tone="warn">{t.enter.notYours(host)}</Note>
            <div class="row">
              <LinkButton href="/containers">{t.enter.own}</LinkButton>
            </div>
          </>
        ) : found.error === undefined ? (
          <Bones tall={48} />
        ) : (
          <Failure error={found.error} onRetry={found.reload} />
        )}
      </div>
    </Page>
  );
}

async function entryOf(host: string, port: string, path: string, signal: AbortSignal): Promise<EnterOutcome> {
  const [{ containers }, { domains }, { ports: gateway }] = await Promise.all([
    client.call('listContainers', undefined, { signal }),
    client.call('listMappings', undefined, { signal }),
    client.call('showPlatformFacts', undefined, { signal }),
  ]);
  const own = containers.find((each) => each.hostname === host || readableHost(each) === host);
  const id = own?.id ?? domains.find(({ domain }) => domain === host)?.container_id;
  if (id === undefined || !/^\d+$/.test(port)) return 'unknown';
  const { url } = await call('enterIngress', { params: { id, port }, body: { host, path } }, { signal });
  const from = { page: location, gateway };
  const outside =
    own === undefined
      ? addressOfSite(host, 'https', from)
      : addressOfPort(host, { port: Number(port), tls: 'platform' }, from);
  const to = new URL(url);
  // The platform does not know on which port this browser reaches its gateway.
  if (outside !== undefined) to.port = new URL(outside).port;
  return { href: to.href };
}
