/** An API token in a list: what it may do, how long, when it was used, and its end. */
import { Trash } from 'lucide';
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import { now } from '../../core/clock.ts';
import { unlessGone, useDeed } from '../../core/deed.ts';
import { dateOf, span } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { containers } from '../../live/live.ts';
import { Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { RowOf } from '../../parts/rows.tsx';
import { Status } from '../../parts/status.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { draftFrom, rightsSentence } from './scopes.ts';

export type ListedToken = CallReply<'listTokens'>[number];

/** From when on the end of a token is soon, ms. */
const SOON_MS = 14 * 86_400_000;

interface TokenRowProps {
  readonly token: ListedToken;
  readonly onGone: () => void;
}

export function TokenRow({ token, onGone }: TokenRowProps) {
  const [isAsked, setAsked] = useState(false);
  const { name, scopes, last_used_at, service_account_id } = token;
  const nameOf = (id: string) => containers.value?.find((one) => one.id === id)?.name ?? id;
  return (
    <RowOf
      name={name}
      about={[
        ...(service_account_id === null ? [rightsSentence(draftFrom(scopes), nameOf)] : []),
        <Expiry of={token} />,
        last_used_at === 0 ? t.tokens.neverUsed : t.tokens.used(span(now.value - last_used_at * 1000)),
      ]}
      actions={<Button kind="bare" icon={Trash} label={t.tokens.delete(name)} onClick={() => setAsked(true)} />}
    >
      {isAsked && <RevokeToken token={token} onClose={() => setAsked(false)} onRevoked={onGone} />}
    </RowOf>
  );
}

/** Times are Unix seconds; 0 stands for never. */
function Expiry({ of: { expires_at } }: { readonly of: ListedToken }) {
  if (expires_at === 0) return <>{t.tokens.neverExpires}</>;
  const at = expires_at * 1000;
  if (at < now.value) return <Status shape="failed">{t.tokens.expired(dateOf(at))}</Status>;
  if (at - now.value < SOON_MS) return <Status shape="warn">{t.tokens.expiresOn(dateOf(at))}</Status>;
  return <>{t.tokens.expiresOn(dateOf(at))}</>;
}

interface RevokeTokenProps {
  readonly token: ListedToken;
  readonly onClose: () => void;
  readonly onRevoked: () => void;
}

function RevokeToken({ token: { id, name }, onClose, onRevoked }: RevokeTokenProps) {
  const deed = useDeed(async () => {
    await call('deleteToken', { params: { id } }).catch(unlessGone);
    toast(t.tokens.deleted(name));
    onRevoked();
  });
  return (
    <Confirm title={t.tokens.deleteTitle(name)} verb={t.tokens.deleteVerb} deed={deed} onClose={onClose}>
      <p class="dim">{t.tokens.deleteLead}</p>
    </Confirm>
  );
}
