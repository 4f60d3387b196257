/** API tokens: who holds which rights, and a new one, shown once. */
import { Plus, Ticket, Trash } from 'lucide';
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import { now } from '../../core/clock.ts';
import { useDeed } from '../../core/deed.ts';
import { dateOf, span } from '../../core/format.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Bones, Empty, Failure } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, Rows } from '../../parts/rows.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { NewToken } from './new.tsx';

type TokenLine = CallReply<'listTokens'>[number];

export function Tokens() {
  const [isAdding, setAdding] = useState(false);
  const [deleting, setDeleting] = useState<TokenLine>();
  const tokens = useLoaded((signal) => client.call('listTokens', undefined, { signal }));
  return (
    <Page
      title={t.shell.tokens}
      lead={t.tokens.lead}
      actions={
        <Button kind="main" icon={Plus} onClick={() => setAdding(true)}>
          {t.tokens.add}
        </Button>
      }
      narrow
    >
      <Failure error={tokens.error} onRetry={tokens.reload} />
      {tokens.value === undefined && tokens.error === undefined && <Bones tall={64} many={2} />}
      {tokens.value !== undefined && (
        <Panel>
          {tokens.value.length === 0 ? (
            <Empty icon={Ticket} title={t.tokens.none}>
              <p>{t.tokens.noneLead}</p>
            </Empty>
          ) : (
            <Rows>
              {tokens.value.map((token) => (
                <RowOf
                  key={token.id}
                  name={token.name}
                  about={aboutToken(token)}
                  actions={
                    <Button
                      kind="bare"
                      icon={Trash}
                      label={t.tokens.delete(token.name)}
                      onClick={() => setDeleting(token)}
                    />
                  }
                />
              ))}
            </Rows>
          )}
        </Panel>
      )}
      {isAdding && <NewToken onClose={() => setAdding(false)} onMade={tokens.reload} />}
      {deleting !== undefined && (
        <RevokeToken token={deleting} onClose={() => setDeleting(undefined)} onRevoked={tokens.reload} />
      )}
    </Page>
  );
}

/** Scopes, expiry and last use. Times are Unix seconds; 0 stands for none. */
function aboutToken({ scopes, expires_at, last_used_at, service_account_id }: TokenLine): string[] {
  const rights = Object.entries(scopes).map(([key, actions]) => `${withoutUser(key)}: ${actions.join(', ')}`);
  return [
    ...(service_account_id === null ? rights : [t.tokens.ofAccount]),
    expires_at === 0 ? t.tokens.neverExpires : t.tokens.expiresOn(dateOf(expires_at * 1000)),
    last_used_at === 0 ? t.tokens.neverUsed : t.tokens.used(span(now.value - last_used_at * 1000)),
  ];
}

/** `compute.containers` of `compute.<user>.containers`. */
function withoutUser(key: string): string {
  const [service = '', , ...rest] = key.split('.');
  return [service, ...rest].join('.');
}

interface RevokeTokenProps {
  readonly token: TokenLine;
  readonly onClose: () => void;
  readonly onRevoked: () => void;
}

function RevokeToken({ token: { id, name }, onClose, onRevoked }: RevokeTokenProps) {
  const deed = useDeed(async () => {
    await call('deleteToken', { params: { id } });
    toast(t.tokens.deleted(name));
    onRevoked();
  });
  return (
    <Confirm title={t.tokens.deleteTitle(name)} verb={t.tokens.deleteVerb} deed={deed} onClose={onClose}>
      <p class="dim">{t.tokens.deleteLead}</p>
    </Confirm>
  );
}
